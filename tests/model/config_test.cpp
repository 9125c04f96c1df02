#include "model/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/near_names.h"
#include "golden.h"
#include "model/encoding.h"

namespace phasescope::model {
namespace {

std::string message_of(const Json& config) {
  try {
    read_model_config(config, "config.json");
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    return error.full_text();
  }
  return {};
}

TEST(ModelConfig, SurvivesWritingAndReading) {
  ModelConfig config = tiny_config("tapa", {{"alpha", 0.25}});
  config.tokenizer = {{"type", "bytes"}};
  config.note = "a note";
  const ModelConfig again = read_model_config(write_model_config(config), "config.json");
  EXPECT_EQ(write_model_config(again), write_model_config(config));
  EXPECT_EQ(again.encoding.key, "tapa");
  EXPECT_EQ(again.encoding.options.at("alpha"), 0.25);
  EXPECT_EQ(again.ffn_width, 20);
}

TEST(ModelConfig, TakesOurFieldNamesToo) {
  const ModelConfig config =
      read_model_config({{"width", 32}, {"heads", 4}, {"encoding", "alibi"}}, "config.json");
  EXPECT_EQ(config.width, 32);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.encoding.key, "alibi");
}

TEST(ModelConfig, StructureSurvivesWritingAndReading) {
  ModelConfig config = tiny_config("rope");
  config.residual = "sequential";
  config.encoder_layers = 2;
  config.decoder_start = 3;
  config.positions_skip_padding = true;
  config.norm = {"layer", true, true, "sandwich", false};
  config.attention.causal = false;
  config.attention.q_bias = config.attention.v_bias = config.attention.o_bias = true;
  config.attention.qk_norm = "head";
  config.attention.scale = 0.5;
  config.attention.scale_by_width = config.attention.layer_gain = true;
  config.attention.clip = 2.0;
  config.attention.soft_cap = 5.0;
  config.attention.window = 7;
  config.attention.local_layers = {0, 1};
  config.attention.log_scale = 64.0;
  config.attention.padding = "added";
  config.mlp = {false, "gelu_tanh", true, false};
  config.embedding = {12, 2.5, true, 3};
  config.head.transform = config.head.bias = true;
  config.head.scale = 0.25;
  config.head.soft_cap = 30.0;
  config.positions = {"interpolate", 3, 2.5, 90, "always", 7};
  config.local_encoding = EncodingConfig{"rope", {{"base", 100.0}}};
  const Json written = write_model_config(config);
  const ModelConfig again = read_model_config(written, "config.json");
  EXPECT_EQ(write_model_config(again), written);
  EXPECT_EQ(again.norm.placement, "sandwich");
  EXPECT_FALSE(again.norm.at_end);
  EXPECT_FALSE(again.attention.k_bias);
  EXPECT_EQ(again.attention.local_layers, (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(again.attention.layer_gain);
  EXPECT_EQ(again.attention.padding, "added");
  EXPECT_EQ(again.positions.factor, 2.5);
  EXPECT_EQ(again.positions.draw, "always");
  EXPECT_EQ(again.embedding.token_types, 3);
  EXPECT_EQ(again.head.soft_cap, 30.0);
  EXPECT_EQ(again.local_encoding->options.at("base"), 100.0);
}

TEST(ModelConfig, PlainOnesAreWrittenWithoutGroups) {
  const Json written = write_model_config(tiny_config("rope"));
  for (const char* group : {"norm", "attention", "mlp", "embedding", "head", "residual"}) {
    EXPECT_FALSE(written.contains(group)) << group;
  }
}

TEST(ModelConfig, ReadsOlderFilesOfOurs) {
  const ModelConfig config = read_model_config(
      {{"hidden_act", "relu"}, {"attention_bias", true}, {"mlp_bias", true}, {"encoding", "rope"}},
      "config.json");
  EXPECT_EQ(config.mlp.activation, "relu");
  EXPECT_TRUE(config.attention.q_bias && config.attention.o_bias);
  EXPECT_TRUE(config.mlp.up_bias && config.mlp.down_bias);
}

TEST(ModelConfig, RefusesStructureThatIsNotThere) {
  EXPECT_NE(message_of({{"norm", {{"kind", "batch"}}}}).find("known: rms, layer"),
            std::string::npos);
  EXPECT_NE(message_of({{"norm", {{"knd", "rms"}}}}).find("near: kind"), std::string::npos);
  EXPECT_NE(message_of({{"attention", {{"local_layers", {9}}}}}).find("local_layers"),
            std::string::npos);
  EXPECT_NE(
      message_of({{"residual", "parallel"}, {"norm", {{"placement", "post"}}}}).find("parallel"),
      std::string::npos);
}

// A table of so many planes would be computed first.
TEST(ModelConfig, RefusesHeadsThatNoMemoryHolds) {
  const std::string text = message_of({{"heads", 4}, {"head_dim", std::int64_t{1} << 31}});
  EXPECT_NE(text.find("head_dim: heads of 2147483648 channels"), std::string::npos) << text;
}

TEST(ModelConfig, ListsAllProblemsAtOnce) {
  const std::string text =
      message_of({{"widht", 32}, {"heads", -1}, {"norm_eps", "small"}, {"layers", 2}});
  EXPECT_NE(text.find("widht"), std::string::npos) << text;
  EXPECT_NE(text.find("width"), std::string::npos) << text;  // the near name
  EXPECT_NE(text.find("heads"), std::string::npos) << text;
  EXPECT_NE(text.find("eps"), std::string::npos) << text;
}

TEST(ModelConfig, RefusesEncodingsAndOptionsThatAreNotThere) {
  EXPECT_NE(message_of({{"encoding", "rop"}}).find("near: rope"), std::string::npos);
  EXPECT_NE(message_of({{"encoding", {{"key", "rope"}, {"bsae", 1.0}}}}).find("near: base"),
            std::string::npos);
  EXPECT_NE(message_of({{"encoding", {{"key", "rope"}, {"base", -1.0}}}}).find("rope.base"),
            std::string::npos);
  EXPECT_NE(message_of({{"encoding", {{"key", "tape"}, {"gate_input", "x"}}}}).find("known"),
            std::string::npos);
  EXPECT_NE(
      message_of({{"encoding", {{"key", "tape"}}}, {"heads", 4}, {"kv_heads", 2}}).find("key head"),
      std::string::npos);
}

// Once each, in plain words, and nothing that follows from another one.
TEST(ModelConfig, SaysWhatIsTrueOfABadConfigurationAndNoMore) {
  EXPECT_EQ(
      message_of({{"encoding", {{"key", "rope"}, {"base", -1.0}}}}),
      "the configuration cannot be used: rope.base: must be above 0, but is -1.0 (config.json)");
  EXPECT_EQ(message_of({{"encoding", {{"key", "tapa"}, {"split", 2.0}}}}),
            "the configuration cannot be used: tapa.split: must be from 0.0 to 1.0, but is 2.0 "
            "(config.json)");
  EXPECT_EQ(message_of({{"encoding", {{"key", "cope"}, {"positions", 1}}}}),
            "the configuration cannot be used: cope.positions: must be from 2 to 1048576, but is "
            "1 (config.json)");
  EXPECT_EQ(message_of({{"encoding", {{"key", "tapa"}, {"phase_gain", -1.0}}}}),
            "the configuration cannot be used: tapa.phase_gain: must be at least 0.0, but is -1.0 "
            "(config.json)");
  EXPECT_EQ(message_of({{"encoding", "tape"}, {"heads", 4}, {"kv_heads", 2}}),
            "the configuration cannot be used: encoding: tape needs a key head for every head, but "
            "there are 2 for 4 (config.json)");
  // Four heads are not meant, so nothing is said of them beside 2 key heads, which tape refuses.
  const std::string text = message_of({{"heads", 0},
                                       {"kv_heads", 2},
                                       {"layers", 2},
                                       {"residual", "none"},
                                       {"encoding", {{"key", "tape"}, {"start", "x"}}}});
  EXPECT_NE(text.find("has 3 problems"), std::string::npos) << text;
  EXPECT_NE(text.find("heads: must be"), std::string::npos) << text;
  EXPECT_NE(text.find("residual: "), std::string::npos) << text;
  EXPECT_NE(text.find("tape.start: "), std::string::npos) << text;
}

TEST(SetField, ChangesOneFieldByItsName) {
  ModelConfig config = tiny_config("rope");
  set_field(config, "rope.base", "1e6");
  EXPECT_EQ(config.encoding.options.at("base").get<double>(), 1e6);
  set_field(config, "encoding.layout", "interleaved");
  EXPECT_EQ(config.encoding.options.at("layout"), "interleaved");
  set_field(config, "context", "64");
  EXPECT_EQ(config.context, 64);
  set_field(config, "attention.window", "9");
  EXPECT_EQ(config.attention.window, 9);
  set_field(config, "attention_bias", "true");
  EXPECT_TRUE(config.attention.v_bias);
  set_field(config, "hidden_act", "gelu");
  EXPECT_EQ(config.mlp.activation, "gelu");
  EXPECT_THROW(set_field(config, "rope.bose", "1"), formats::Error);
  EXPECT_THROW(set_field(config, "contxt", "1"), formats::Error);
  EXPECT_THROW(set_field(config, "tapa.alpha", "1"), formats::Error);
}

TEST(Encodings, SayWhatTheyAre) {
  for (const EncodingEntry& entry : encodings()) {
    EXPECT_FALSE(entry.info->key.empty());
    EXPECT_FALSE(entry.info->title.empty());
    EXPECT_FALSE(entry.info->formula.empty());
    EXPECT_FALSE(entry.info->source.empty());
    for (const OptionInfo& option : entry.info->options) EXPECT_FALSE(option.help.empty());
  }
}

TEST(NearNames, FindsMisspellingsAndParts) {
  EXPECT_EQ(formats::near_names("bsae", {"base", "layout"}), "; near: base");
  EXPECT_EQ(formats::near_names("factor", {"rope_factor", "x"}), "; near: rope_factor");
  EXPECT_EQ(formats::near_names("qqqqqq", {"a1", "b2"}), "; known: a1, b2");
  EXPECT_EQ(formats::hint_of_names({"bsae", "bse", "x"}, {"base", "layout"}), "near: base");
  EXPECT_EQ(formats::hint_of_names({"qqqqqq"}, {"base", "layout"}), "known: base, layout");
}

}  // namespace
}  // namespace phasescope::model
