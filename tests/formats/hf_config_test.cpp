// Reading config.json: rows 15 to 17 of the table of faults, and both dialects of the rope fields.

#include "formats/hf_config.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "support.h"

namespace phasescope::formats {
namespace {

// All notes of a list hold this piece somewhere.
bool any_tells(const std::vector<std::string>& list, const std::string& piece) {
  for (const std::string& text : list) {
    if (text.find(piece) != std::string::npos) return true;
  }
  return false;
}

TEST(ConfigReader, ReadsFieldsUnderAnyOfTheirNames) {
  const Json config = {{"n_embd", 64},     {"eps", 1e-5},         {"tie", true},
                       {"act", "silu"},    {"whole", 4.0},        {"gone", nullptr},
                       {"list", {1, 2.5}}, {"names", {"a", "b"}}, {"inner", {{"x", 3}}}};
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  EXPECT_EQ(reader.integer({"hidden_size", "n_embd"}), 64);
  EXPECT_EQ(reader.number({"eps"}), 1e-5);
  EXPECT_EQ(reader.number({"n_embd"}), 64.0);
  EXPECT_EQ(reader.boolean({"tie"}), true);
  EXPECT_EQ(reader.text({"act"}), "silu");
  EXPECT_EQ(reader.integer({"whole"}), 4);
  EXPECT_EQ(reader.integer({"gone"}), std::nullopt);
  EXPECT_FALSE(reader.has("gone"));
  EXPECT_EQ(reader.integer_or({"gone"}, 7), 7);
  EXPECT_EQ(reader.numbers({"list"}), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(reader.texts({"names"}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reader.section("inner")->integer({"x"}), 3);
  EXPECT_FALSE(reader.section("gone").has_value());
  EXPECT_TRUE(problems.empty());
}

TEST(ConfigReader, TheFirstOfTwoNamesWinsAndAClashIsNoted) {
  const Json config = {{"hidden_size", 64}, {"n_embd", 128}, {"heads", 2}, {"n_head", 2}};
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  EXPECT_EQ(reader.integer({"hidden_size", "n_embd"}), 64);
  ASSERT_EQ(reader.notes().size(), 1u);
  EXPECT_TRUE(any_tells(reader.notes(), "64"));
  EXPECT_TRUE(any_tells(reader.notes(), "128"));
  reader.integer({"heads", "n_head"});
  EXPECT_EQ(reader.notes().size(), 1u);
}

TEST(ConfigReader, Row15_AllProblemsAreListedAtOnce) {
  const Json config = {{"num_attention_heads", 0},
                       {"num_hidden_layers", 1'000'000'000},
                       {"hidden_size", "64"},
                       {"rms_norm_eps", -1.0},
                       {"tie", 3},
                       {"act", true},
                       {"big", 1e300},
                       {"half", 2.5},
                       {"unsigned", 18446744073709551615ull}};
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  reader.required_integer({"num_attention_heads"});
  reader.required_integer({"num_hidden_layers"}, kLayerRange);
  reader.required_integer({"hidden_size"});
  reader.required_integer({"vocab_size"});
  reader.number({"rms_norm_eps"}, kPositiveRange);
  reader.boolean({"tie"});
  reader.text({"act"});
  reader.integer({"big"});
  reader.integer({"half"});
  reader.integer({"unsigned"});
  EXPECT_EQ(problems.list().size(), 10u);
  const Error error = error_of([&] { problems.throw_if_any("config.json"); });
  EXPECT_EQ(error.code(), "bad_input");
  EXPECT_TRUE(tells(error, "10 problems"));
  EXPECT_TRUE(tells(error, "config.json"));
  for (const std::string key :
       {"num_attention_heads", "num_hidden_layers", "hidden_size", "vocab_size: is missing",
        "rms_norm_eps", "tie", "act", "big", "half", "unsigned"}) {
    EXPECT_TRUE(tells(error, key));
  }
}

TEST(ConfigReader, AFieldOfTheClassIsNamedWhereItIsLeftOut) {
  const Json config = {{"vocab_size", 5}, {"num_heads", nullptr}, {"bad", 0}};
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  EXPECT_EQ(reader.integer_of_class("vocab_size", 7), 5);
  EXPECT_TRUE(reader.left_out().empty());
  EXPECT_EQ(reader.integer_of_class("head_dim", 256), 256);
  EXPECT_EQ(reader.left_out(), std::vector<std::string>{"head_dim 256"});
  EXPECT_TRUE(reader.has_or_null("num_heads") && !reader.has_or_null("head_dim"));
  EXPECT_TRUE(problems.empty());
  reader.integer_of_class("bad", 7);
  EXPECT_EQ(problems.list().size(), 1u);
}

TEST(ConfigReader, Row15_AProblemThatTwoReadersFindIsListedOnce) {
  const Json config = {{"tie_word_embeddings", "yes"}};
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  reader.boolean_or({"tie_word_embeddings"}, false);
  reader.boolean_or({"tie_word_embeddings"}, true);
  EXPECT_EQ(problems.list().size(), 1u);
}

TEST(ConfigReader, Row15_OfManyProblemsTheFirstTenAreShown) {
  ConfigProblems problems;
  for (int i = 0; i < 1000; ++i) problems.add("key" + std::to_string(i), "is missing");
  const Error error = error_of([&] { problems.throw_if_any("config.json"); });
  EXPECT_TRUE(tells(error, "1000 problems"));
  EXPECT_TRUE(tells(error, "key9: is missing; and 990 more"));
  EXPECT_FALSE(tells(error, "key10"));
}

TEST(ConfigReader, Row15_NoProblemNoError) {
  EXPECT_NO_THROW(ConfigProblems().throw_if_any("config.json"));
}

TEST(ConfigReader, Row15_WhatIsNoObjectIsAProblem) {
  ConfigProblems problems;
  const Json list = Json::array({1});
  EXPECT_FALSE(ConfigReader(list, problems).has("x"));
  const Json config = {{"text_config", 3}};
  ConfigReader(config, problems).section("text_config");
  ASSERT_EQ(problems.list().size(), 2u);
  EXPECT_TRUE(any_tells(problems.list(), "text_config: must be an object"));
}

TEST(CheckHeads, Row15_HeadsThatDoNotDivide) {
  ConfigProblems problems;
  check_heads(problems, 64, 4, 2, std::nullopt);
  check_heads(problems, 64, 3, 3, 16);  // an explicit head size need not divide
  EXPECT_TRUE(problems.empty());
  check_heads(problems, 64, 3, 3, std::nullopt);
  check_heads(problems, 64, 4, 3, std::nullopt);
  check_heads(problems, 64, 4, 0, std::nullopt);
  check_heads(problems, 64, 0, 4, std::nullopt);
  EXPECT_EQ(problems.list().size(), 4u);
}

struct RopeResult {
  RawRope rope;
  std::vector<std::string> problems;
};

RopeResult rope_of(const Json& config, std::string_view layer_type = {},
                   std::optional<std::int64_t> head_dim = {}) {
  keep_case("rope.config.json", config.dump());
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  RawRope rope = read_rope(reader, {.theta = 7000.0}, layer_type, head_dim);
  return {rope, problems.list()};
}

TEST(Rope, BothDialectsOfTheSameModelReadAlike) {
  for (const std::string model : {"llama", "llama_rope_linear", "llama_gqa_tied", "llama_bf16"}) {
    const auto folder = test_data("hf/models/" + model);
    const auto newer = rope_of(json_from_file(folder / "config.json")).rope;
    const auto older = rope_of(json_from_file(folder / "config.v4.json")).rope;
    EXPECT_EQ(newer.type, older.type) << model;
    EXPECT_EQ(newer.theta, older.theta) << model;
    EXPECT_EQ(newer.factor, older.factor) << model;
    EXPECT_TRUE(newer.notes.empty() && older.notes.empty()) << model;
  }
  const auto linear = rope_of(json_from_file(test_data("hf/models/llama_rope_linear/config.json")));
  EXPECT_EQ(linear.rope.type, "linear");
  EXPECT_EQ(linear.rope.theta, 50000.0);
  EXPECT_EQ(linear.rope.factor, 2.5);
}

TEST(Rope, DefaultsAndAliases) {
  EXPECT_EQ(rope_of(Json::object()).rope.theta, 7000.0);
  EXPECT_EQ(rope_of(Json::object()).rope.type, "default");
  const auto neox = rope_of({{"rotary_emb_base", 500}, {"rotary_pct", 0.25}}).rope;
  EXPECT_EQ(neox.theta, 500.0);
  EXPECT_EQ(neox.partial_rotary_factor, 0.25);
  EXPECT_EQ(rope_of({{"rotary_dim", 4}}, {}, 16).rope.partial_rotary_factor, 0.25);
  const Json phi = {
      {"rope_scaling", {{"type", "su"}, {"long_factor", {1, 2}}, {"short_factor", {1, 1}}}},
      {"original_max_position_embeddings", 64}};
  const auto longrope = rope_of(phi, {}, 4);
  EXPECT_EQ(longrope.rope.type, "longrope");
  EXPECT_EQ(longrope.rope.long_factor, (std::vector<double>{1, 2}));
  EXPECT_EQ(longrope.rope.original_max_position_embeddings, 64);
  EXPECT_TRUE(longrope.problems.empty());
}

TEST(Rope, InsideWinsOverOutsideAndTheClashShowsBothValues) {
  const auto clash =
      rope_of({{"rope_theta", 500000.0}, {"rope_parameters", {{"rope_theta", 1000.0}}}});
  EXPECT_EQ(clash.rope.theta, 1000.0);
  ASSERT_EQ(clash.rope.notes.size(), 1u);
  EXPECT_TRUE(any_tells(clash.rope.notes, "rope_theta 1000.0 in rope_parameters"));
  EXPECT_TRUE(any_tells(clash.rope.notes, "500000.0 outside"));
  const auto names =
      rope_of({{"rope_scaling", {{"type", "linear"}, {"rope_type", "dynamic"}, {"factor", 2}}}});
  EXPECT_EQ(names.rope.type, "dynamic");
  EXPECT_TRUE(any_tells(names.rope.notes, "linear"));
  const auto outside = rope_of({{"rope_theta", 500}, {"rotary_emb_base", 600}});
  EXPECT_EQ(outside.rope.theta, 500.0);
  EXPECT_EQ(outside.rope.notes.size(), 1u);
}

// As convert_rope_params_to_dict of transformers 5.23 has it: the base inside rope_parameters goes
// with the rest of it.
TEST(Rope, ScalingThatSaysSomethingReplacesAllOfTheParameters) {
  const Json parameters = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 5e5}};
  const auto both = rope_of(
      {{"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}, {"rope_parameters", parameters}});
  EXPECT_EQ(both.rope.type, "yarn");
  EXPECT_EQ(both.rope.factor, 2.0);
  EXPECT_EQ(both.rope.theta, 7000.0);
  EXPECT_TRUE(any_tells(both.rope.notes, "rope_scaling is taken over all of rope_parameters"));
  for (const Json& nothing : {Json(nullptr), Json::object()}) {
    const auto one = rope_of({{"rope_scaling", nothing}, {"rope_parameters", parameters}});
    EXPECT_EQ(one.rope.type, "linear");
    EXPECT_EQ(one.rope.theta, 5e5);
    EXPECT_TRUE(one.rope.notes.empty());
  }
}

TEST(Rope, NotesKeysThatNoRopeHasAndFactorsOfThePlainOne) {
  const auto alpha =
      rope_of({{"rope_scaling", {{"type", "dynamic"}, {"factor", 1.0}, {"alpha", 1000}}}}).rope;
  ASSERT_EQ(alpha.notes.size(), 1u);
  EXPECT_TRUE(any_tells(alpha.notes, "rope_scaling.alpha"));
  const auto plain = rope_of({{"rope_scaling", {{"factor", 8.0}}}}).rope;
  EXPECT_EQ(plain.type, "default");
  EXPECT_TRUE(any_tells(plain.notes, "factor 8.0 changes nothing"));
}

// As standardize_rope_params of transformers 5.23 has it.
TEST(Rope, TheTrainedLengthOutsideWinsButForNestedParameters) {
  const Json rope = {
      {"rope_type", "yarn"}, {"factor", 3}, {"original_max_position_embeddings", 30}};
  const auto flat = rope_of({{"rope_parameters", rope}, {"original_max_position_embeddings", 60}});
  EXPECT_EQ(flat.rope.original_max_position_embeddings, 60);
  EXPECT_TRUE(any_tells(flat.rope.notes, "60 outside is taken over 30 in rope_parameters"));
  EXPECT_EQ(rope_of({{"rope_parameters", rope}}).rope.original_max_position_embeddings, 30);
  const auto nested = rope_of(
      {{"rope_parameters", {{"full_attention", rope}}}, {"original_max_position_embeddings", 60}},
      "full_attention");
  EXPECT_EQ(nested.rope.original_max_position_embeddings, 30);
}

TEST(Rope, NestedByLayerType) {
  const Json config = {
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1e6}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}};
  EXPECT_EQ(rope_of(config, "sliding_attention").rope.theta, 1e4);
  EXPECT_EQ(rope_of(config, "sliding_attention").rope.factor, std::nullopt);
  EXPECT_EQ(rope_of(config, "full_attention").rope.factor, 8.0);
  // A class with one rope for all layers would not run with it.
  const auto problems = rope_of(config).problems;
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(any_tells(problems, "full_attention, sliding_attention"));
}

// One problem, and it names this key.
void expect_problem(const Json& config, const std::string& key,
                    std::optional<std::int64_t> head_dim = {}) {
  const auto result = rope_of(config, {}, head_dim);
  ASSERT_EQ(result.problems.size(), 1u) << config.dump();
  EXPECT_EQ(result.problems[0].rfind(key + ":", 0), 0u) << result.problems[0];
}

TEST(Rope, Row16_UnknownType) {
  expect_problem({{"rope_scaling", {{"type", "spiral"}, {"factor", 2}}}}, "rope_scaling.type");
  expect_problem({{"rope_parameters", {{"rope_type", "spiral"}}}}, "rope_parameters.rope_type");
  expect_problem({{"rope_parameters", {{"rope_type", 3}}}}, "rope_parameters.rope_type");
  expect_problem({{"rope_scaling", "linear"}}, "rope_scaling");
  // A name of classes that turn by several positions, which this one does not.
  expect_problem({{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}}}},
                 "rope_scaling.type");
}

// Null is no rope of a layer type; beside one it is.
TEST(Rope, NullsAloneAreNotNestedByLayerType) {
  const auto flat =
      rope_of({{"rope_parameters", {{"rope_type", nullptr}, {"rope_theta", nullptr}}}});
  EXPECT_TRUE(flat.problems.empty());
  EXPECT_EQ(flat.rope.theta, 7000.0);
  const Json nested = {{"full_attention", {{"rope_theta", 500.0}}}, {"sliding_attention", nullptr}};
  EXPECT_EQ(rope_of({{"rope_parameters", nested}}, "full_attention").rope.theta, 500.0);
}

// Of a class whose ropes turn by three positions; heads have eight planes.
RopeResult sections_of(const Json& rope, RopeAxes axes, std::array<std::int64_t, 3> of_class = {}) {
  const Json config = {{"rope_parameters", rope}};
  ConfigProblems problems;
  const ConfigReader reader(config, problems);
  RawRope read = read_rope(reader, {.axes = axes, .mrope_section = of_class}, {}, 16);
  return {read, problems.list()};
}

TEST(Rope, SectionsLieAsTheClassHasThemAndFillTheHead) {
  const Json good = {{"mrope_section", {4, 2, 2}}};
  const std::vector<std::int64_t> sizes = {4, 2, 2};
  const auto blocks = sections_of(good, RopeAxes::blocks);
  EXPECT_EQ(blocks.rope.mrope_section, sizes);
  EXPECT_FALSE(blocks.rope.mrope_interleaved);
  EXPECT_TRUE(blocks.rope.notes.empty() && blocks.problems.empty());
  const auto unsaid = sections_of(good, RopeAxes::interleaved);
  EXPECT_TRUE(unsaid.rope.mrope_interleaved);
  EXPECT_TRUE(unsaid.rope.notes.empty() && unsaid.problems.empty());
  Json other = good;
  other["mrope_interleaved"] = false;
  const auto denied = sections_of(other, RopeAxes::interleaved);
  EXPECT_TRUE(denied.rope.mrope_interleaved);
  EXPECT_TRUE(any_tells(denied.rope.notes, "rope_parameters.mrope_interleaved false is not read"));
  other["mrope_interleaved"] = true;
  EXPECT_TRUE(any_tells(sections_of(other, RopeAxes::blocks).problems, "lie side by side"));
  const auto of_class = sections_of(Json::object(), RopeAxes::interleaved, {4, 2, 2});
  EXPECT_EQ(of_class.rope.mrope_section, sizes);
  EXPECT_TRUE(any_tells(sections_of(Json::object(), RopeAxes::interleaved, {24, 20, 20}).problems,
                        "mrope_section: is missing, and the class's own [24,20,20] do not fit the "
                        "8 planes"));
  EXPECT_TRUE(any_tells(sections_of(Json::object(), RopeAxes::blocks).rope.notes,
                        "mrope_section is missing"));
}

TEST(Rope, BadSectionsAreRefusedAndThoseThatNoClassReadsAreNamed) {
  for (const auto& [sections, told] :
       {std::pair{Json{4, 4}, "must have three sections"},
        std::pair{Json{2, 2, 2, 2}, "must have three sections"},
        std::pair{Json::array(), "must have three sections"},
        std::pair{Json{2.9, 2.9, 2.2}, "whole numbers of planes, but has 2.9"},
        std::pair{Json{4, 2, 1}, "has 7 planes, not the 8 planes"},
        std::pair{Json{4, -2, 6}, "must be a list of numbers"},
        std::pair{Json("4, 2, 2"), "must be a list of numbers"}}) {
    const auto bad = sections_of({{"mrope_section", sections}}, RopeAxes::interleaved).problems;
    ASSERT_EQ(bad.size(), 1u) << sections.dump();
    EXPECT_TRUE(any_tells(bad, told)) << bad[0];
  }
  const auto unread =
      rope_of({{"rope_parameters", {{"mrope_section", {4, 2, 2}}, {"llama_4_scaling_beta", 0.1}}}});
  EXPECT_TRUE(unread.problems.empty());
  EXPECT_TRUE(unread.rope.mrope_section.empty());
  EXPECT_FALSE(unread.rope.llama_4_scaling_beta.has_value());
  EXPECT_TRUE(any_tells(unread.rope.notes, "mrope_section [4,2,2] is not read"));
  EXPECT_TRUE(any_tells(unread.rope.notes, "llama_4_scaling_beta 0.1 is not read"));
}

TEST(Rope, Row16_FactorZeroNaNTextOrMissing) {
  for (const Json& factor : {Json(0), Json(-2.0), Json("2"), Json("nan"), Json(true)}) {
    expect_problem({{"rope_scaling", {{"type", "linear"}, {"factor", factor}}}},
                   "rope_scaling.factor");
  }
  expect_problem({{"rope_scaling", {{"type", "linear"}}}}, "rope_scaling.factor");
  // A bare NaN is not JSON; the parser names the key.
  EXPECT_TRUE(tells(error_of([] {
                      parse_json(R"({"rope_scaling": {"type": "linear", "factor": NaN}})",
                                 "config.json");
                    }),
                    "rope_scaling.factor"));
}

TEST(Rope, Row16_LongropeListsOfTheWrongLength) {
  const Json good = {1.0, 1.5}, bad = {1.0, 1.5, 2.0};
  const auto config = [](const Json& longer, const Json& shorter) {
    return Json{{"rope_scaling",
                 {{"type", "longrope"}, {"long_factor", longer}, {"short_factor", shorter}}}};
  };
  EXPECT_TRUE(rope_of(config(good, good), {}, 4).problems.empty());
  expect_problem(config(bad, good), "rope_scaling.long_factor", 4);
  expect_problem(config(good, bad), "rope_scaling.short_factor", 4);
  expect_problem(config(good, {1.0, 0.0}), "rope_scaling.short_factor", 4);
  expect_problem(config(good, "x"), "rope_scaling.short_factor", 4);
  expect_problem(config(Json::array(), good), "rope_scaling.long_factor", 4);
  expect_problem(config(good, Json::array()), "rope_scaling.short_factor", 4);
  expect_problem({{"rope_scaling", {{"type", "longrope"}, {"long_factor", good}}}},
                 "rope_scaling.short_factor", 4);
}

TEST(Rope, Row16_BaseZeroOrNegative) {
  for (const Json& theta : {Json(0), Json(-1.0), Json("x")}) {
    expect_problem({{"rope_theta", theta}}, "rope_theta");
    expect_problem({{"rope_parameters", {{"rope_theta", theta}}}}, "rope_parameters.rope_theta");
  }
}

TEST(Rope, Row16_Llama3NeedsItsFields) {
  const Json good = {{"rope_type", "llama3"},
                     {"factor", 8},
                     {"low_freq_factor", 1},
                     {"high_freq_factor", 4},
                     {"original_max_position_embeddings", 64}};
  EXPECT_TRUE(rope_of({{"rope_scaling", good}}).problems.empty());
  for (const std::string key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    Json bad = good;
    bad.erase(key);
    expect_problem({{"rope_scaling", bad}}, "rope_scaling." + key);
  }
  Json without = good;
  without.erase("original_max_position_embeddings");
  const RopeResult whole = rope_of({{"rope_scaling", without}});
  EXPECT_TRUE(whole.problems.empty());
  EXPECT_FALSE(whole.rope.original_max_position_embeddings.has_value());
  ASSERT_EQ(whole.rope.notes.size(), 1u);
  EXPECT_NE(whole.rope.notes[0].find("counts its wavelengths from max_position_embeddings"),
            std::string::npos);
  for (const Json& bad : {Json(), Json(0), Json("x")}) {
    without["original_max_position_embeddings"] = bad;
    expect_problem({{"rope_scaling", without}}, "rope_scaling.original_max_position_embeddings");
  }
  Json other = good;
  other["high_freq_factor"] = 1;  // Llama 4 Scout: a ramp without width
  EXPECT_TRUE(rope_of({{"rope_scaling", other}}).problems.empty());
  other["high_freq_factor"] = 0.5;
  expect_problem({{"rope_scaling", other}}, "rope_scaling.high_freq_factor");
}

// standardize_rope_params of transformers 5.23: setdefault(key, max_position_embeddings); None is
// then divided by, or compared with a length.
TEST(Rope, WithoutATrainedLengthStretchesFromTheWholeAndSaysSo) {
  const std::string key = "original_max_position_embeddings";
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4}};
  const Json longrope = {
      {"rope_type", "longrope"}, {"long_factor", {1, 2}}, {"short_factor", {1, 1}}};
  for (const auto& [kind, said] :
       {std::pair{yarn, "yarn counts the turns of its planes over max_position_embeddings"},
        std::pair{longrope, "longrope takes its long factors past max_position_embeddings"}}) {
    Json rope = kind;
    const RopeResult missing = rope_of({{"rope_parameters", rope}}, {}, 4);
    EXPECT_TRUE(missing.problems.empty()) << kind;
    ASSERT_EQ(missing.rope.notes.size(), 1u) << kind;
    EXPECT_TRUE(any_tells(missing.rope.notes, key + " is missing: " + said)) << kind;
    EXPECT_TRUE(rope_of({{"rope_parameters", rope}, {key, 64}}, {}, 4).rope.notes.empty()) << kind;
    EXPECT_TRUE(any_tells(
        rope_of({{"rope_parameters", {{"full_attention", rope}}}}, "full_attention", 4).rope.notes,
        said))
        << kind;
    rope[key] = nullptr;
    expect_problem({{"rope_parameters", rope}}, "rope_parameters." + key, 4);
    rope[key] = 64;
    EXPECT_TRUE(rope_of({{"rope_parameters", rope}}, {}, 4).rope.notes.empty()) << kind;
  }
  const Json plain = {{"rope_type", "linear"}, {"factor", 4}};
  EXPECT_TRUE(rope_of({{"rope_parameters", plain}}).rope.notes.empty());
}

TEST(Rope, Row15_OddHeadSize) {
  expect_problem(Json::object(), "head_dim", 7);
  expect_problem({{"rotary_pct", 0.25}}, "head_dim", 12);
  EXPECT_TRUE(rope_of({{"rotary_pct", 0.5}}, {}, 12).problems.empty());
}

TEST(RemoteCode, Row17_IsNamedAndNeverRun) {
  ConfigProblems problems;
  const Json config = {{"auto_map", {{"AutoModel", "modeling_evil.Evil"}}}};
  const auto notice = remote_code_notice(ConfigReader(config, problems));
  ASSERT_TRUE(notice.has_value());
  EXPECT_NE(notice->find("never run"), std::string::npos);
  EXPECT_NE(notice->find("modeling_evil.Evil"), std::string::npos);
  const Json plain = Json::object();
  EXPECT_FALSE(remote_code_notice(ConfigReader(plain, problems)).has_value());
  EXPECT_TRUE(problems.empty());
}

}  // namespace
}  // namespace phasescope::formats
