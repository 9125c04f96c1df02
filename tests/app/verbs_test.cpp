// What verbs and figures say of a result: its parts, its units, every one of its lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "fake_run.h"
#include "protocol/bench_results.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/shift.h"
#include "widgets/plot_svg.h"
#include "widgets/plot_table.h"

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
  map.provenance.note = "text cut to 3 of 9 tokens; weights of rope from Q4_K";
  const auto plain =
      attention_map_figure(map, {{3, 5}, std::vector<float>(15, 0.2F)}, ModelNames());
  EXPECT_EQ(plain.title, "rope L1H0: weight");
  EXPECT_TRUE(has_note(plain.notes, "of 3 tokens"));
  EXPECT_EQ(std::ranges::count(plain.notes, "weights of rope from Q4_K"), 1);
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

// 17.A6, 17.A10: a table one can read: the layers as columns, however many, one dtype, and all of
// it in a file.
TEST(Verbs, ShiftPrintsLayersAsColumns) {
  protocol::ShiftResult shift{.formula = "the formula"};
  for (const char* dtype : {"f32", "f64"}) {
    for (const std::int64_t by : {1, 3}) {
      for (std::int64_t layer = 0; layer < 14; ++layer) {
        protocol::ShiftRow row{.model = "rope", .method = "ids", .by = by, .layer = layer};
        row.attention_difference = static_cast<double>(100 * by + layer), row.dtype = dtype;
        shift.rows.push_back(row);
      }
    }
  }
  FakeRun run;
  run.replies["shift"] = {protocol::to_json_form(shift), {}};
  const Output output = shift_verb()->run(run);
  const Table& shown = output.tables.at(0);
  ASSERT_EQ(shown.rows.size(), 2u);
  EXPECT_EQ(shown.rows[1]["L13"], 313.0);
  EXPECT_EQ(std::ranges::count(shown.columns, "L13"), 1);
  EXPECT_EQ(std::ranges::count(shown.columns, "dtype"), 0);
  EXPECT_TRUE(has_note(shown.notes, "in f32; --json and --out have the other dtypes too"));
  const Table& all = output.tables.at(1);
  EXPECT_TRUE(all.for_files);
  EXPECT_EQ(all.rows.size(), 56u);
}

// 17.A10: a curve is no cell of raw JSON.
TEST(Verbs, HeadsDrawDistanceProfiles) {
  protocol::HeadsResult heads{.model = "rope", .layers = 1, .heads = 2};
  heads.metrics = {{.key = "entropy"}, {.key = "distance_profile"}, {.key = "sink_rate"}};
  for (const std::int64_t head : {0, 1}) {
    heads.rows.push_back({0, head, {{"entropy", {1, 1, 1, 1}}}, {}});
    heads.rows.back().distance_profile = {{0, 1, 2}, {3, 2, 1}, {0.5, 0.25, 0.125}};
  }
  FakeRun run;
  run.replies["heads"] = {protocol::to_json_form(heads), {}};
  const Output output = heads_verb()->run(run);
  EXPECT_EQ(output.tables.at(0).columns, (std::vector<std::string>{"layer", "head", "entropy"}));
  EXPECT_EQ(text_of(output.tables[0]).find('{'), std::string::npos) << text_of(output.tables[0]);
  ASSERT_EQ(output.tables.size(), 2u);
  EXPECT_TRUE(output.tables[1].for_files);
  EXPECT_EQ(csv_of(output.tables[1]).substr(0, 49),
            "layer,head,distance,weight,rows\n0,0,0,0.5,3\n0,0,1");
  ASSERT_EQ(output.figures.size(), 2u);
  EXPECT_EQ(output.figures[0].id, "distance_profile_rope_L0");
  EXPECT_EQ(output.figures[0].series.at(1).y, (std::vector<double>{0.5, 0.25, 0.125}));
  EXPECT_EQ(output.figures[1].id, "metric_entropy_rope");
}

// Over texts a profile is drawn by bands with their intervals, and heads beside each other as a
// map.
TEST(Verbs, HeadsDrawIntervalsAndDivergences) {
  protocol::HeadsResult heads{.model = "rope", .corpus = true, .layers = 1, .heads = 2};
  heads.metrics = {{.key = "js_divergence"}, {.key = "distance_profile"}};
  for (const std::int64_t head : {0, 1}) {
    heads.rows.push_back({0, head, {{"js_divergence", {0.1, 0.05, 0.15, 3}}}, {}});
    heads.rows.back().distance_profile = {{0, 1, 2}, {3, 2, 1}, {0.5, 0.25, 0.125}};
    heads.rows.back().distance_profile->bands = {{0, 1, {0.5, 0.4, 0.6, 3}},
                                                 {1, 3, {0.2, 0.1, 0.3, 3}}};
  }
  FakeRun run;
  run.replies["heads"] = {protocol::to_json_form(heads), {}};
  run.replies["heads"].tensors.push_back(
      protocol::TensorRef::own<double>("js_divergence", {2, 2}, {0, 0.1, 0.1, 0}));
  const Output output = heads_verb()->run(run);
  ASSERT_EQ(output.figures.size(), 3u);
  const widgets::Series& series = output.figures[0].series.at(0);
  EXPECT_EQ(series.x, (std::vector<double>{1, 2.5}));  // on a log axis
  EXPECT_EQ(series.low, (std::vector<double>{0.4, 0.1}));
  EXPECT_EQ(output.figures[1].id, "head_divergence_rope");
  EXPECT_EQ(output.figures[1].map->rows, 2);
  EXPECT_EQ(csv_of(output.tables.at(2)).substr(0, 72),
            "layer,head,begin,end,value,low,high,n\n0,0,0,1,0.5,0.4,0.6,3\n0,0,1,3,0.2,");
}

protocol::AblateResult two_ablations() {
  protocol::AblateResult ablate{.model = "rope", .layers = 1, .heads = 2};
  for (const std::int64_t head : {0, 1}) {
    protocol::AblateRow row{.change = "L0H" + std::to_string(head) + " zero"};
    row.layer = 0, row.head = head;
    row.loss_change = {static_cast<double>(head), {}, {}, 4};
    row.positions = {{0, 8, {1, 0.5, 1.5, 4}}, {8, 16, {2, 1.5, 2.5, 4}}};
    row.maps = {{0, 0, {0.25, {}, {}, 4}}, {0, 1, {0, {}, {}, 4}}};
    row.reading = "rope (head_ablations=L0H0:mean, ablation_means=FILE.safetensors)";
    ablate.rows.push_back(std::move(row));
  }
  return ablate;
}

TEST(Verbs, AblateDrawsWhatChanges) {
  FakeRun run;
  run.options().out = "out/means.safetensors";
  run.replies["ablate"] = {protocol::to_json_form(two_ablations()), {}};
  const Output output = ablate_verb()->run(run);
  EXPECT_EQ(output.tables.at(0).rows[0]["change"], "L0H1 zero");  // what costs most first
  EXPECT_EQ(output.result["rows"][0]["reading"],
            "rope (head_ablations=L0H0:mean, ablation_means=out/means.safetensors)");
  ASSERT_EQ(output.figures.size(), 4u);
  EXPECT_EQ(output.figures[0].map->values, (std::vector<float>{0, 1}));
  EXPECT_EQ(output.figures[1].series.at(0).label, "L0H1 zero");
  EXPECT_EQ(output.figures[1].series.at(0).x, (std::vector<double>{3.5, 11.5}));
  EXPECT_EQ(output.figures[2].map->values, (std::vector<float>{0.25, 0}));
  // Changes that are of no one head are points.
  protocol::AblateResult settings = two_ablations();
  for (protocol::AblateRow& row : settings.rows) row.head.reset(), row.maps.clear();
  run.replies["ablate"] = {protocol::to_json_form(settings), {}};
  const Output points = ablate_verb()->run(run);
  ASSERT_EQ(points.figures.size(), 2u);
  EXPECT_EQ(points.figures[0].series.at(0).y, (std::vector<double>{0, 1}));
}

TEST(Verbs, CompareDrawsEveryFurtherModel) {
  protocol::CompareResult compare{.a = "rope", .b = "tapa"};
  compare.heads = {{0, 0, 0.5}};
  compare.positions = {{0, 8, {1, {}, {}, 1}}};
  compare.matches = {{0, 0, 0, 1, {0.25, {}, {}, 1}}};
  compare.others = {{.a = "rope", .b = "none", .heads = {{0, 0, 0.125}}}};
  FakeRun run;
  run.replies["compare"] = {protocol::to_json_form(compare), {}};
  run.replies["compare"].tensors.push_back(
      protocol::TensorRef::own<double>("js_between", {1, 2}, {0.5, 0.25}));
  protocol::MapResult map{.model = "rope"};
  map.tokens = map.row_end = map.column_end = map.height = map.width = 2;
  run.replies["map"] = {protocol::to_json_form(map), {}};
  run.replies["map"].tensors.push_back(
      protocol::TensorRef::own<float>("map", {2, 2}, std::vector<float>(4)));
  protocol::LoadReport info;
  info.model.heads = 2;
  run.replies["model.info"] = {protocol::to_json_form(info), {}};
  const Output output = compare_verb()->run(run);
  std::vector<std::string> ids;
  for (const auto& figure : output.figures) ids.push_back(figure.id);
  ASSERT_EQ(ids.size(), 6u);
  EXPECT_EQ(ids[0], "divergence_rope_tapa");
  EXPECT_EQ(ids[1], "loss_change_rope_tapa");
  EXPECT_EQ(ids[2], "matched_rope_tapa");
  ASSERT_EQ(output.figures[2].series.at(0).x.size(), 1u);  // within column 1
  EXPECT_EQ(std::floor(output.figures[2].series[0].x[0]), 1);
  EXPECT_EQ(output.figures[2].x.ticks.at(1).label, "L0H1");
  EXPECT_EQ(ids[4], "divergence_rope_none");
  EXPECT_EQ(run.requests.back().params["model"], "none");
}

// Maps that are subtracted are of the stack that was compared; a model of one stack has no other.
TEST(Verbs, CompareSubtractsMapsOfTheStackThatItCompared) {
  protocol::CompareResult compare{.a = "t5", .b = "bert", .stack = "enc"};
  compare.heads = {{1, 0, 0.25}};
  FakeRun run;
  run.replies["compare"] = {protocol::to_json_form(compare), {}};
  protocol::MapResult map{.model = "t5"};
  map.tokens = map.row_end = map.column_end = map.height = map.width = 2;
  run.replies["map"] = {protocol::to_json_form(map), {}};
  run.replies["map"].tensors.push_back(
      protocol::TensorRef::own<float>("map", {2, 2}, std::vector<float>(4)));
  const Output output = compare_verb()->run(run);
  ASSERT_EQ(run.requests.size(), 3u);
  EXPECT_EQ(run.requests[1].params["head"], json::array({"enc.L1H0"}));
  EXPECT_EQ(run.requests[2].params["head"], json::array({"L1H0"}));
  EXPECT_EQ(output.figures.at(0).id, "divergence_t5_bert_enc");
}

protocol::DistanceModel measured_model(const std::string& name) {
  protocol::DistanceModel model{.model = name};
  model.profile.push_back({.distance = 1, .count = 1});
  model.histogram = protocol::NearFar{.mean = 2, .edges = {0, 1}, .counts = {1}};
  for (const std::int64_t head : {0, 1}) model.intrinsic.push_back({.layer = 0, .head = head});
  return model;
}

// 17.A10: the intrinsic bias is a figure of each head, for who asks for each head; an interval that
// could not be made is a dash; a model that has no such thing is said to be one.
TEST(Verbs, DistanceWritesWhatWasAskedFor) {
  protocol::DistanceResult distance;
  distance.models = {measured_model("rope"), {.model = "t5", .note = "it has two stacks"}};
  FakeRun run;
  run.replies["distance"] = {protocol::to_json_form(distance), {}};
  const Output output = distance_verb()->run(run);
  for (const widgets::PlotSpec& plot : output.figures) {
    EXPECT_EQ(plot.id.find("intrinsic"), std::string::npos) << plot.id;
    for (const widgets::Series& series : plot.series) EXPECT_NE(series.label, "t5") << plot.id;
  }
  const std::string table = text_of(output.tables.at(0));
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  EXPECT_NE(table.find("2    -     -"), std::string::npos) << table;
  EXPECT_NE(table.find("t5: it has two stacks"), std::string::npos) << table;
}

// A layer with a state has no heads, and a row without values.
TEST(Verbs, HeadsThatAreNotThereHaveNoValues) {
  const json rows = {{{"layer", 0}, {"head", 0}, {"sink", "nan"}},
                     {{"layer", 1}, {"head", 0}, {"sink", 0.25}},
                     {{"layer", 2}, {"head", 0}, {"sink", {{"mean", "nan"}, {"n", 2}}}}};
  protocol::HeadsResult heads;
  heads.metrics = {{.key = "sink"}};
  heads.rows.resize(1);
  heads.rows[0].values["sink"] = {};
  const std::string table = text_of(heads_table(heads, rows));
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  EXPECT_NE(table.find("0.25"), std::string::npos) << table;
}

// Another model's states are told of on the terminal, and rows of queries in the folder.
TEST(Verbs, PatternsListWhatStandsBesideTheirStates) {
  protocol::PatternsResult patterns{.model = "rope", .against = "tape"};
  patterns.layers = {{.layer = 0, .mean_abs_z = 1}};
  patterns.against_layers = {{.layer = 0, .mean_abs_z = 1}, {.layer = 1, .drift = 0.25}};
  patterns.against_layers.push_back({.layer = 2, .drift = 0.5});
  patterns.against_layers.back().drift_interval = {0.5, 0.375, 0.625, 8, "8 blocks", "blocks"};
  protocol::BiasRow row{.layer = 2, .head = 1, .query = 7, .text_name = "verse"};
  row.distances = {0, 5}, row.content = {1.5, -2.5}, row.positional = {0.5, 0.25};
  patterns.rows = {row};
  FakeRun run;
  run.replies["patterns"] = {protocol::to_json_form(patterns), {}};
  const Output output = patterns_verb()->run(run);
  ASSERT_EQ(output.tables.size(), 3u);
  EXPECT_EQ(output.tables[1].title, "the states of tape");
  ASSERT_EQ(output.tables[1].rows.size(), 3u);
  EXPECT_EQ(output.tables[1].rows.at(1)["drift"], 0.25);
  EXPECT_EQ(cell_text(output.tables[1], output.tables[1].rows.at(2), "drift"),
            "0.5 [0.375, 0.625]");
  protocol::PatternsResult tape{.model = "tape"};
  tape.layers = patterns.against_layers;
  const widgets::PlotSpec drift = state_drift_figure({&tape, 1}, ModelNames({"tape"})).value();
  EXPECT_EQ(drift.series.back().high.at(2), 0.625);
  EXPECT_TRUE(std::isnan(drift.series.back().high.at(1)));  // where there is none
  // What several are set against is drawn once, and what does not drift not at all.
  const std::vector<protocol::PatternsResult> against_one = {patterns, patterns};
  const ModelNames names({"rope", "tape"});
  EXPECT_EQ(state_drift_figure(against_one, names).value().series.size(), 2u);
  patterns.against_layers.clear();
  EXPECT_FALSE(state_drift_figure({&patterns, 1}, names).has_value());
  EXPECT_TRUE(has_note(output.tables[1].notes, "rows of single queries"));
  const Table& rows = output.tables[2];
  EXPECT_TRUE(rows.for_files);
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_EQ(rows.rows.at(1)["distance"], 5);
  EXPECT_EQ(rows.rows.at(1)["content"], -2.5);
  EXPECT_EQ(rows.rows.at(1)["positional"], 0.25);
  EXPECT_FALSE(rows.rows.at(1).contains("base"));  // it has no table
}

TEST(Verbs, PatternsListBiasCurves) {
  protocol::PatternsResult patterns{.model = "t5"};
  for (std::int64_t d = 0; d < 100; ++d) patterns.bias_distances.push_back(d);
  protocol::BiasCurve curve{.layer = 0, .head = 0, .label = "L0H0 bias"};
  for (double d = 0; d < 100; ++d) curve.values.push_back(-d);
  patterns.bias = {curve};
  patterns.bias_note = "the same of every query";
  FakeRun run;
  run.replies["patterns"] = {protocol::to_json_form(patterns), {}};
  const Output output = patterns_verb()->run(run);
  ASSERT_EQ(output.tables.size(), 1u);
  EXPECT_EQ(output.tables[0].columns,
            (std::vector<std::string>{"curve", "0", "1", "2", "4", "8", "16", "32", "64", "99"}));
  EXPECT_EQ(output.tables[0].rows.at(0)["64"], -64.0);
  EXPECT_TRUE(has_note(output.tables[0].notes, "the same of every query"));
  EXPECT_TRUE(has_note(output.figures.at(0).notes, "the same of every query"));
}

// 17.A6: a picture says which positions it shows.
TEST(Figures, PositionProductsSayWhichPositionsTheyShow) {
  protocol::PatternsResult patterns{.model = "rope", .products = "G is this"};
  patterns.positions = {0, 8}, patterns.position_count = 16;
  const Grid grid{{2, 2}, {1, 2, 3, 4}};
  const auto plot = pe_dot_figure(patterns, 0, grid, ModelNames({"rope"}));
  EXPECT_TRUE(has_note(plot.notes, "2 of 16 positions, one of every 8"));
  EXPECT_TRUE(has_note(plot.notes, "G is this"));
  EXPECT_EQ(plot.map->row_end, 16);
  EXPECT_EQ(widgets::csv_of(plot),
            "position i,position j,PE dot product G\n0,0,1\n0,8,2\n8,0,3\n8,8,4\n");
  patterns.positions = {0, 5, 10};
  EXPECT_EQ(sampling_note(patterns), "G shows 3 of 16 positions, evenly over them");
  patterns.positions = {0, 1}, patterns.position_count = 2;
  EXPECT_EQ(sampling_note(patterns), "G shows all 2 positions");
}

TEST(Figures, AThinnedJobCurveSaysSo) {
  protocol::JobStatus job{.name = "j"};
  job.curve = {{.step = 1, .loss = 2}, {.step = 5, .loss = 1}};
  job.curve_of = 5;
  EXPECT_TRUE(has_note(job_curve_figure(job).notes, "2 of 5 points are drawn"));
  job.curve_of = 2;
  EXPECT_TRUE(job_curve_figure(job).notes.empty());
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
  row.probes = "none", row.ms_min = 0.5, row.ms_max = 1.5;
  row.heads = 2, row.n = 64, row.d = 8, row.ms = 1;
  row.ran = protocol::Ran{.implementation = "plain", .reason = "no form", .dtype = "bf16"};
  row.kernel = row.ran->text();
  bench.rows = {row, row};
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
                        {"ran", {protocol::to_json_form(*row.ran)}},
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

// What is saved of a metric is called what the window calls it, with its unit, not by its key.
TEST(Figures, AMetricHasItsTitleAndItsUnit) {
  protocol::HeadsResult heads;
  heads.model = "rope", heads.layers = 1, heads.heads = 1;
  protocol::HeadRow row;
  row.values["mean_distance"] = {.mean = 3};
  heads.rows = {row};
  protocol::MetricInfo info;
  info.key = "mean_distance", info.title = "Mean distance", info.unit = "tokens";
  info.formula = "the sum of A d";
  heads.metrics = {info};
  const widgets::PlotSpec plot = metric_map_figure(heads, "mean_distance", ModelNames());
  EXPECT_EQ(plot.title, "rope: Mean distance");
  EXPECT_EQ(plot.map->value_label, "Mean distance (tokens)");
  // One that the result does not tell of has its key alone.
  EXPECT_EQ(metric_map_figure(heads, "sink", ModelNames()).map->value_label, "sink");
}

TEST(Figures, HeadsSayWhichPartOfAnEncoderDecoderTheyAreOf) {
  protocol::HeadsResult heads{.model = "t5", .stack = "enc", .layers = 1, .heads = 1};
  heads.rows.push_back({0, 0, {{"entropy", {1, 1, 1, 1}}}, {}});
  const Grid pictures{{1, 1, 2, 2}, {1, 0, 0, 1}};
  for (const auto& notes : {head_grid_figure(heads, pictures, "entropy", ModelNames()).notes,
                            metric_map_figure(heads, "entropy", ModelNames()).notes}) {
    EXPECT_TRUE(has_note(notes, "encoder self-attention (enc.)"));
  }
  heads.stack = "";
  EXPECT_FALSE(has_note(metric_map_figure(heads, "entropy", ModelNames()).notes, "self-attention"));
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

// 17.A5: where there is no interval none is drawn or printed, and no "nan" in its place.
TEST(Figures, ATextAloneHasNoInterval) {
  auto result = evaluated({"bits_per_byte"});
  result.rows[0].low = result.rows[0].high = {};
  auto& curve = result.positions[0];
  curve.low[1] = curve.high[1] = {};
  const ModelNames names = names_in(result);
  for (const auto& plot : {eval_figure(result, names), position_loss_figure(result, names)}) {
    EXPECT_TRUE(has_note(plot.notes, "3 [-] at 64"));
    EXPECT_EQ(widgets::svg_of(plot).find("nan"), std::string::npos);
  }
  EXPECT_EQ(widgets::band_runs(position_loss_figure(result, names).series[0]).size(), 1u);
  EXPECT_TRUE(widgets::band_runs(eval_figure(result, names).series[0]).empty());
  EXPECT_EQ(with_ends({2.5, {}, {}, 1}), "2.5 [-]");
  EXPECT_EQ(with_ends({2.5, 2, {}, 9}), "2.5 [2, -]");
  Table table{.columns = {"loss"}};
  table.rows.push_back({{"loss", protocol::to_json_form(protocol::Interval{2.5, {}, {}, 1})}});
  table.rows.push_back({{"loss", protocol::to_json_form(protocol::Interval{2.5, 2, 3, 9})}});
  const std::string text = text_of(table);
  EXPECT_NE(text.find("2.5 [-]"), std::string::npos) << text;
  EXPECT_NE(text.find("2.5 [2, 3]"), std::string::npos) << text;
}

// Bits of a byte are no bits of a token: each curve says which it has where they differ.
TEST(Figures, LossesNameTheirUnit) {
  const auto mixed = evaluated({"bits_per_byte", "bits_per_token"});
  for (const auto& plot :
       {eval_figure(mixed, names_in(mixed)), position_loss_figure(mixed, names_in(mixed))}) {
    EXPECT_EQ(plot.y.label, "bits");
    EXPECT_EQ(plot.series.at(0).label, "model 0 (bits per byte)");
    EXPECT_EQ(plot.series.at(1).label, "model 1 (bits per token)");
  }
  EXPECT_TRUE(has_note(position_loss_figure(mixed, names_in(mixed)).notes,
                       "mean over 2 validation texts or 2 texts of seeded random ids"));
  const auto alone = evaluated({"bits_per_token"});
  for (const auto& plot :
       {eval_figure(alone, names_in(alone)), position_loss_figure(alone, names_in(alone))}) {
    EXPECT_EQ(plot.y.label, "bits per token");
    EXPECT_EQ(plot.series.at(0).label, "model 0");
  }
  // A perplexity has a curve in bits beside it.
  const auto exponentials = evaluated({"perplexity"});
  EXPECT_EQ(eval_figure(exponentials, ModelNames()).y.label, "perplexity");
  EXPECT_EQ(position_loss_figure(exponentials, ModelNames()).y.label, "bits per token");
}

}  // namespace
}  // namespace phasescope::app
