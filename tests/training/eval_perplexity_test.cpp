#include "training/evals/eval_perplexity.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "formats/error.h"
#include "model/checkpoints/open_model.h"
#include "model/loss.h"
#include "protocol/error_info.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/evals/eval_windows.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

using nlohmann::json;

// ---- The perplexity task -------------------------------------------------------------------------

class PerplexityTask : public testing::Test {
 protected:
  PerplexityTask() {
    const RunConfig config = small_run(folder_.path(), 1);
    model::ModelConfig model = model_config_of(config);
    // All logits are equal, so every byte costs exactly 8 bits.
    model.init_std = 1e-30;
    models_.push_back({"even", model::random_model(model, 1)});
    corpus_ = config.data.corpus;
  }

  protocol::EvalResult run(json params, protocol::Progress& progress) {
    params["task"] = "perplexity";
    if (!params.contains("input")) params["corpus"] = corpus_;
    const auto request = protocol::request_of<protocol::EvalRequest>(params);
    NoEvalLog log;
    return eval_task("perplexity").run(models_, request, progress, log);
  }
  protocol::EvalResult run(json params) {
    protocol::NoProgress progress;
    return run(std::move(params), progress);
  }

  TemporaryFolder folder_;
  std::vector<EvalModel> models_;
  std::string corpus_;
};

TEST_F(PerplexityTask, AnEvenModelCostsEightBitsAByteByEveryRule) {
  for (const char* rule : {"disjoint", "sliding:16", "last_k:16", "per_position"}) {
    const auto result = run({{"lengths", {32, 64}}, {"window", rule}, {"trials", 3}});
    ASSERT_EQ(result.rows.size(), 2u) << rule;
    for (const auto& row : result.rows) {
      EXPECT_NEAR(row.value, 8, 1e-5) << rule;
      EXPECT_NEAR(row.low.value(), 8, 1e-5) << rule;
      EXPECT_EQ(row.n, 3);
      EXPECT_EQ(row.window, WindowRule::read(rule).name(row.length));
    }
    ASSERT_EQ(result.positions.size(), 1u);
    EXPECT_EQ(result.positions[0].position.size(), 64u);
    EXPECT_NEAR(result.positions[0].bits.back(), 8, 1e-5);
  }
  const auto result = run({{"lengths", {32}}, {"metric", "perplexity"}, {"trials", 2}});
  EXPECT_NEAR(result.rows[0].value, 256, 1e-3);
}

// Both read the same bytes of the same texts: their rows differ by what is between them.
TEST_F(PerplexityTask, TellsHowFarEachModelIsFromTheFirstTextByText) {
  model::ModelConfig config = models_[0].model->config();
  config.init_std = 0.3;
  for (const int seed : {1, 2}) {
    models_.push_back({"model " + std::to_string(seed), model::random_model(config, seed)});
  }
  for (const char* rule : {"disjoint", "per_position"}) {
    const auto result = run({{"lengths", {32, 64}}, {"window", rule}, {"trials", 3}});
    ASSERT_EQ(result.rows.size(), 6u) << rule;
    ASSERT_EQ(result.differences.size(), 4u) << rule;
    for (std::size_t n = 0; n < 4; ++n) {
      const protocol::EvalDifference& found = result.differences[n];
      const protocol::EvalRow &row = result.rows[2 + n], &first = result.rows[n % 2];
      EXPECT_EQ(found.model, row.model);
      EXPECT_EQ(found.against, "even");
      EXPECT_EQ(found.length, row.length);
      EXPECT_EQ(found.per, "byte");
      EXPECT_EQ(found.difference.n, 3);
      // The same sums of float64 in another order.
      EXPECT_NEAR(found.difference.mean / std::log(2.0), row.value - first.value, 1e-9) << rule;
    }
  }
  models_.resize(1);
  EXPECT_TRUE(run({{"lengths", {32}}, {"trials", 2}}).differences.empty());
}

TEST_F(PerplexityTask, WithoutABosTheFirstTokenOfATextIsNotScored) {
  model::ModelConfig config = models_[0].model->config();
  config.tokenizer.erase("bos");
  config.init_std = 0.3;
  models_ = {{"no bos", model::random_model(config, 1)}};
  const std::string text = "abcdefgh";
  double bits = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const at::Tensor pair =
        at::tensor({std::int64_t{text[i - 1]}, std::int64_t{text[i]}}, at::kLong).view({1, 2});
    bits += model::token_losses(models_[0].model->decoder, pair, {}).item<double>() / std::log(2);
  }
  const auto result = run({{"lengths", {1}}, {"input", {{"text", text}}}});
  EXPECT_NEAR(result.rows.at(0).value, bits / 7, 1e-5);
}

model::ModelConfig with_encoding(model::ModelConfig config, const std::string& key,
                                 const json& options) {
  config.encoding.key = key;
  config.encoding.options = options;
  config.init_std = 0.3;
  return config;
}

// n tokens are read for n losses: [BOS] and the first n - 1. So a table of n positions serves n,
// and the losses are those of its logits.
TEST_F(PerplexityTask, Risk1_ALearnedTableServesItsWholeLength) {  // 17.A1
  const auto model =
      model::random_model(with_encoding(models_[0].model->config(), "learned", json::object()), 1);
  models_ = {{"learned", model}};
  const std::string text = "the table of positions ends here";
  ASSERT_EQ(static_cast<std::int64_t>(text.size()), model->config().context);
  std::vector<std::int64_t> ids{model->tokenizer->bos_id().value()};
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  const at::Tensor all = at::tensor(ids, at::kLong).view({1, -1});
  const at::Tensor logits = model->decoder.forward(all.slice(1, 0, -1));
  const at::Tensor expected =
      -at::log_softmax(logits, -1).gather(-1, all.slice(1, 1).unsqueeze(-1)).mean().to(at::kDouble);
  const auto result =
      run({{"lengths", {32}}, {"input", {{"text", text}}}, {"metric", "bits_per_token"}});
  // Sums of 32 float32 losses in two orders.
  EXPECT_NEAR(result.rows.at(0).value, expected.item<double>() / std::log(2), 1e-5);
}

// At exactly the trained length these scalings are not stretched yet: the anchor of a curve is the
// loss of the model as it was trained.
TEST_F(PerplexityTask, ScalingsThatFollowTheLengthAreUnstretchedAtTheTrainedOne) {  // 17.A1
  const model::ModelConfig config = models_[0].model->config();
  const std::vector<double> ones(static_cast<std::size_t>(config.head_dim / 2), 1.0);
  const std::vector<double> fours(ones.size(), 4.0);
  const json longrope = {{"scaling", "longrope"},   {"factor", 4},
                         {"short_factor", ones},    {"long_factor", fours},
                         {"attention_factor", 1.0}, {"trained_context", config.context}};
  const json dynamic = {{"scaling", "dynamic"}, {"factor", 4}, {"trained_context", config.context}};
  const auto losses = [&](const json& options) {
    models_ = {{"m", model::random_model(with_encoding(config, "rope", options), 1)}};
    const auto result = run({{"lengths", {config.context, 2 * config.context}}, {"trials", 2}});
    return std::pair{result.rows.at(0).value, result.rows.at(1).value};
  };
  const auto plain = losses(json::object());
  for (const json& options : {longrope, dynamic}) {
    const auto scaled = losses(options);
    EXPECT_NEAR(scaled.first, plain.first, 1e-5) << options;
    EXPECT_GT(std::abs(scaled.second - plain.second), 1e-3) << options;
  }
}

TEST_F(PerplexityTask, DefaultLengthsGoToFourTimesTheTrainedOne) {
  const auto result = run({{"trials", 2}});
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[0].length, 32);
  EXPECT_EQ(result.rows[2].length, 128);
  EXPECT_EQ(result.positions[0].trained_length, 32);
}

// One length that cannot be read does not cost the others.
TEST_F(PerplexityTask, ALengthBeyondTheModelOrTheTextsIsLeftOutAndSaid) {  // 17.A8
  const std::string text(100, 'a');
  const auto note = [](const protocol::EvalResult& result) { return result.provenance[0].note; };
  auto result = run({{"lengths", {32, 64, 512}}, {"input", {{"text", text}}}});
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[1].length, 64);
  EXPECT_NE(note(result).find("left out is a length of 512: the longest text has 100 tokens"),
            std::string::npos)
      << note(result);
  models_ = {
      {"learned", model::random_model(
                      with_encoding(models_[0].model->config(), "learned", json::object()), 1)}};
  for (const char* rule : {"disjoint", "per_position"}) {
    result = run({{"lengths", {16, 32, 64}}, {"input", {{"text", text}}}, {"window", rule}});
    ASSERT_EQ(result.rows.size(), 2u) << rule;
    EXPECT_EQ(result.rows[1].length, 32);
    EXPECT_EQ(result.positions.at(0).position.size(), 32u);
    EXPECT_NE(note(result).find("a length of 64 is left out: position 63 lies outside the table"),
              std::string::npos)
        << note(result);
  }
  EXPECT_THROW(run({{"lengths", {64}}, {"input", {{"text", text}}}}), formats::Error);
}

TEST_F(PerplexityTask, TokensThatCountAreCounted) {  // 17.A6
  const std::string text(100, 'a');
  const auto row = [&](const char* rule) {
    return run({{"lengths", {32}}, {"input", {{"text", text}}}, {"window", rule}}).rows.at(0);
  };
  EXPECT_EQ(row("disjoint").tokens, 96);
  EXPECT_EQ(row("disjoint").left_out, 4);
  EXPECT_EQ(row("sliding:10").tokens, 100);
  EXPECT_EQ(row("sliding:10").left_out, 0);
  EXPECT_EQ(row("last_k:10").tokens, 70);
  EXPECT_EQ(row("last_k:10").left_out, 30);
  const auto result = run({{"lengths", {32}}, {"input", {{"text", text}}}});
  EXPECT_NE(result.provenance[0].note.find("fill no window are left out: 4 at 32"),
            std::string::npos)
      << result.provenance[0].note;
}

TEST_F(PerplexityTask, WhatCannotBeReadIsAnError) {
  EXPECT_THROW(run({{"lengths", {100'000}}}), formats::Error);
  EXPECT_THROW(run({{"lengths", {0}}}), protocol::RequestError);
  // Nothing of that size is made first, which on a large machine would be had.
  try {
    run({{"lengths", {32, 2'000'000'000}}});
    ADD_FAILURE();
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_usage");
    EXPECT_NE(error.message().find("not 2000000000"), std::string::npos) << error.message();
  }
  EXPECT_THROW(run({{"metric", "bits"}}), protocol::RequestError);
  EXPECT_THROW(run({{"trials", "many"}}), protocol::RequestError);
  EXPECT_THROW(eval_task("perplexty"), formats::Error);
}

// What the command line, the window and jobs offer is what the task's struct lists.
TEST(EvalTasks, TellOfTheirOptions) {  // 17.B15
  const auto keys_of = [](const char* task) {
    std::vector<std::string> keys;
    for (const protocol::EvalOptionInfo& option : eval_task(task).options) {
      keys.push_back(option.key);
      EXPECT_FALSE(option.help.empty()) << option.key;
    }
    return keys;
  };
  EXPECT_EQ(keys_of("perplexity"),
            (std::vector<std::string>{"lengths", "window", "metric", "trials", "input", "corpus"}));
  EXPECT_EQ(keys_of("addition"), (std::vector<std::string>{"lengths", "trials"}));
}

TEST_F(PerplexityTask, CanBeCancelled) {
  class Cancelled final : public protocol::Progress {
    void progress(double, std::string_view) override {}
    bool cancelled() const override { return true; }
  } progress;
  EXPECT_ANY_THROW(run(json::object(), progress));
}

}  // namespace
}  // namespace phasescope::training
