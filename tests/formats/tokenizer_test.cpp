#include "formats/tokenizer.h"

#include <nlohmann/json.hpp>

#include "support.h"

namespace phasescope::formats {
namespace {

std::string all_bytes() {
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
  return text + text;
}

TEST(ByteTokenizer, IdsAreBytesAfterABos) {
  const ByteTokenizer tokenizer;
  const TokenizedText text = tokenizer.encode("aé");
  EXPECT_EQ(text.ids, (std::vector<std::int64_t>{0, 'a', 0xC3, 0xA9}));
  ASSERT_EQ(text.spans.size(), 4u);
  EXPECT_EQ(text.spans[0].begin, text.spans[0].end);
  EXPECT_EQ(text.spans[2].begin, 1u);
  EXPECT_EQ(text.spans[2].end, 2u);
  EXPECT_EQ(tokenizer.encode("a", Template::leave_out).ids, std::vector<std::int64_t>{'a'});
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  EXPECT_EQ(tokenizer.bos_id(), 0);
}

TEST(ByteTokenizer, Row18_AnyBytesSurvive) {
  const std::string text = all_bytes() + "\xFF\xFE broken \xC3";
  for (const auto bos : {std::optional<std::int64_t>(0), std::optional<std::int64_t>(256),
                         std::optional<std::int64_t>()}) {
    const ByteTokenizer tokenizer(300, bos);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  }
}

TEST(ByteTokenizer, Row20_EmptyTextAndIdsOutOfRange) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.encode("").ids, std::vector<std::int64_t>{0});
  EXPECT_TRUE(tokenizer.encode("", Template::leave_out).ids.empty());
  EXPECT_EQ(tokenizer.decode({}), "");
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{256}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(error_of([&] { tokenizer.decode(std::span(&id, 1)); }).code(), "bad_input");
    EXPECT_EQ(error_of([&] { tokenizer.token_text(id); }).code(), "bad_input");
  }
}

TEST(CheckIds, Row20_NamesTheFirstIdOutOfRange) {
  const std::vector<std::int64_t> ids = {0, 66, 67, 70};
  EXPECT_NO_THROW(check_ids(ids, 71, "ids.json"));
  EXPECT_NO_THROW(check_ids({}, 0, "ids.json"));
  const Error error = error_of([&] { check_ids(ids, 67, "ids.json"); });
  EXPECT_TRUE(tells(error, "id 67 at position 2"));
  EXPECT_TRUE(tells(error, "0 to 66"));
  EXPECT_TRUE(tells(error, "ids.json"));
  const std::vector<std::int64_t> negative = {-1};
  EXPECT_EQ(error_of([&] { check_ids(negative, 67, "x"); }).code(), "bad_input");
}

TEST(ByteTokenizer, SpecialTokensAreKeptWhereAsked) {
  const ByteTokenizer tokenizer(258, 257);
  const std::vector<std::int64_t> ids = {257, 'a', 256, 'b'};
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::keep), "[BOS]a[256]b");
}

TEST(TokenText, ShowsWhiteSpaceControlsAndBrokenBytes) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.token_text(0), "[BOS]");
  EXPECT_EQ(tokenizer.token_text('x'), "x");
  EXPECT_EQ(tokenizer.token_text(' '), "·");
  EXPECT_EQ(tokenizer.token_text('\n'), "⏎");
  EXPECT_EQ(tokenizer.token_text('\t'), "⇥");
  EXPECT_EQ(tokenizer.token_text(0x7F), "<0x7F>");
  EXPECT_EQ(tokenizer.token_text(0xC3), "<0xC3>");
}

TEST(VisibleText, KeepsCharactersAndMarksWhatDoesNotShow) {
  EXPECT_EQ(visible_text("a b\né"), "a·b⏎é");
  EXPECT_EQ(visible_text("\xE2\x80\x8B"), "<U+200B>");  // zero width space
  EXPECT_EQ(visible_text("\xE2\x80\xAE"), "<U+202E>");  // right-to-left override
  EXPECT_EQ(visible_text("\xC0\x80\xED\xA0\x80"), "<0xC0><0x80><0xED><0xA0><0x80>");
  EXPECT_EQ(visible_text("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(VisibleTokens, ShowACharacterOfSeveralTokensOnce) {
  const ByteTokenizer tokenizer;
  const auto ids = tokenizer.encode("é \xC3").ids;
  EXPECT_EQ(visible_tokens(tokenizer, ids),
            (std::vector<std::string>{"[BOS]", "é", "", "·", "<0xC3>"}));
}

TEST(MakeTokenizer, ReadsTheConfigurationsForm) {
  const Json description = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
  const auto tokenizer = make_tokenizer(description, "config.json", 256);
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->bos_id(), 0);
  EXPECT_EQ(make_tokenizer({{"type", "bytes"}}, "config.json")->bos_id(), std::nullopt);
}

TEST(MakeTokenizer, Row18_BadDescriptionsAreNamed) {
  const auto refused = [](const Json& description) {
    keep_case("wrong.tokenizer_section", description.dump());
    return error_of([&] { make_tokenizer(description, "config.json", 256); });
  };
  EXPECT_TRUE(tells(refused("bytes"), "config.json"));
  EXPECT_TRUE(tells(refused({{"type", "magic"}}), "magic"));
  EXPECT_TRUE(tells(refused({{"type", "bytes"}, {"vocab_size", 255}}), "tokenizer.vocab_size"));
  EXPECT_TRUE(tells(refused({{"type", "bytes"}, {"vocab_size", 257}}), "256 rows"));
  EXPECT_TRUE(tells(refused({{"type", "bytes"}, {"vocab_size", 1e30}}), "tokenizer.vocab_size"));
  EXPECT_TRUE(tells(refused({{"type", "bytes"}, {"bos", 256}}), "tokenizer.bos"));
  EXPECT_TRUE(tells(refused({{"type", "bytes"}, {"bos", "x"}}), "tokenizer.bos"));
  // Of 64 bits with a sign it would be -1.
  EXPECT_TRUE(tells(refused({{"type", "bytes"}, {"bos", 18446744073709551615u}}),
                    "but is 18446744073709551615"));
}

}  // namespace
}  // namespace phasescope::formats
