// What verbs and figures say of a result: its parts, its units, every one of its lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "fake_run.h"
#include "protocol/bench_results.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

bool has_note(const std::vector<std::string>& notes, const std::string& part) {
  return std::ranges::any_of(
      notes, [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

TEST(Verbs, TokenizePrintsEveryList) {
  FakeRun run;
  run.replies["tokenize"] = {{{"items", {{{"ids", {1, 2}}}, {{"ids", {3}}}}}}, {}};
  EXPECT_EQ(tokenize_verb()->run(run).text, "[1,2]\n[3]\n");
  run.replies["tokenize"] = {{{"ids", {4, 5}}}, {}};
  EXPECT_EQ(tokenize_verb()->run(run).text, "[4,5]\n");
}

TEST(Verbs, InfoHasALineForEachSentence) {
  protocol::LoadReport report;
  report.quirks = {"norms multiply by 1 + their weights", "scores are capped"};
  report.tied = {"lm_head.weight is model.embed_tokens.weight"};
  FakeRun run;
  run.replies["model.info"] = {protocol::to_json_form(report), {}};
  const Output output = info_verb()->run(run);
  std::vector<std::string> quirks, tied;
  for (const json& row : output.tables.at(0).rows) {
    if (row["what"] == "quirks") quirks.push_back(row["value"]);
    if (row["what"] == "tied") tied.push_back(row["value"]);
  }
  EXPECT_EQ(quirks, report.quirks);
  EXPECT_EQ(tied, report.tied);
}

TEST(Verbs, MapSaysWhichPartOfAnEncoderDecoderItShows) {
  protocol::MapResult map{.model = "t5", .stack = "cross", .layer = 1, .head = 0};
  map.tokens = map.row_end = map.height = 3;
  map.keys = map.column_end = map.width = 5;
  FakeRun run;
  protocol::Reply& reply = run.replies["map"] = {protocol::to_json_form(map), {}};
  reply.tensors.push_back(
      protocol::TensorRef::own<float>("map", {3, 5}, std::vector<float>(15, 0.2F)));
  const Output output = map_verb()->run(run);
  EXPECT_NE(output.text.find("the decoder's attention to the encoder (cross.)"), std::string::npos);
  const widgets::PlotSpec& plot = output.figures.at(0);
  EXPECT_EQ(plot.title, "t5 cross.L1H0: weight");
  EXPECT_EQ(plot.id, "map_t5_cross_L1H0");
  EXPECT_TRUE(has_note(plot.notes, "3 queries and 5 keys"));
  EXPECT_TRUE(has_note(plot.notes, "attention to the encoder"));

  map.stack = "";
  map.model = "rope", map.keys = 3;
  const auto plain = attention_map_figure(map, {{3, 5}, std::vector<float>(15, 0.2F)});
  EXPECT_EQ(plain.title, "rope L1H0: weight");
  EXPECT_TRUE(has_note(plain.notes, "of 3 tokens"));
  EXPECT_FALSE(has_note(plain.notes, "attention"));
}

TEST(Verbs, MapListsTheTopKeysItWasAskedFor) {
  protocol::MapResult map{.model = "rope"};
  map.top = {{4, {2, 0}, {0.75, 0.125}}};
  FakeRun run;
  protocol::Reply& reply = run.replies["map"] = {protocol::to_json_form(map), {}};
  reply.tensors.push_back(
      protocol::TensorRef::own<float>("map", {1, 1}, std::vector<float>(1, 0.2F)));
  const Output output = map_verb()->run(run);
  EXPECT_NE(output.text.find("2 (0.750), 0 (0.125)"), std::string::npos) << output.text;
  EXPECT_EQ(output.result["top"][0]["query"], 4);
}

TEST(Verbs, BenchSaysWhatMeasuredAndWhatRan) {
  protocol::AttentionBench bench{.device = "cpu",
                                 .processor = "Chip A",
                                 .kernel = "fused cpu avx3",
                                 .build = "fused cpu avx3, a compiler",
                                 .threads = 2,
                                 .runs = 5,
                                 .fma_peak_gflops = 400};
  protocol::AttentionBenchRow row{.variant = "tape", .pass = "forward", .dtype = "bf16"};
  row.probes = "none", row.kernel = "plain (no form)", row.ms_min = 0.5, row.ms_max = 1.5;
  row.heads = 2, row.n = 64, row.d = 8, row.ms = 1;
  bench.rows = {row};
  FakeRun run;
  run.replies["bench.kernels"] = {protocol::to_json_form(bench), {}};
  run.replies["worker.info"] = {{{"version", "1.2.3"}, {"torch", "2.11"}, {"threads", 9}}, {}};
  const Output output = bench_verb()->run(run);
  const json sidecar = run.sidecar(output.provenance);
  ASSERT_EQ(sidecar["provenance"].size(), 1u) << sidecar;
  json made = sidecar["provenance"][0];
  EXPECT_EQ(made["date"].get<std::string>().size(), 10u);
  made.erase("date");
  EXPECT_EQ(made, (json{{"command", "phasescope test"},
                        {"models", json::array()},
                        {"model_hashes", json::array()},
                        {"text_hash", ""},
                        {"version", "1.2.3"},
                        {"torch", "2.11"},
                        {"device", "cpu"},
                        {"processor", "Chip A"},
                        {"kernel", "fused cpu avx3"},
                        {"build", "fused cpu avx3, a compiler"},
                        {"threads", 2},
                        {"fma_peak_gflops", 400.0},
                        {"dtype", "bf16"},
                        {"seed", 0},
                        {"runs", 5},
                        {"note", ""}}));
  const std::string csv = csv_of(output.tables.at(0));
  EXPECT_NE(csv.find("tape,forward,bf16,none,plain (no form),64,8,2,1.0,0.5,1.5,"),
            std::string::npos)
      << csv;
  EXPECT_TRUE(has_note(output.tables[0].notes, "Chip A, 2 threads"));
  ASSERT_FALSE(output.figures.empty());
  EXPECT_TRUE(has_note(output.figures[0].notes, "Chip A, 2 threads"));
  EXPECT_TRUE(output.files.empty());
}

TEST(Figures, HeadsSayWhichPartOfAnEncoderDecoderTheyAreOf) {
  protocol::HeadsResult heads{.model = "t5", .stack = "enc", .layers = 1, .heads = 1};
  heads.rows.push_back({0, 0, {{"entropy", {1, 1, 1, 1}}}, {}});
  const Grid pictures{{1, 1, 2, 2}, {1, 0, 0, 1}};
  for (const auto& notes : {head_grid_figure(heads, pictures, "entropy").notes,
                            metric_map_figure(heads, "entropy").notes}) {
    EXPECT_TRUE(has_note(notes, "encoder self-attention (enc.)"));
  }
  heads.stack = "";
  EXPECT_FALSE(has_note(metric_map_figure(heads, "entropy").notes, "self-attention"));
}

protocol::EvalResult evaluated(const std::vector<std::string>& metrics) {
  protocol::EvalResult result{.task = "perplexity", .metric = metrics[0]};
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const std::string name = "model " + std::to_string(m);
    const bool bytes = metrics[m] == "bits_per_byte";
    protocol::EvalRow row{.model = name, .metric = metrics[m], .length = 64, .value = 3, .n = 2};
    row.low = 2.9, row.high = 3.1, row.window = "disjoint";
    result.rows.push_back(row);
    result.positions.push_back({name,
                                bytes ? "bits_per_byte" : "bits_per_token",
                                bytes ? "validation texts" : "texts of seeded random ids",
                                32,
                                2,
                                {0.0, 1.0},
                                {3.0, 3.0},
                                {2.9, 2.9},
                                {3.1, 3.1}});
    if (metrics[m] != metrics[0]) result.metric = "bits";
  }
  return result;
}

// Bits of a byte are no bits of a token: each curve says which it has where they differ.
TEST(Figures, LossesNameTheirUnit) {
  const auto mixed = evaluated({"bits_per_byte", "bits_per_token"});
  for (const auto& plot : {eval_figure(mixed), position_loss_figure(mixed)}) {
    EXPECT_EQ(plot.y.label, "bits");
    EXPECT_EQ(plot.series.at(0).label, "model 0 (bits per byte)");
    EXPECT_EQ(plot.series.at(1).label, "model 1 (bits per token)");
  }
  EXPECT_TRUE(has_note(position_loss_figure(mixed).notes,
                       "mean over 2 validation texts or 2 texts of seeded random ids"));
  const auto alone = evaluated({"bits_per_token"});
  for (const auto& plot : {eval_figure(alone), position_loss_figure(alone)}) {
    EXPECT_EQ(plot.y.label, "bits per token");
    EXPECT_EQ(plot.series.at(0).label, "model 0");
  }
  // A perplexity has a curve in bits beside it.
  const auto exponentials = evaluated({"perplexity"});
  EXPECT_EQ(eval_figure(exponentials).y.label, "perplexity");
  EXPECT_EQ(position_loss_figure(exponentials).y.label, "bits per token");
}

}  // namespace
}  // namespace phasescope::app
