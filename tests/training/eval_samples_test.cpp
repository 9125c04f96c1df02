// Tasks asked of models: the metric of tasks/ on the same predictions, intervals, rows, resuming.
#include "training/evals/eval_samples.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "model/checkpoints/open_model.h"
#include "tasks/vocabulary.h"
#include "tests/temporary_folder.h"
#include "training/evals/task_answers.h"
#include "training/jobs/eval_rows.h"
#include "training/jobs/job.h"
#include "training/task_data.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using tasks::Sample;
using tasks::Task;

// A model of random weights whose ids are the task's.
std::shared_ptr<const model::Model> model_of_task(const std::string& name) {
  const Task& task = tasks::task_named(name);
  RunConfig config;
  config.model.context = 64, config.model.layers = 2;
  config.model.width = 16, config.model.heads = 2, config.model.kv_heads = 2;
  config.model.ffn_width = 16;
  config.model.vocab_size = tasks::has_own_ids(task) ? task.vocabulary() : 256;
  config.model.causal = task.info().form != tasks::Form::placeholders;
  config.model.encoder_layers = task.info().form == tasks::Form::encoder_decoder ? 1 : 0;
  config.task.name = name;
  config.task.shortest = 3, config.task.longest = 4;
  model::ModelConfig model = model_config_of(config);
  model.init_std = 0.5;  // answers that differ from row to row
  return model::random_model(model, 7);
}

std::vector<Sample> samples_of(const Task& task, std::int64_t count) {
  std::vector<Sample> samples;
  const tasks::Ids length(static_cast<std::size_t>(task.info().dimensions), 4);
  for (std::int64_t n = 0; n < count; ++n) {
    samples.push_back(task.draw(2, length, static_cast<std::uint64_t>(n)));
  }
  return samples;
}

// What the model answers, as a metric row of a reference file has it.
json given_of(const Task& task, const std::vector<Sample>& samples,
              const std::vector<Answers>& answers) {
  json rows = json::array(), nats = json::array();
  for (std::size_t n = 0; n < samples.size(); ++n) {
    const auto first = std::ranges::find(samples[n].counts, 1) - samples[n].counts.begin();
    const bool generated = task.info().key == "addition";
    const auto& ids = answers[n].ids;
    rows.push_back(tasks::Ids(ids.begin() + (generated ? first : 0), ids.end()));
    nats.push_back(answers[n].losses);
  }
  return {{task.info().key == "addition" ? "generated" : "predictions", rows}, {"nats", nats}};
}

// The value of a row is what the task's own metric says of the same answers.
TEST(EvalSamples, TheMetricIsTheTasks) {
  const std::map<std::string, std::string> values = {
      {"addition", "exact_match"},          {"missing_duplicate", "accuracy"},
      {"binary_addition", "accuracy"},      {"bucket_sort", "accuracy"},
      {"s5_identity", "balanced_accuracy"}, {"seq_copy", "perplexity"},
      {"seq_repeat", "perplexity"}};
  for (const auto& [name, value] : values) {
    const Task& task = tasks::task_named(name);
    const EvalModel entry{"m", model_of_task(name)};
    const auto samples = samples_of(task, 40);
    const auto answers = answers_of(entry.model->decoder, task, samples, {});
    const auto scores = answered_samples(entry, task, samples, {});
    ASSERT_EQ(scores.size(), samples.size());
    const json said = task.metric(samples, given_of(task, samples, answers));
    const double own = metric_of(task.info().metric, scores, analysis::Draws()).mean;
    // Sums of nats in another order.
    EXPECT_NEAR(own, said.at(value).get<double>(), 1e-12 * std::max(1.0, own)) << name;
  }
}

// Addition's metric sees generated ids, of which a right one needs every digit and [EOS].
TEST(EvalSamples, TheOracleIsRightAndOneWrongAnswerIsNot) {
  std::vector<SampleScore> scores(40,
                                  {.correct = 5, .counted = 5, .nats = 0, .yes = 2, .found = 2});
  for (const char* metric : {"accuracy", "exact_match", "balanced_accuracy"}) {
    EXPECT_EQ(metric_of(metric, scores, analysis::Draws()).mean, 1) << metric;
  }
  EXPECT_EQ(metric_of("perplexity", scores, analysis::Draws()).mean, 1);
  // All right is no certainty: Wilson's interval of 40 of 40, z of Student's t with 39 degrees.
  const double z = 2.02269092;  // of tables
  for (const char* metric : {"exact_match", "balanced_accuracy"}) {
    const analysis::Interval all = metric_of(metric, scores, analysis::Draws());
    EXPECT_EQ(all.method, "Wilson") << metric;
    EXPECT_NEAR(*all.low, 1 / (1 + z * z / 40), 1e-7) << metric;
    EXPECT_EQ(*all.high, 1) << metric;
  }
  scores[0].correct = 4, scores[0].found = 1;
  EXPECT_EQ(metric_of("exact_match", scores, analysis::Draws()).mean, 39.0 / 40);
  EXPECT_EQ(metric_of("accuracy", scores, analysis::Draws()).mean, 199.0 / 200);
  EXPECT_NEAR(metric_of("balanced_accuracy", scores, analysis::Draws()).mean, (79.0 / 80 + 1) / 2,
              1e-15);
  EXPECT_EQ(exact_share(scores), 39.0 / 40);
}

// By hand: of four samples of one answer b has 3 right and a 1, b - a = 1, 0, 1, 0: mean 0.5, sd
// sqrt(1/3), Student t with 3 degrees 3.18244630528 (the jackknife of equal weights). That interval
// leaves [-1, 1], so it is the logit's of u = (0.5 + 1) / 2: ln 3 with errors 1 / (2 u (1 - u)) as
// wide.
TEST(EvalSamples, DifferencesArePairedBySample) {
  const auto scores_of = [](const std::vector<int>& right) {
    std::vector<SampleScore> scores;
    for (const int one : right) scores.push_back({.correct = one, .counted = 1, .nats = 2.0 - one});
    return scores;
  };
  const auto a = scores_of({0, 1, 0, 0}), b = scores_of({1, 1, 1, 0});
  const double half = 3.18244630528 * std::sqrt(1.0 / 3) / 2;
  const double low = -1 + 2 / (1 + std::exp(half / (2 * 0.75 * 0.25)) / 3);
  for (const char* metric : {"accuracy", "exact_match"}) {
    const auto found = metric_difference(metric, a, b, analysis::Draws());
    EXPECT_NEAR(found.mean, 0.5, 1e-15) << metric;
    EXPECT_NEAR(*found.low, low, 1e-9) << metric;
    EXPECT_EQ(found.n, 4);
    EXPECT_EQ(found.unit, "samples");
  }
  EXPECT_NEAR(metric_difference("perplexity", a, b, analysis::Draws()).mean, -0.5, 1e-15);
  EXPECT_THROW(metric_difference("accuracy", a, scores_of({1}), analysis::Draws()), formats::Error);
  // Balanced accuracy: of yes answers a finds 1 of 2, b 2 of 2, of the others both are right.
  const auto balanced = [](std::int64_t found) {
    return std::vector<SampleScore>(10,
                                    {.correct = 1 + found, .counted = 3, .yes = 2, .found = found});
  };
  EXPECT_NEAR(
      metric_difference("balanced_accuracy", balanced(1), balanced(2), analysis::Draws()).mean,
      0.25, 1e-15);
}

// Wilson's interval of 30 right ones of 100, as the formula has it: (p + z^2/2n -+ z sqrt(p q / n +
// z^2/4n^2)) / (1 + z^2/n).
TEST(EvalSamples, AShareHasWilsonsInterval) {
  std::vector<SampleScore> scores(100, {.correct = 0, .counted = 1});
  for (std::size_t n = 0; n < 30; ++n) scores[n].correct = 1;
  const analysis::Interval found = metric_of("exact_match", scores, analysis::Draws());
  EXPECT_EQ(found.n, 100);
  EXPECT_EQ(found.unit, "samples");
  const double z = 1.984, p = 0.3, n = 100;  // Student t, 99 degrees
  const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  // The number of independent samples is estimated by a bootstrap of 1999 draws.
  EXPECT_NEAR(*found.low, middle - half, 0.006);
  EXPECT_NEAR(*found.high, middle + half, 0.006);
}

protocol::EvalRequest request_of_task(const std::string& task, std::vector<std::int64_t> lengths,
                                      std::int64_t trials) {
  protocol::EvalRequest request{.task = task};
  request.perplexity.lengths = std::move(lengths);
  request.perplexity.trials = trials;
  return request;
}

// Counts what is drawn anew.
class CountingLog final : public EvalLog {
 public:
  const json* found(const std::string& key) const override {
    const auto one = measured.find(key);
    return one == measured.end() ? nullptr : &one->second;
  }
  void add(const std::string& key, json one) override { measured[key] = std::move(one), ++added; }
  std::map<std::string, json> measured;
  int added = 0;
};

TEST(EvalSamples, ARowIsAllCellsUpToItsLength) {
  const std::vector<EvalModel> models{{"m", model_of_task("addition")}};
  protocol::NoProgress progress;
  CountingLog log;
  const auto result =
      eval_task("addition").run(models, request_of_task("addition", {1, 3}, 5), progress, log);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].n, 5);
  EXPECT_EQ(result.rows[1].n, 45);
  EXPECT_EQ(result.rows[1].metric, "exact_match");
  EXPECT_EQ(result.rows[1].trained, 4);
  EXPECT_EQ(result.cells.size(), 9u);
  EXPECT_EQ(result.columns_of, "digits of the second number");
  // The mean over the cells of what a guesser gets who knows how long the sum is.
  EXPECT_NEAR(*result.rows[0].blind, 0.1, 1e-12);
  EXPECT_EQ(log.added, 9);
  // Run again, nothing is drawn anew and every number is the same.
  const auto again =
      eval_task("addition").run(models, request_of_task("addition", {1, 3}, 5), progress, log);
  EXPECT_EQ(log.added, 9);
  EXPECT_EQ(protocol::to_json_form(again.rows), protocol::to_json_form(result.rows));
  EXPECT_EQ(protocol::to_json_form(again.cells), protocol::to_json_form(result.cells));
}

// Each model's row and their difference are of the same samples.
TEST(EvalSamples, ModelsAreHeldAgainstTheFirst) {
  const auto first = model_of_task("missing_duplicate");
  model::ModelConfig config = first->config();
  const std::vector<EvalModel> models{{"a", first}, {"b", model::random_model(config, 8)}};
  protocol::NoProgress progress;
  NoEvalLog log;
  const auto result =
      eval_task("missing_duplicate")
          .run(models, request_of_task("missing_duplicate", {4, 9}, 60), progress, log);
  ASSERT_EQ(result.differences.size(), 2u);
  for (std::size_t n = 0; n < 2; ++n) {
    const protocol::EvalDifference& found = result.differences[n];
    EXPECT_EQ(found.model, "b");
    EXPECT_EQ(found.against, "a");
    EXPECT_EQ(found.metric, "accuracy");
    EXPECT_EQ(found.length, n == 0 ? 4 : 9);
    EXPECT_EQ(found.difference.n, 60);
    EXPECT_NEAR(found.difference.mean, result.rows[2 + n].value - result.rows[n].value, 1e-12);
  }
}

TEST(EvalSamples, DepthsAreTheColumnsOfATextsMap) {
  const std::vector<EvalModel> models{{"m", model_of_task("passkey")}};
  protocol::NoProgress progress;
  NoEvalLog log;
  const auto result =
      eval_task("passkey").run(models, request_of_task("passkey", {64}, 30), progress, log);
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_EQ(result.rows[0].value, 0);
  std::int64_t n = 0;
  for (const protocol::EvalCell& cell : result.cells) {
    EXPECT_EQ(cell.row, 64);
    EXPECT_LT(cell.column, 1);
    n += cell.n;
  }
  EXPECT_EQ(n, 30);
}

// ---- Answers in what is written -----------------------------------------------------------------

// Layers that add nothing, an embedding and a head of single ones: behind each byte stands the one
// that `next` has for it, whatever stood before.
EvalModel model_that_writes(const std::string& name, const std::map<char, char>& next) {
  RunConfig config;
  config.model.context = 64, config.model.layers = 1;
  config.model.width = 256, config.model.heads = 2, config.model.kv_heads = 2;
  config.model.ffn_width = 16, config.model.vocab_size = 256, config.model.tie_embeddings = false;
  const auto made = model::random_model(model_config_of(config), 7);
  const at::NoGradGuard no_gradients;
  const model::Weights& weights = made->decoder.weights();
  for (const model::LayerWeights& layer : weights.layers) layer.wo.zero_(), layer.down.zero_();
  weights.embedding.copy_(at::eye(256));
  weights.head.zero_();
  for (const auto& [byte, behind] : next) weights.head[behind][byte] = 1;
  return {name, made};
}

// Behind "is": `first`, then the value and no digit any more.
std::map<char, char> writing(const std::string& first, const std::string& value) {
  const std::string text = "s" + first + value + "x";
  std::map<char, char> next{{'x', 'x'}};
  for (std::size_t n = 0; n + 1 < text.size(); ++n) next[text[n]] = text[n + 1];
  return next;
}

// A seed whose first sample has a value of seven different digits, of which each has one behind it.
std::pair<std::int64_t, std::string> seed_and_value(const Task& task, std::int64_t length) {
  for (std::int64_t seed = 0;; ++seed) {
    const std::string value =
        task.draw(static_cast<std::uint64_t>(seed), {length}, 0).answer.substr(1);
    std::string digits = value;
    std::ranges::sort(digits);
    if (std::ranges::adjacent_find(digits) == digits.end()) return {seed, value};
  }
}

// RULER's metric: the value anywhere in 128 tokens. What begins with it is what one pass calls
// right, by the proof of experiments.md.
TEST(EvalSamples, ANeedleMayStandAnywhereInWhatIsWritten) {
  for (const char* name : {"needle", "needle_noise"}) {
    const auto [seed, value] = seed_and_value(tasks::task_named(name), 3);
    const std::vector<EvalModel> models{
        model_that_writes("at once", writing(" ", value)),
        model_that_writes("later", writing(": ", value)),
        model_that_writes("never", writing(" ", value.substr(0, 6)))};
    protocol::NoProgress progress;
    NoEvalLog log;
    protocol::EvalRequest request = request_of_task(name, {3}, 1);
    request.seed = seed;
    const auto passed = eval_task(name).run(models, request, progress, log);
    request.needle.generate = true;
    const auto written = eval_task(name).run(models, request, progress, log);
    ASSERT_EQ(written.rows.size(), 3u) << name;
    EXPECT_EQ(written.metric, "contained");
    for (std::size_t m = 0; m < 3; ++m) {
      EXPECT_EQ(written.rows[m].metric, "contained");
      EXPECT_EQ(written.rows[m].value, m < 2 ? 1 : 0) << name << ", " << models[m].name;
      EXPECT_EQ(*written.rows[m].exact, m == 0 ? 1 : 0) << name << ", " << models[m].name;
      EXPECT_EQ(passed.rows[m].value, m == 0 ? 1 : 0) << name << ", " << models[m].name;
    }
    ASSERT_EQ(written.differences.size(), 2u);
    EXPECT_EQ(written.differences[1].difference.mean, -1);
    EXPECT_NE(written.provenance[0].note.find("anywhere in 128 tokens"), std::string::npos);
  }
}

// One right sample of 20, the blind guesser's share, and a log that keeps both ways apart.
TEST(EvalSamples, WrittenAnswersAreRowsLikeOthers) {
  const auto [seed, value] = seed_and_value(tasks::task_named("needle"), 2);
  const std::vector<EvalModel> models{model_that_writes("m", writing(": ", value))};
  protocol::NoProgress progress;
  CountingLog log;
  protocol::EvalRequest request = request_of_task("needle", {2}, 20);
  request.seed = seed;
  EXPECT_EQ(eval_task("needle").run(models, request, progress, log).rows[0].value, 0);
  request.needle.generate = true;
  const auto result = eval_task("needle").run(models, request, progress, log);
  EXPECT_EQ(log.added, 2);
  const protocol::EvalRow& row = result.rows.at(0);
  EXPECT_EQ(row.value, 1.0 / 20);
  EXPECT_EQ(row.n, 20);
  EXPECT_LT(*row.low, row.value);
  EXPECT_GT(*row.high, row.value);
  // 128 digits hold 122 values of seven.
  EXPECT_DOUBLE_EQ(*row.blind, 122.0 / 9e6);
  std::int64_t in_cells = 0;
  for (const protocol::EvalCell& cell : result.cells) in_cells += cell.n;
  EXPECT_EQ(in_cells, 20);
  const auto again = eval_task("needle").run(models, request, progress, log);
  EXPECT_EQ(log.added, 2);
  EXPECT_EQ(protocol::to_json_form(again.rows), protocol::to_json_form(result.rows));
}

TEST(EvalSamples, AModelOfOtherIdsIsRefused) {
  protocol::NoProgress progress;
  NoEvalLog log;
  const auto refused = [&](const std::string& model, const std::string& task,
                           const std::function<void(protocol::EvalRequest&)>& change = {}) {
    const std::vector<EvalModel> models{{"m", model_of_task(model)}};
    protocol::EvalRequest request = request_of_task(task, {4}, 2);
    if (change) change(request);
    try {
      eval_task(task).run(models, request, progress, log);
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    return std::string();
  };
  EXPECT_NE(refused("addition", "s5").find("its vocabulary is another"), std::string::npos);
  EXPECT_NE(refused("seq_copy", "passkey").find("encoder-decoder"), std::string::npos);
  EXPECT_EQ(refused("even_pairs", "parity_check"), "");  // the same symbols
  EXPECT_NE(refused("addition", "addition",
                    [](protocol::EvalRequest& r) { r.perplexity.lengths = {5000}; })
                .find("digits"),
            std::string::npos);
}

// A model that has no finite loss is evaluated to its end, in as many parts as another.
TEST(EvalSamples, ALossThatIsNoNumberIsReadBack) {
  SampleScore score{.correct = 1, .counted = 3, .nats = std::nan("")};
  score.depth = 0.25, score.contained = true;
  const SampleScore again = score_of_row(nlohmann::json::parse(written(score).dump()));
  EXPECT_TRUE(std::isnan(again.nats));
  score.nats = 0.1;
  EXPECT_EQ(written(score_of_row(nlohmann::json::parse(written(score).dump()))), written(score));
}

// A job that was ended after some cells goes on with the others.
TEST(EvalSamples, Risk13_AJobKeepsItsRows) {
  TemporaryFolder folder;
  const auto model = model_of_task("missing_duplicate");
  fs::create_directory(folder.path() / "m");
  model::save_model(formats::real_file_system(), folder.path() / "m", model->config(),
                    model->encoding(), model->decoder.weights());
  const fs::path dir = folder.path() / "j";
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << json{{"eval_job",
                                              {{"task", "missing_duplicate"},
                                               {"models", {(folder.path() / "m").string()}},
                                               {"lengths", {4, 6, 9}},
                                               {"trials", 50}}}};
  ASSERT_EQ(run_job(dir), 0);
  const json whole = formats::json_from_file(dir / "result.json");
  ASSERT_EQ(whole.at("rows").size(), 3u);
  // Two lines stay, and half of the third, which a kill tore.
  std::ifstream file(dir / "rows.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  const std::string torn = lines[0] + "\n" + lines[1] + "\n" + lines[2].substr(0, 40);
  std::ofstream(dir / "rows.jsonl") << torn;
  fs::remove(dir / "result.json");
  ASSERT_EQ(run_job(dir), 0);
  EXPECT_EQ(formats::json_from_file(dir / "result.json").at("rows"), whole.at("rows"));
  std::ifstream after(dir / "rows.jsonl");
  const std::string text((std::istreambuf_iterator<char>(after)), {});
  EXPECT_TRUE(text.starts_with(torn + "\n"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
}

}  // namespace
}  // namespace phasescope::training
