#include "formats/json.h"

#include <nlohmann/json.hpp>

#include "support.h"

namespace phasescope::formats {
namespace {

TEST(ParseJson, AgreesWithTheLibrarysOwnParser) {
  for (const std::string text :
       {R"({"a": [1, -2, 2.5, 1e300, true, null, "x\u00e9\n"], "b": {"c": {}, "d": []}})", "3",
        "\"text\"", "[]", " [ [ ] , { } ] ", "18446744073709551615", "-9223372036854775808"}) {
    EXPECT_EQ(parse_json(text, "test"), Json::parse(text)) << text;
  }
}

TEST(ParseJson, NamesFileByteAndKey) {
  const Error error =
      error_of([] { parse_json(R"({"rope_scaling": {"factor": NaN}})", "config.json"); });
  EXPECT_EQ(error.code(), "bad_input");
  EXPECT_TRUE(tells(error, "config.json, byte 28"));
  EXPECT_TRUE(tells(error, "key rope_scaling.factor"));
  EXPECT_TRUE(tells(error_of([] { parse_json("", "x"); }), "byte 0"));
  EXPECT_TRUE(tells(error_of([] { parse_json("{} x", "x"); }), "byte 3"));
  EXPECT_TRUE(tells(error_of([] { parse_json("1e999", "x"); }), "number"));
}

TEST(ParseJson, CapsTheDepth_Row2) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(64), "x"));
  EXPECT_TRUE(tells(error_of([&] { parse_json(nested(65), "x"); }), "byte 64"));
  EXPECT_TRUE(tells(error_of([&] { parse_json(std::string(100'000, '['), "x"); }), "64 levels"));
  EXPECT_TRUE(tells(error_of([&] { parse_json(nested(4), "x", {.max_depth = 3}); }), "3 levels"));
}

TEST(ParseJson, RefusesDuplicateKeysWhereAsked_Row5) {
  const std::string text = R"({"a": {"b": 1, "c": 2, "b": 3}})";
  EXPECT_EQ(parse_json(text, "x")["a"]["b"], 3);
  const Error error =
      error_of([&] { parse_json(text, "x", {.duplicate_keys = DuplicateKeys::refuse}); });
  EXPECT_TRUE(tells(error, "\"b\" is there twice"));
  EXPECT_NO_THROW(
      parse_json(R"([{"b": 1}, {"b": 2}])", "x", {.duplicate_keys = DuplicateKeys::refuse}));
}

TEST(ParseJson, ShowsBrokenAndLongTextShortened) {
  const Error error = error_of([] { parse_json("{\"a\": \"\xC3(\"}", "x"); });
  EXPECT_TRUE(tells(error, "UTF-8"));
  const Error long_error = error_of([] { parse_json("\"" + std::string(100'000, 'x'), "x"); });
  EXPECT_LT(long_error.full_text().size(), 1000u);
}

TEST(JsonFromFile, NamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(json_from_file(folder.file("good.json", "{\"a\": 1}"))["a"], 1);
  EXPECT_TRUE(tells(error_of([&] { json_from_file(folder.file("bad.json", "{")); }), "bad.json"));
  EXPECT_TRUE(tells(error_of([&] { json_from_file(folder / "none.json"); }), "none.json"));
  EXPECT_TRUE(tells(error_of([&] { json_from_file(folder / "good.json", {}, 4); }), "at most 4"));
}

}  // namespace
}  // namespace phasescope::formats
