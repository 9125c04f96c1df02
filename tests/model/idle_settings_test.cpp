#include "model/idle_settings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "golden.h"
#include "model/checkpoints/open_model.h"
#include "model/encoding.h"

namespace phasescope::model {
namespace {

std::vector<std::string> idle_options(const std::string& encoding, const Json& options) {
  return idle_settings(tiny_config(encoding, options));
}

TEST(IdleSettings, DefaultsAreNone) {
  EXPECT_TRUE(idle_settings(ModelConfig()).empty());
  for (const EncodingEntry& entry : encodings()) {
    EXPECT_TRUE(idle_options(entry.info->key, Json::object()).empty()) << entry.info->key;
  }
}

// A need that no choice can meet would warn for ever, and one that the defaults meet never.
TEST(IdleSettings, NeedsNameOptionsAndValuesThatAreThere) {
  for (const EncodingEntry& entry : encodings()) {
    const std::vector<OptionInfo>& options = entry.info->options;
    for (const OptionInfo& option : options) {
      if (!option.need) continue;
      const auto needed =
          std::find_if(options.begin(), options.end(),
                       [&](const OptionInfo& other) { return other.key == option.need->key; });
      ASSERT_NE(needed, options.end()) << entry.info->key << "." << option.key;
      EXPECT_FALSE(option.need->values.empty());
      for (const Json& value : option.need->values) {
        if (!value.is_string()) continue;
        const auto& choices = needed->choices;
        EXPECT_NE(std::find(choices.begin(), choices.end(), value.get<std::string>()),
                  choices.end())
            << entry.info->key << "." << option.key << " needs " << value;
      }
    }
  }
}

TEST(IdleSettings, OptionsThatAnotherOneSwitchesOff) {
  EXPECT_EQ(idle_options("rope", {{"beta_fast", 16.0}}),
            (std::vector<std::string>{
                "rope.beta_fast is set, but changes nothing unless scaling is yarn"}));
  EXPECT_TRUE(
      idle_options("rope", {{"beta_fast", 16.0}, {"scaling", "yarn"}, {"factor", 2.0}}).empty());
  EXPECT_EQ(idle_options("rope", {{"factor", 2.0}}).size(), 1u);
  EXPECT_EQ(idle_options("tapa", {{"phase_gain", 0.3}, {"phase_norm", 0.3}}).size(), 1u);
  EXPECT_TRUE(idle_options("tapa", {{"phase_gain", 0.3}}).empty());
  EXPECT_EQ(idle_options("cape", {{"form", "content"}, {"base", "alibi"}}).size(), 1u);
  EXPECT_EQ(idle_options("cape", {{"base_hidden", 16}}).size(), 1u);
  EXPECT_TRUE(idle_options("cape", {{"base", "fire"}, {"base_hidden", 16}}).empty());
  EXPECT_EQ(idle_options("tape", {{"length_scale", 2.0}}).size(), 1u);
  EXPECT_EQ(idle_options("tape", {{"start", "random_fourier"}, {"base", 500.0}}).size(), 1u);
}

TEST(IdleSettings, ScalingsThatStretchNothing) {
  for (const char* kind : {"linear", "ntk", "yarn", "llama3", "longrope"}) {
    EXPECT_EQ(idle_options("rope", {{"scaling", kind}}).size(), 1u) << kind;
  }
  for (const char* kind : {"linear", "ntk", "yarn", "llama3"}) {
    EXPECT_TRUE(idle_options("rope", {{"scaling", kind}, {"factor", 2.0}}).empty()) << kind;
  }
  // It grows with the text.
  EXPECT_TRUE(idle_options("rope", {{"scaling", "dynamic"}}).empty());
  const Json list = {1.0, 1.5, 2.0, 4.0};
  EXPECT_TRUE(idle_options("rope", {{"scaling", "longrope"}, {"long_factor", list}}).empty());
  EXPECT_EQ(idle_options("tape", {{"scaling", "yarn"}}).size(), 1u);
}

TEST(IdleSettings, FieldsOfTheModel) {
  ModelConfig config = tiny_config("rope");
  config.attention.window = 8;
  EXPECT_EQ(idle_settings(config), (std::vector<std::string>{"attention.window is set, but "
                                                             "attention.local_layers names no "
                                                             "layer"}));
  config.attention.local_layers = {1};
  EXPECT_TRUE(idle_settings(config).empty());
  config.attention.window = 0;
  EXPECT_EQ(idle_settings(config).size(), 1u);
  config = tiny_config("rope");
  config.local_encoding = EncodingConfig{"rope", {{"base", 100.0}}};
  EXPECT_EQ(idle_settings(config).size(), 1u);
  config = tiny_config("rope");
  config.positions.shift = 3;
  EXPECT_EQ(idle_settings(config).size(), 1u);
  config.positions.map = "shift";
  EXPECT_TRUE(idle_settings(config).empty());
  config.positions = {.factor = 2};
  EXPECT_EQ(idle_settings(config).size(), 1u);
  config.positions = {.map = "interpolate"};
  EXPECT_EQ(idle_settings(config).size(), 1u);
  config.positions = {.seed = 4};
  EXPECT_EQ(idle_settings(config).size(), 1u);
  config.positions = {.map = "random", .seed = 4};
  EXPECT_TRUE(idle_settings(config).empty());
  config = tiny_config("rope");
  config.head.soft_cap = 30;
  EXPECT_TRUE(idle_settings(config).empty());
  config.head.present = false;
  EXPECT_EQ(idle_settings(config).size(), 1u);
}

// They stand in the report as long as they hold.
TEST(IdleSettings, AreWarningsOfTheReport) {
  ModelConfig config = tiny_config("rope");
  config.attention.window = 8;
  const auto model = random_model(config, 1);
  EXPECT_EQ(model->report.warnings, idle_settings(config));
  EXPECT_EQ(in_dtype(model, at::kDouble)->report.warnings, idle_settings(config));
  EXPECT_TRUE(with_overrides(model, {{"attention.local_layers", "[0]"}})->report.warnings.empty());
  EXPECT_EQ(with_overrides(model, {{"rope.factor", "2"}})->report.warnings.size(), 2u);
}

TEST(IdleSettings, BundledModelsHaveNone) {
  const std::vector<BundledModel> all = bundled_models();
  ASSERT_FALSE(all.empty());
  for (const BundledModel& bundled : all) {
    EXPECT_TRUE(idle_settings(bundled.config).empty()) << bundled.name;
  }
}

}  // namespace
}  // namespace phasescope::model
