#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden.h"
#include "model/config.h"
#include "model/encoding.h"
#include "model/near_names.h"

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
  EXPECT_NE(message_of({{"encoding", {{"key", "tape"}}}, {"heads", 4}, {"kv_heads", 2}})
                .find("key head"),
            std::string::npos);
}

TEST(SetField, ChangesOneFieldByItsName) {
  ModelConfig config = tiny_config("rope");
  set_field(config, "rope.base", "1e6");
  EXPECT_EQ(config.encoding.options.at("base").get<double>(), 1e6);
  set_field(config, "encoding.layout", "interleaved");
  EXPECT_EQ(config.encoding.options.at("layout"), "interleaved");
  set_field(config, "context", "64");
  EXPECT_EQ(config.context, 64);
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
  EXPECT_EQ(near_names("bsae", {"base", "layout"}), "; near: base");
  EXPECT_EQ(near_names("factor", {"rope_factor", "x"}), "; near: rope_factor");
  EXPECT_EQ(near_names("qqqqqq", {"a1", "b2"}), "; known: a1, b2");
}

}  // namespace
}  // namespace phasescope::model
