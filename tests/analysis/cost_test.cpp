#include "analysis/cost.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>

#include "formats/error.h"
#include "model/checkpoints/config_without_weights.h"
#include "tests/golden_folder.h"

namespace phasescope::analysis {
namespace {

// The 155M model of TAPE's Table 3: 12 layers, width 768, 12 heads, FFN 3072, 32000 ids.
model::ModelConfig paper_config(const std::string& encoding) {
  model::ModelConfig config;
  config.vocab_size = 32000;
  config.width = 768;
  config.layers = 12;
  config.heads = config.kv_heads = 12;
  config.head_dim = 64;
  config.ffn_width = 3072;
  config.context = 1024;
  config.encoding.key = encoding;
  return config;
}

void expect_share(double value, double expected, double share) {
  EXPECT_NEAR(value / expected, 1, share) << value << " against " << expected;
}

TEST(Cost, PublishedNumbersOfRope) {
  const auto cost = analyse_cost(paper_config("rope"), "rope", 1024);
  expect_share(cost.published.macs, 160.46e9, 0.005);
  expect_share(cost.published.flops, 321.10e9, 0.015);
  expect_share(cost.published.parameters_mi, 154.89, 0.0005);
}

TEST(Cost, PublishedNumbersOfTape) {
  auto config = paper_config("tape");
  config.encoding.options = {{"hidden", 48}};
  const auto cost = analyse_cost(config, "tape", 1024);
  expect_share(cost.published.macs, 180.69e9, 0.005);
  expect_share(cost.published.flops, 365.65e9, 0.015);
  expect_share(cost.published.parameters_mi, 155.33, 0.0005);
}

TEST(Cost, ExecutedCountsCausalPairs) {
  model::ModelConfig config = paper_config("none");
  const double n = 512;
  const auto cost = analyse_cost(config, "none", 512);
  const double linear = 12 * (4 * 768.0 * 768 + 3 * 768.0 * 3072) + 32000 * 768.0;
  const double attention = 12 * 12 * 2 * 64 * n * (n + 1) / 2;
  EXPECT_DOUBLE_EQ(cost.executed.macs, linear * n + attention);
  EXPECT_DOUBLE_EQ(cost.macs, cost.executed.macs);
  EXPECT_EQ(cost.published.parameters, cost.executed.parameters);
  double parts = 0;
  for (const auto& part : cost.parts) parts += part.macs;
  EXPECT_DOUBLE_EQ(parts, cost.executed.macs);
}

TEST(Cost, TiedHeadCountsOnceExecuted) {
  auto config = paper_config("none");
  config.tie_embeddings = true;
  const auto cost = analyse_cost(config, "none", 16);
  EXPECT_DOUBLE_EQ(cost.published.parameters - cost.executed.parameters, 32000.0 * 768);
}

TEST(Cost, HalfWidthStateCostsHalfOfAStream) {
  const auto tape = analyse_cost(paper_config("tape"), "tape", 1024);
  const auto rope = analyse_cost(paper_config("rope"), "rope", 1024);
  const double stream = 12 * 12 * 64 * 1024.0 * 1025 / 2;
  const double updates = tape.executed.macs - rope.executed.macs - stream;
  EXPECT_GT(updates, 0);
  EXPECT_LT(updates, stream);  // gate, position MLP, post-attention linear
}

// A multiply-add for each score and, for each head, two sums over at most 33 pieces of 32 units.
// Under CAPE one for each head and hidden unit of a pair, and sums of the pieces for each of its 32
// units too, in place of a table of them by distance; without a causal mask the whole network for
// each pair.
TEST(Cost, FirePastItsThresholdRunsByThePiecesOfItsNetwork) {
  const double n = 1024, layers = 12, heads = 12;  // the threshold is 512
  auto config = paper_config("none");
  const auto added = [&](const std::string& encoding, const model::Json& options) {
    const double none = analyse_cost(config, "none", 1024).executed.macs;
    auto other = config;
    other.encoding = {encoding, options};
    return analyse_cost(other, encoding, 1024).executed.macs - none;
  };
  const model::Json kerple = {{"base", "kerple_log"}}, fire = {{"base", "fire"}};
  EXPECT_NEAR(added("fire", model::Json::object()),
              layers * heads * (n * (n + 1) / 2 + 2 * 32 * 33), 1);
  EXPECT_NEAR(
      added("cape", fire) - added("cape", kerple),
      layers * ((32 + heads) * n * (n + 1) / 2 + heads * 2 * 33 * (32 + 32) - heads * 32 * n), 1);
  const double network = layers * 32 * (1 + heads) * n * n;
  config.attention.causal = false;
  EXPECT_NEAR(added("fire", model::Json::object()), network, 1);
}

// The kernel multiplies the content scores alone with the correction's first layer; the biases'
// half goes by distance.
TEST(Cost, CapesBiasesGoThroughItsFirstLayerOnce) {
  const double n = 256, layers = 12, heads = 12, units = 32;
  const auto none = analyse_cost(paper_config("none"), "none", 256);
  for (const auto& [form, inputs, table] :
       {std::tuple{"concat_residual", 2, 1}, std::tuple{"add_residual", 1, 1},
        std::tuple{"content", 1, 0}}) {
    auto config = paper_config("cape");
    config.encoding.options = {{"form", form}};
    if (table) config.encoding.options["base"] = "kerple_log";
    const auto cape = analyse_cost(config, "cape", 256);
    EXPECT_NEAR(cape.published.macs - none.published.macs,
                layers * heads * units * (inputs + 1) * n * n, 1)
        << form;
    EXPECT_NEAR(cape.executed.macs - none.executed.macs,
                layers * heads * units * (n * (n + 1) + table * n), 1)
        << form;
  }
}

TEST(Cost, WithoutAGateTheMlpHasTwoMatrices) {
  auto config = paper_config("none");
  const double gated = analyse_cost(config, "none", 16).executed.macs;
  config.mlp.gated = false;
  const double plain = analyse_cost(config, "none", 16).executed.macs;
  EXPECT_DOUBLE_EQ(gated - plain, 16 * 12 * 768.0 * 3072);
}

// Pairs by counting them one by one.
double pairs_of(std::int64_t n, bool causal, std::int64_t window) {
  double count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const bool seen = !causal || j <= i;
      const bool near = window == 0 || std::abs(i - j) < window;
      count += seen && near ? 1 : 0;
    }
  }
  return count;
}

TEST(Cost, ExecutedCountsWhatAQuerySees) {
  for (const bool causal : {true, false}) {
    for (const std::int64_t window : {0, 1, 7, 40}) {
      auto config = paper_config("none");
      config.attention.causal = causal;
      config.attention.window = window;
      config.attention.local_layers = {1, 2, 3, 5, 9};
      const auto cost = analyse_cost(config, "none", 23);
      const double pairs = 5 * pairs_of(23, causal, window) + 7 * pairs_of(23, causal, 0);
      for (const auto& part : cost.parts) {
        if (part.name != "scores and weighted values") continue;
        EXPECT_NEAR(part.macs, 2 * 12 * 64 * pairs, 1e-6 * part.macs) << causal << ' ' << window;
      }
    }
  }
}

// Five of twelve layers add a table of 32 buckets for each of 12 heads to the scores of the keys in
// their window, and rotate nothing; the seven others turn q and k.
TEST(Cost, LocalLayersHaveTheirOwnEncoding) {
  const double n = 23;
  auto config = paper_config("rope");
  config.attention.window = 7;
  config.attention.local_layers = {1, 2, 3, 5, 9};
  const auto alike = analyse_cost(config, "alike", 23);
  config.local_encoding = model::EncodingConfig{"t5", {{"buckets", 32}}};
  const auto cost = analyse_cost(config, "gemma's way", 23);
  const double turned = 3 * n * (12 + 12) * 64;  // operations of one layer
  EXPECT_DOUBLE_EQ(cost.executed.macs, alike.executed.macs);
  EXPECT_NEAR(cost.executed.flops - alike.executed.flops, 5 * (12 * pairs_of(23, true, 7) - turned),
              1e-3);
  EXPECT_NEAR(cost.published.flops - alike.published.flops, 5 * (12 * n * n - turned), 1e-3);
  EXPECT_EQ(cost.executed.parameters - alike.executed.parameters, 32 * 12);
  double parameters = 0;
  for (const auto& part : cost.parts) {
    if (part.name == "rope and local layers, t5: parameters") parameters = part.parameters;
  }
  EXPECT_EQ(parameters, 32 * 12);
}

TEST(Cost, HeadsAsTheyAre) {
  auto config = paper_config("none");
  const double plain = analyse_cost(config, "none", 10).executed.macs;
  config.head.transform = true;  // BERT's
  EXPECT_DOUBLE_EQ(analyse_cost(config, "none", 10).executed.macs - plain, 10 * 768.0 * 768);
  config.head = {.present = false};
  EXPECT_DOUBLE_EQ(plain - analyse_cost(config, "none", 10).executed.macs, 10 * 768.0 * 32000);
  config = paper_config("none");
  config.embedding.width = 256;  // OPT's: projected in and out, the head narrower
  EXPECT_DOUBLE_EQ(analyse_cost(config, "none", 10).executed.macs - plain,
                   10 * (2 * 768.0 * 256 + 256 * 32000.0 - 768 * 32000.0));
}

TEST(Cost, MatricesOfAllPartsAreThoseOfTheModel) {
  for (const bool projected : {false, true}) {
    auto config = paper_config("none");
    config.attention.causal = false;
    config.head.transform = true;
    if (projected) config.embedding.width = 256;
    const auto cost = analyse_cost(config, "none", 10);
    double parts = 0;
    for (const auto& part : cost.parts) parts += part.parameters;
    // The rest are norms and the transform's bias.
    EXPECT_GE(cost.executed.parameters, parts);
    EXPECT_LT(cost.executed.parameters - parts, 30 * 768);
  }
}

// ---- an encoder with a decoder ------------------------------------------------------------------

// Multiply-accumulates of torch's FlopCounterMode (of aten's mm and bmm, halved; eager attention)
// and sums of numel() over parameters(), for transformers' T5ForConditionalGeneration with these
// files, 20 tokens for each of the two stacks. It multiplies N x N whatever is masked.
TEST(Cost, EncoderDecodersAreAsTorchCountsThem) {
  struct Row {
    const char* model;
    double macs, parameters;
  };
  int read = 0;
  for (const Row& row : {Row{"hf/models/t5", 1059360, 45876},         // tied
                         Row{"hf/models/t5_v11", 1033600, 49672}}) {  // gated, a head of its own
    const std::filesystem::path folder = golden_path(row.model);
    if (folder.empty()) continue;  // tests/data holds the first one
    ++read;
    const auto config = model::config_without_weights(folder.string());
    const auto cost = analyse_cost(config, row.model, 20);
    EXPECT_EQ(cost.published.macs, row.macs) << row.model;
    EXPECT_EQ(cost.executed.parameters, row.parameters) << row.model;
    // Published numbers count a tied head as a matrix of its own: 80 ids of width 36.
    EXPECT_EQ(cost.published.parameters - row.parameters, config.tie_embeddings ? 80 * 36 : 0);
    double macs = 0, parameters = 0;
    for (const auto& part : cost.parts) {
      macs += part.macs;
      parameters += part.parameters;
    }
    EXPECT_EQ(cost.executed.macs, macs) << row.model;
    // Parts count a tied head too; the rest are norms: two a layer of the encoder, three of the
    // decoder, and one after each stack.
    const auto norms =
        static_cast<double>(config.width * (2 * config.encoder_layers + 3 * config.layers + 2));
    EXPECT_EQ(cost.published.parameters, parameters + norms) << row.model;
  }
  EXPECT_GE(read, 1);
}

double macs_of(const protocol::CostResult& cost, const std::string& name) {
  for (const auto& part : cost.parts) {
    if (part.name == name) return part.macs;
  }
  ADD_FAILURE() << "no part " << name;
  return 0;
}

// Two layers encode and twelve decode; the window is that of layers 1 and 5 of a stack.
TEST(Cost, EachStackExecutesThePairsItSees) {
  auto config = paper_config("alibi");
  config.encoder_layers = 2;
  config.attention.window = 7;
  config.attention.local_layers = {1, 5};
  const auto cost = analyse_cost(config, "both", 23);
  const double a_pair = 2.0 * 12 * 64;  // scores and weighted values of all heads
  const std::string scores = "scores and weighted values";
  EXPECT_NEAR(macs_of(cost, "encoder: " + scores),
              a_pair * (pairs_of(23, false, 0) + pairs_of(23, false, 7)), 1e-3);
  EXPECT_NEAR(macs_of(cost, "decoder: " + scores),
              a_pair * (10 * pairs_of(23, true, 0) + 2 * pairs_of(23, true, 7)), 1e-3);
  EXPECT_EQ(macs_of(cost, "cross attention: " + scores), a_pair * 12 * 23 * 23);
  // One bias a score of each stack, in float operations; none on the cross attention's.
  auto without = config;
  without.encoding.key = "none";
  const auto plain = analyse_cost(without, "none", 23);
  const double biased = analyse_cost(paper_config("alibi"), "", 23).published.flops -
                        analyse_cost(paper_config("none"), "", 23).published.flops;
  EXPECT_NEAR(cost.published.flops - plain.published.flops, biased * 14 / 12, 1);
  EXPECT_NE(cost.conventions[0].find("the encoder reads 23 tokens"), std::string::npos);
  EXPECT_NE(cost.conventions[2].find("causal pairs in the decoder"), std::string::npos);
}

// Rather than a count of which a part is missing.
TEST(Cost, RefusesModelsWithPartsThatItDoesNotCount) {
  auto experts = paper_config("rope"), latent = experts, nope = experts;
  experts.experts = {.count = 4, .per_token = 2, .width = 8, .layers = {1}};
  latent.attention.kv_rank = 16, latent.attention.position_dim = 8;
  nope.layer_groups = {{.layers = {3}, .encoding = model::EncodingConfig{"none", {}}}};
  for (const auto& config : {experts, latent, nope}) {
    try {
      analyse_cost(config, "newer", 64);
      ADD_FAILURE() << "was counted";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "not_applicable");
    }
  }
}

TEST(Cost, RefusesALengthOfZero) {
  EXPECT_THROW(analyse_cost(paper_config("rope"), "rope", 0), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
