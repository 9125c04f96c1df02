// The table of a model's ropes, its planes' frequencies and positions.
#include "model/rope_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "encoding_variants.h"
#include "golden.h"
#include "model/checkpoints/open_model.h"
#include "tests/model/open_error.h"

namespace phasescope::model {
namespace {

// base^(-2m/d), as the paper has it.
double frequency(double base, std::int64_t m, std::int64_t d) {
  return std::pow(base, -2.0 * static_cast<double>(m) / static_cast<double>(d));
}

ModelConfig of_four_layers() {
  ModelConfig config = tiny_config("rope", {{"base", 500.0}});
  config.layers = 4;
  return config;
}

TEST(RopePlan, SaysForEachLayerWhatTurns) {
  ModelConfig config = of_four_layers();
  config.attention.local_layers = {0, 2};
  config.attention.window = 7;
  config.attention.temperature = 0.5;
  config.attention.temperature_length = 16;
  config.attention.temperature_from = 1;
  config.attention.temperature_layers = {3};
  config.layer_groups = {{.layers = {3}, .encoding = EncodingConfig{"none", Json::object()}}};
  const std::vector<RopePlanRow> plan = rope_plan(config, 64);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].layers, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(plan[0].sees, "7 tokens");
  EXPECT_EQ(plan[0].encoding, "rope, half");
  EXPECT_EQ(plan[1].layers, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(plan[1].sees, "all");
  EXPECT_EQ(plan[2].encoding, "none");
  EXPECT_TRUE(plan[2].frequencies.empty());
  EXPECT_EQ(plan[2].temperature, "1 + 0.5 ln(1 + floor((i + 1) / 16))");
  EXPECT_EQ(plan[0].temperature, "");
  const auto planes = static_cast<std::size_t>(config.head_dim / 2);
  ASSERT_EQ(plan[0].frequencies.size(), planes);
  for (std::size_t m = 0; m < planes; ++m) {
    const double exact = frequency(500, static_cast<std::int64_t>(m), config.head_dim);
    // A power of the base, in float64.
    EXPECT_NEAR(plan[0].frequencies[m], exact, 1e-14 * exact);
  }
}

TEST(RopePlan, IsEmptyWhereNothingTurns) {
  EXPECT_TRUE(rope_plan(tiny_config("none"), 64).empty());
  EXPECT_TRUE(rope_plan(tiny_config("alibi"), 64).empty());
}

// Of the configuration alone, also where a model's own tensors say how far it turns.
TEST(RopePlan, IsMadeForEveryEncoding) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    for (const RopePlanRow& row : rope_plan(tiny_model(variant, at::kDouble)->config(), 64)) {
      for (const double frequency : row.frequencies) EXPECT_TRUE(std::isfinite(frequency));
    }
  }
}

TEST(RopePlan, SaysWhatYarnMultipliesAndWhichPartTurns) {
  ModelConfig config = of_four_layers();
  config.encoding.options = {{"scaling", "yarn"}, {"factor", 8.0}, {"partial_rotary_factor", 0.5}};
  const std::vector<RopePlanRow> plan = rope_plan(config, 64);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_NEAR(plan[0].magnitude, 0.1 * std::log(8.0) + 1, 1e-14);  // arXiv 2309.00071, Eq. 22
  const std::string all = std::to_string(config.head_dim);
  EXPECT_EQ(plan[0].channels, "first " + std::to_string(config.head_dim / 2) + " of " + all);
}

TEST(RopePlan, KeepsTheSlowPlanesStillWherePartOfThemTurns) {
  ModelConfig config = of_four_layers();
  config.head_dim = 20;
  config.encoding.options = {{"base", 1000.0}, {"turning_planes", 0.25}};
  const RopePlanRow row = rope_plan(config, 64).at(0);
  EXPECT_EQ(row.channels, "4 of 20");  // 0, 1 and their partners 10, 11
  const std::vector<double>& list = row.frequencies;
  ASSERT_EQ(list.size(), 10u);
  for (std::int64_t m = 0; m < 10; ++m) {
    // int(0.25 * 20 // 2) = 2 planes turn, with the powers of the whole head.
    const double exact = m < 2 ? frequency(1000, m, 20) : 0;
    EXPECT_NEAR(list[static_cast<std::size_t>(m)], exact, 1e-14);
  }
}

// Llama 4 Scout's ramp has no width: planes of more turns than one over the trained length stay,
// the others are divided.
TEST(RopePlan, KnowsARampWithoutWidth) {
  ModelConfig config = of_four_layers();
  config.encoding.options = {{"base", 500.0},          {"scaling", "llama3"},
                             {"factor", 16.0},         {"trained_context", 40},
                             {"low_freq_factor", 1.0}, {"high_freq_factor", 1.0}};
  const std::vector<double> list = rope_plan(config, 64).at(0).frequencies;
  std::int64_t kept = 0;
  for (std::int64_t m = 0; m < config.head_dim / 2; ++m) {
    const double plain = frequency(500, m, config.head_dim);
    const bool stays = 40 * plain / (2 * std::numbers::pi) > 1;
    EXPECT_NEAR(list[static_cast<std::size_t>(m)], stays ? plain : plain / 16, 1e-14);
    kept += stays;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, config.head_dim / 2);
}

TEST(RopePlan, ComparesWithWhatTheFileStores) {
  const ModelConfig config = of_four_layers();
  std::vector<double> stored;
  for (std::int64_t m = 0; m < config.head_dim / 2; ++m) {
    stored.push_back(frequency(500, m, config.head_dim));
  }
  std::vector<RopePlanRow> plan = rope_plan(config, 64, {{-1, stored}});
  ASSERT_TRUE(plan.at(0).stored_difference.has_value());
  EXPECT_LT(*plan[0].stored_difference, 1e-13);
  EXPECT_TRUE(frequency_warnings(plan).empty());
  stored.back() *= 1.25;
  plan = rope_plan(config, 64, {{2, stored}});
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_NEAR(plan[1].stored_difference.value_or(0), 0.25, 1e-12);
  ASSERT_EQ(frequency_warnings(plan).size(), 1u);
  EXPECT_NE(frequency_warnings(plan)[0].find("layer 2 differ from those applied by up to 25 %"),
            std::string::npos)
      << frequency_warnings(plan)[0];
  stored.pop_back();
  EXPECT_NE(frequency_warnings(rope_plan(config, 64, {{-1, stored}})).at(0).find("another number"),
            std::string::npos);
}

TEST(RopePlan, ComparesWithWhatTheLibraryWouldApply) {
  const ModelConfig library = of_four_layers();
  EXPECT_FALSE(rope_plan(library, 64).at(0).library_difference.has_value());
  EXPECT_EQ(rope_plan(library, 64, {}, &library).at(0).library_difference, 0.0);
  // theta to the -2m/d: the slowest plane differs most.
  ModelConfig changed = library;
  changed.encoding.options["base"] = 5000.0;
  const double slowest = 1 - 2.0 / static_cast<double>(library.head_dim);
  EXPECT_NEAR(rope_plan(changed, 64, {}, &library).at(0).library_difference.value_or(0),
              std::pow(10, slowest) - 1, 1e-9);
  // A layer that the library would leave alone.
  ModelConfig without = library;
  without.layer_groups = {{.layers = {3}, .encoding = EncodingConfig{"none", Json::object()}}};
  const std::vector<RopePlanRow> plan = rope_plan(library, 64, {}, &without);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[1].layers, (std::vector<std::int64_t>{3}));
  EXPECT_TRUE(std::isinf(plan[1].library_difference.value_or(0)));
  EXPECT_FALSE(rope_plan(without, 64, {}, &library).at(1).library_difference.has_value());
}

TEST(RopePlan, WritesLayersShort) {
  EXPECT_EQ(layers_text({0, 2, 3, 4, 5, 7, 8}), "0, 2-5, 7, 8");
  EXPECT_EQ(layers_text({}), "");
  EXPECT_EQ(words_of_layers({3}), "layer 3");
  EXPECT_EQ(words_of_layers({0, 1, 2, 5}), "layers 0-2, 5");
}

// Angles of planes that turn by several positions, from the state of one head.
at::Tensor angles_of(const Json& options, const at::Tensor& axes) {
  ModelConfig config = tiny_config("rope", options);
  const auto encoding = make_encoding(config);
  StartContext context;
  context.positions = {axes.size(2), 0, axes[0], axes};
  context.dtype = context.angle_dtype = at::kDouble;
  const at::Tensor z = encoding->start(context).z.squeeze(1);  // (B, N, 2, planes)
  return at::atan2(z.select(2, 1), z.select(2, 0));
}

TEST(SeveralPositions, TurnThePlanesOfTheirSections) {
  const std::int64_t planes = tiny_config("rope").head_dim / 2;
  ASSERT_GE(planes, 4);
  const at::Tensor axes = at::tensor({3, 1, 2, 0, 1, 2}, at::kLong).view({3, 1, 2});
  const Json blocks = {{"base", 100.0}, {"sections", {1, 1, planes - 2}}};
  const at::Tensor in_blocks = angles_of(blocks, axes);
  Json turns = {{"base", 100.0}, {"sections", {planes - 2, 1, 1}}};
  turns["section_order"] = "interleaved";
  const at::Tensor in_turns = angles_of(turns, axes);
  for (std::int64_t m = 0; m < planes; ++m) {
    for (std::int64_t token = 0; token < 2; ++token) {
      const double step = frequency(100, m, 2 * planes);
      const auto position = [&](std::int64_t axis) {
        return static_cast<double>(axes[axis][0][token].item<std::int64_t>());
      };
      const double block = position(std::min<std::int64_t>(m, 2)) * step;
      EXPECT_NEAR(in_blocks[0][token][m].item<double>(), block, 1e-14);  // below pi throughout
      // Height at plane 1 and width at plane 2, each its first plane alone.
      const double turn = position(m == 1 || m == 2 ? m : 0) * step;
      EXPECT_NEAR(in_turns[0][token][m].item<double>(), turn, 1e-14);
    }
  }
}

TEST(SeveralPositions, AreRefusedWhereTheyDoNotFit) {
  const at::Tensor axes = at::zeros({2, 1, 5}, at::kLong);
  const std::int64_t planes = tiny_config("rope").head_dim / 2;
  EXPECT_THROW(angles_of({}, axes), formats::Error);
  EXPECT_THROW(angles_of({{"sections", {1, 1, planes - 2}}}, axes), formats::Error);
  formats::ConfigProblems problems;
  check_model_config(tiny_config("rope", {{"sections", {1, 1, 1, planes}}}), problems);
  ASSERT_EQ(problems.list().size(), 1u);
  EXPECT_NE(problems.list()[0].find("planes turn"), std::string::npos) << problems.list()[0];
}

}  // namespace
}  // namespace phasescope::model
