// bench.step: the plain loop is the same training, and the rows' numbers hang together.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "model/devices.h"
#include "protocol/messages/bench.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "tests/worker/fake_context.h"
#include "training/schedule.h"
#include "training/trainer.h"
#include "worker/bench/handle_bench.h"
#include "worker/bench/step_rival.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;
using training::RunConfig;

RunConfig run_in(const TemporaryFolder& folder, const json& encoding) {
  RunConfig config = training::small_run(folder.path(), 8, encoding);
  config.train.curriculum.clear();
  config.train.dtype = "f32";
  return config;
}

// From the same weights, on the same batches: written apart, the two make the same losses.
TEST(BenchStep, ThePlainLoopIsTheSameTraining) {
  for (const char* encoding : {"rope", "none"}) {
    for (const bool gated : {true, false}) {
      const TemporaryFolder folder;
      RunConfig config = run_in(folder, {{"key", encoding}});
      config.model.gated = gated;
      config.model.activation = gated ? "silu" : "gelu";
      config.model.tie_embeddings = gated;
      const auto corpus = std::make_shared<const training::Corpus>(
          training::Corpus::open(config.data.corpus, config.data, config.model.context));
      training::Trainer trainer(config, corpus, {});
      ASSERT_EQ(PlainLoop::obstacle(trainer.decoder().config()), "");
      PlainLoop plain(trainer.decoder(), config.train);
      for (std::int64_t step = 0; step < 8; ++step) {
        const double loss = plain.step(corpus->batch(config.train, config.model.context, step),
                                       training::learning_rate_at(config.train, step));
        // Two orders of float32 sums, through eight steps of AdamW, which divides by the root of
        // squares that begin near 0.
        EXPECT_NEAR(trainer.step().loss, loss, 2e-4 * loss) << encoding << " step " << step;
      }
    }
  }
}

// With products in bfloat16 the two round in other places, and not at all as in float32.
TEST(BenchStep, ThePlainLoopHasBfloat16) {
  const TemporaryFolder folder;
  RunConfig config = run_in(folder, {{"key", "rope"}});
  const auto corpus = std::make_shared<const training::Corpus>(
      training::Corpus::open(config.data.corpus, config.data, config.model.context));
  config.train.dtype = "bf16";
  training::Trainer trainer(config, corpus, {});
  PlainLoop narrow(trainer.decoder(), config.train);
  config.train.dtype = "f32";
  PlainLoop wide(trainer.decoder(), config.train);
  for (std::int64_t step = 0; step < 8; ++step) {
    const training::Batch batch = corpus->batch(config.train, config.model.context, step);
    const double rate = training::learning_rate_at(config.train, step);
    const double loss = narrow.step(batch, rate);
    EXPECT_NE(wide.step(batch, rate), loss) << step;
    // A product is rounded to 2^-9 of itself; means over 128 tokens know no less than that.
    EXPECT_NEAR(trainer.step().loss, loss, 1e-2 * loss) << step;
  }
}

TEST(BenchStep, WhatThePlainLoopHasNoCodeForIsSaid) {
  const TemporaryFolder folder;
  const auto obstacle = [&](const RunConfig& config) {
    return PlainLoop::obstacle(training::model_config_of(config));
  };
  EXPECT_NE(obstacle(run_in(folder, {{"key", "tape"}})), "");
  EXPECT_NE(obstacle(run_in(folder, {{"key", "rope"}, {"scaling", "linear"}, {"factor", 2}})), "");
  RunConfig config = run_in(folder, {{"key", "rope"}});
  EXPECT_EQ(obstacle(config), "");
  config.model.norm = "layer";
  EXPECT_NE(obstacle(config), "");
  config = run_in(folder, {{"key", "rope"}});
  config.model.causal = false;
  EXPECT_NE(obstacle(config), "");
}

TEST(BenchStep, HasARowForEveryConfigurationAndLength) {
  const TemporaryFolder folder;
  json configs = json::array();
  for (const char* key : {"rope", "alibi"}) {
    configs.push_back({{"name", key}, {"config", to_json(run_in(folder, {{"key", key}}))}});
  }
  FakeContext context;
  const json params = {{"configs", configs}, {"lengths", {16, 32}}, {"runs", 2}, {"threads", 1}};
  const auto bench = protocol::from_json_form<protocol::StepBench>(
      ask(bench_handlers(), "bench.step", params, context).result);
  ASSERT_EQ(bench.rows.size(), 4u);
  EXPECT_EQ(bench.threads, 1);
  for (std::size_t n = 0; n < 4; ++n) {
    const protocol::StepBenchRow& row = bench.rows[n];
    EXPECT_EQ(row.name, n < 2 ? "rope" : "alibi");
    EXPECT_EQ(row.length, n % 2 == 0 ? 16 : 32);
    EXPECT_EQ(row.windows * row.length, 128);
    EXPECT_NEAR(row.step_ms, (row.step_ms_min + row.step_ms_max) / 2, 1e-9 * row.step_ms);
    EXPECT_GT(row.forward_ms, 0);
    EXPECT_NEAR(row.tokens_per_second, 128e3 / row.step_ms, 1e-6 * row.tokens_per_second);
    EXPECT_NEAR(row.over_first, row.step_ms / bench.rows[n % 2].step_ms, 1e-12);
    EXPECT_EQ(row.dtype, "f32");
    EXPECT_EQ(row.rival.empty(), n >= 2);
    EXPECT_EQ(row.kernel.rfind("fused cpu", 0), 0u) << row.kernel;
  }
  // ALiBi has slopes, which are stored or not, and the same matrices.
  EXPECT_GE(bench.rows[0].parameters, 256 * 32);
}

TEST(BenchStep, ABfloat16TrainingHasARival) {
  const TemporaryFolder folder;
  RunConfig config = run_in(folder, {{"key", "rope"}});
  config.train.dtype = "bf16";
  const json params = {{"configs", {{{"name", "narrow"}, {"config", to_json(config)}}}},
                       {"runs", 1}};
  FakeContext context;
  const auto bench = protocol::from_json_form<protocol::StepBench>(
      ask(bench_handlers(), "bench.step", params, context).result);
  EXPECT_EQ(bench.rows.at(0).dtype, "bf16");
  EXPECT_EQ(bench.rows.at(0).rival, kPlainLoop);
  EXPECT_GT(bench.rows.at(0).rival_ms, 0);
}

// In float32 a step has what the forward pass has, and more.
TEST(BenchStep, HasForwardPassesAloneWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  const json configs = {{{"name", "rope"}, {"config", to_json(run_in(folder, {{"key", "rope"}}))}}};
  json params = {{"configs", configs}, {"runs", 2}, {"threads", 1}, {"forward_only", true}};
  FakeContext context;
  const auto rows_of = [&](const json& asked) {
    return protocol::from_json_form<protocol::StepBench>(
               ask(bench_handlers(), "bench.step", asked, context).result)
        .rows;
  };
  const protocol::StepBenchRow passes = rows_of(params).at(0);
  params["forward_only"] = false;
  const protocol::StepBenchRow steps = rows_of(params).at(0);
  EXPECT_TRUE(std::isnan(passes.step_ms));
  EXPECT_FALSE(std::isnan(steps.step_ms));
  EXPECT_EQ(passes.parameters, steps.parameters);
  EXPECT_EQ(passes.encoding, "rope");
  EXPECT_EQ(passes.kernel, steps.kernel);
  EXPECT_EQ(std::pair(passes.length, passes.windows), std::pair(steps.length, steps.windows));
  EXPECT_GT(passes.forward_ms, 0);
  const double tokens = static_cast<double>(passes.windows * passes.length);
  EXPECT_NEAR(passes.tokens_per_second, 1e3 * tokens / passes.forward_ms,
              1e-6 * passes.tokens_per_second);
  EXPECT_EQ(passes.over_first, 1);
  EXPECT_LT(passes.peak_mb, steps.peak_mb);
  EXPECT_TRUE(passes.rival.empty());
}

TEST(BenchStep, RunsWhereItIsAskedTo) {
  const TemporaryFolder folder;
  RunConfig config = run_in(folder, {{"key", "alibi"}});
  config.train.device = "cuda:1";
  json params = {{"configs", {{{"name", "a"}, {"config", to_json(config)}}}}, {"runs", 1}};
  params["device"] = "cpu", params["backend"] = "plain";
  FakeContext context;
  const auto bench = protocol::from_json_form<protocol::StepBench>(
      ask(bench_handlers(), "bench.step", params, context).result);
  EXPECT_EQ(bench.rows.at(0).device, "cpu");
  EXPECT_EQ(bench.rows.at(0).kernel, "plain");
  EXPECT_EQ(bench.rows.at(0).to_device + bench.rows.at(0).to_host, 0);
  params["device"] = "gpu";
  EXPECT_EQ(code_of(bench_handlers(), "bench.step", params), "bad_usage");
  if (model::cuda_devices() == 0) {
    params["device"] = "cuda";
    EXPECT_EQ(code_of(bench_handlers(), "bench.step", params), "device_unavailable");
  }
}

// What first_minutes.py times on a device, by the sizes of its parts.
TEST(BenchStep, TheLargeModelOfADeviceHasABillionParameters) {
  const RunConfig config =
      training::run_config_from_file(PHASESCOPE_SOURCE "/tools/device/one_billion.json");
  const model::ModelConfig sizes = training::model_config_of(config);
  std::int64_t count = 0;
  for (const auto& spec : model::tensor_specs(sizes, *model::make_encoding(sizes))) {
    count += c10::multiply_integers(spec.shape);
  }
  const std::int64_t attention = 2 * 2048 * 2048 + 2 * 2048 * 512, mlp = 3 * 2048 * 8192;
  EXPECT_EQ(count, 128256 * 2048 + 16 * (attention + mlp + 2 * 2048) + 2048);
}

TEST(BenchStep, ATaskHasItsOwnLengths) {
  json config = {{"model",
                  {{"vocab_size", 19},
                   {"context", 32},
                   {"layers", 1},
                   {"width", 16},
                   {"heads", 2},
                   {"kv_heads", 2},
                   {"ffn_width", 16}}},
                 {"task", {{"name", "addition"}, {"batch", 4}, {"longest", 3}}}};
  json params = {{"configs", {{{"name", "add"}, {"config", config}}}}, {"runs", 1}};
  FakeContext context;
  const auto bench = protocol::from_json_form<protocol::StepBench>(
      ask(bench_handlers(), "bench.step", params, context).result);
  EXPECT_TRUE(bench.rows.at(0).rival.empty());
  EXPECT_GT(bench.rows.at(0).step_ms, 0);
  params["forward_only"] = true;
  EXPECT_EQ(code_of(bench_handlers(), "bench.step", params), "bad_usage");
  params["forward_only"] = false;
  params["lengths"] = {16};
  EXPECT_EQ(code_of(bench_handlers(), "bench.step", params), "bad_usage");
  EXPECT_EQ(code_of(bench_handlers(), "bench.step", json::object()), "bad_usage");
}

}  // namespace
}  // namespace phasescope::worker
