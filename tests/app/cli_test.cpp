// The command line without a worker: tables, exports, parameters, exit statuses.
#include "app/cli/cli.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

#include "app/cli/given_input.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/progress_lines.h"
#include "app/figures/figures.h"
#include "app/report/report.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "app/verbs/verbs.h"
#include "fake_run.h"
#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "widgets/plot_svg.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "phasescope-cli-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int run_words(std::vector<std::string> words) {
  words.insert(words.begin(), "phasescope");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_program(int(argv.size()), argv.data());
}

// What the program says on standard error for these words, which must end with `status`.
std::string complaint(std::vector<std::string> words, int status = 2) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_words(std::move(words)), status);
  return testing::internal::GetCapturedStderr();
}

TEST(Options, Ranges) {
  EXPECT_EQ(integer_range("3:17", "--rows"), (std::vector<int64_t>{3, 17}));
  EXPECT_THROW(integer_range("3", "--rows"), formats::Error);
  EXPECT_THROW(integer_range("3:", "--rows"), formats::Error);
}

TEST(Table, AlignsColumnsAndCountsCharactersNotBytes) {
  Table table{.columns = {"name", "x"}};
  table.rows = {{{"name", "é"}, {"x", 1.5}}, {{"name", "abc"}, {"x", 20}}};
  EXPECT_EQ(text_of(table), "name    x\né     1.5\nabc    20\n");
}

TEST(Table, CountsHaveFiveDigitsAndAUnit) {
  Table table{.columns = {"flops", "mean"}, .counts = {"flops"}};
  for (const double flops : {361.44e9, 180.691e9, 99.99951e6, 1.23456e3, 999.996, 12.0, 0.0}) {
    table.rows.push_back({{"flops", flops}, {"mean", 1.23456e9}});
  }
  EXPECT_EQ(text_of(table),
            "   flops      mean\n361.44 G  1.23e+09\n180.69 G  1.23e+09\n100.00 M  1.23e+09\n"
            "1.2346 k  1.23e+09\n1.0000 k  1.23e+09\n      12  1.23e+09\n       0  1.23e+09\n");
  EXPECT_NE(csv_of(table).find("361440000000.0,"), std::string::npos);
}

TEST(Table, CsvQuotesWhatNeedsIt) {
  Table table{.columns = {"a", "b"}};
  table.rows = {{{"a", "x,\"y\""}, {"b", 0.1}}, {{"a", nullptr}}};
  EXPECT_EQ(csv_of(table), "a,b\n\"x,\"\"y\"\"\",0.1\n,\n");
}

// 17.A10: from 0 %, every few seconds, and nothing of what is over before.
TEST(ProgressLines, AreToldEveryFewSeconds) {
  using std::chrono::seconds;
  ProgressLines lines;
  const auto begin = ProgressLines::Clock::now();
  EXPECT_FALSE(lines.line(-1, "opening rope", begin));
  EXPECT_FALSE(lines.line(-1, "opening rope", begin + seconds(4)));
  EXPECT_EQ(lines.line(-1, "opening rope", begin + seconds(5)), "  0 % opening rope");
  EXPECT_FALSE(lines.line(0.25, "reading", begin + seconds(9)));
  EXPECT_EQ(lines.line(-1, "reading", begin + seconds(10)), " 25 % reading");
  EXPECT_FALSE(lines.line(1, "", begin + seconds(20)));
  EXPECT_EQ(lines.line(1.5, "done", begin + seconds(20)), "100 % done");
  lines.restart();
  EXPECT_EQ(lines.fraction(-1), 0);
}

// 17.A10: refused before anything runs, with one sentence that names the option.
TEST(Options, NumbersThatMeanNothingAreRefused) {
  const std::vector<std::vector<std::string>> refused = {
      {"distance", "rope", "--pairs", "0"},
      {"distance", "rope", "--pairs", "-5"},
      {"eval", "perplexity", "rope", "--trials", "-1"},
      {"heads", "rope", "--metrics", ""},
      {"map", "rope", "--size", "999999x999999"},
      {"shift", "rope", "--by", ""},
      {"patterns", "rope", "--distances", "0"},
  };
  for (const std::vector<std::string>& words : refused) {
    const std::string said = complaint(words);
    EXPECT_NE(said.find(words[words.size() - 2]), std::string::npos) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// 17.A10: what was asked for, one sidecar a figure, and no x.json.json.
TEST(Export, AFolderHasWhatWasAskedFor) {
  Folder folder;
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {3, 2}});
  Output output{.result = {{"x", 1}}, .figures = {plot}};
  output.tables.push_back({.columns = {"a"}});
  export_output(output, folder / "all", {{"command", "c"}});
  EXPECT_EQ(names_in(folder / "all"), (std::set<std::string>{"result.json", "table.csv", "loss.svg",
                                                             "loss.png", "loss.csv", "loss.json"}));
  EXPECT_EQ(json::parse(content(folder / "all" / "loss.json"))["provenance"]["command"], "c");
  const json result = json::parse(content(folder / "all" / "result.json"));
  EXPECT_EQ(result, (json{{"x", 1}, {"made_by", {{"command", "c"}}}}));
  export_output(output, folder / "one" / "x.json", {{"command", "c"}});
  EXPECT_EQ(names_in(folder / "one"), std::set<std::string>{"x.json"});
  EXPECT_EQ(json::parse(content(folder / "one" / "x.json")), result);
  output.result = json::array({1, 2});
  export_output(output, folder / "one" / "list.json", {{"command", "c"}});
  EXPECT_EQ(json::parse(content(folder / "one" / "list.json"))["items"], json({1, 2}));
}

// Without the program that draws PNGs the rest is written, and the line on the terminal says so.
TEST(Export, WithoutAConverterThereIsNoPng) {
  Folder folder;
  Output output{.result = json::object()};
  output.figures.push_back({.id = "loss", .title = "Loss"});
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder / "nothing").c_str(), 1);
  export_output(output, folder / "all", {{"command", "c"}});
  const std::string said = what_else(output, folder / "all");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(names_in(folder / "all"),
            (std::set<std::string>{"result.json", "loss.svg", "loss.csv", "loss.json"}));
  EXPECT_NE(said.find("no PNG: rsvg-convert is not there"), std::string::npos) << said;
  EXPECT_EQ(what_else(output, folder / "all"), "");
}

// 17.A10: help is a result too.
TEST(Output, HelpThatCannotBeWrittenIsAnError) {
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, STDOUT_FILENO);
  const std::string said = complaint({"models", "--help"});
  ::dup2(before, STDOUT_FILENO);
  ::close(before), ::close(full);
  std::clearerr(stdout);
  EXPECT_NE(said.find("the result could not be written: No space left"), std::string::npos) << said;
}

TEST(Export, SafetensorsHoldTheTensorsAndTheCommand) {
  Folder folder;
  Output output{.result = json::object()};
  output.tensors.push_back(protocol::TensorRef::own<float>("logits", {2, 2}, {1.f, 2.f, 3.f, 4.f}));
  export_output(output, folder / "c.safetensors", {{"command", "phasescope capture"}});
  const auto file = formats::SafetensorsFile::open(folder / "c.safetensors");
  ASSERT_NE(file.find("logits"), nullptr);
  EXPECT_EQ(file.find("logits")->shape, (std::vector<int64_t>{2, 2}));
  const json sidecar = json::parse(content(folder / "c.safetensors.json"));
  EXPECT_EQ(sidecar["command"], "phasescope capture");
}

TEST(Export, UnknownFormsAreNamed) {
  Folder folder;
  Output output{.result = json::object()};
  try {
    export_output(output, folder / "x.tiff", json::object());
    FAIL() << "a .tiff was written";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_usage");
    EXPECT_NE(error.full_text().find(".svg"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder / "x.tiff"));
}

TEST(Export, AFigureBecomesEveryForm) {
  Folder folder;
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back({.label = "a", .x = {0, 1, 2}, .y = {3, 2, 1}});
  Output output{.result = {{"x", 1}}, .figures = {plot}};
  export_output(output, folder / "all", {{"command", "c"}});
  for (const char* name : {"loss.svg", "loss.png", "loss.csv", "loss.json", "result.json"}) {
    EXPECT_TRUE(fs::exists(folder / "all" / name)) << name;
  }
  EXPECT_EQ(content(folder / "all" / "loss.png").substr(1, 3), "PNG");
  export_output(output, folder / "loss.pdf", {{"command", "c"}});
  EXPECT_EQ(content(folder / "loss.pdf").substr(0, 4), "%PDF");
}

// No date of the day is in them: a figure that is made again is the same file.
TEST(Export, FiguresOfTheSameDataAreTheSameBytes) {
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back({.label = "a", .x = {0, 1, 2}, .y = {3, 2, 1}});
  const std::string svg = widgets::svg_of(plot);
  for (const char* form : {"pdf", "png"}) {
    const std::string first = convert_svg(svg, form);
    EXPECT_EQ(first.find("CreationDate (D:20"), std::string::npos) << form;
    if (form == std::string("pdf")) {  // whose dates have whole seconds
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    }
    EXPECT_EQ(convert_svg(svg, form), first) << form;
  }
}

widgets::GridSpec two_heads() {
  widgets::GridSpec grid{.id = "heads", .title = "Every head", .columns = 2};
  for (const char* name : {"L0H0 1.5", "L0H1 2.5"}) {
    grid.cells.push_back({{.rows = 1, .cols = 2, .values = {0.25f, 0.75f}}, name});
  }
  return grid;
}

TEST(Export, AGridBecomesEveryFormAndStandsForItsVerb) {
  Folder folder;
  Output output{.result = json::object(), .grids = {two_heads()}};
  output.figures.push_back({.id = "metric", .title = "A metric"});
  export_output(output, folder / "all", {{"command", "c"}});
  EXPECT_EQ(content(folder / "all" / "heads.csv"),
            "cell,row,column,value\nL0H0,0,0,0.25\nL0H0,0,1,0.75\nL0H1,0,0,0.25\nL0H1,0,1,0.75\n");
  EXPECT_EQ(content(folder / "all" / "heads.png").substr(1, 3), "PNG");
  EXPECT_EQ(json::parse(content(folder / "all" / "heads.json"))["cells"].size(), 2u);
  export_output(output, folder / "heads.svg", {{"command", "c"}});
  EXPECT_NE(content(folder / "heads.svg").find("Every head"), std::string::npos);
  EXPECT_NE(what_else(output, "heads.svg").find("2 figures"), std::string::npos);
  EXPECT_EQ(what_else(output, folder / "all"), "");
}

TEST(Export, ThePlaceIsLookedAtBeforeAnythingRuns) {
  Folder folder;
  std::ofstream(folder / "file") << "x";
  fs::create_directories(folder / "v1.5");
  EXPECT_THROW(require_writable_form(folder / "x.tiff"), formats::Error);
  EXPECT_THROW(require_writable_form(folder / "file" / "x.svg"), formats::Error);
  EXPECT_THROW(require_writable_form(folder / "x.sv"), formats::Error);  // part of a known form
  EXPECT_NO_THROW(require_writable_form(folder / "not" / "yet" / "x.svg"));
  EXPECT_NO_THROW(require_writable_form(folder / "v1.5"));
  EXPECT_NO_THROW(require_writable_form("x.svg"));
  EXPECT_FALSE(fs::exists(folder / "not"));
  export_output({.result = {{"x", 1}}}, folder / "v1.5", json::object());
  EXPECT_TRUE(fs::exists(folder / "v1.5" / "result.json"));
}

protocol::DistanceResult two_models() {
  protocol::DistanceResult result;
  for (const char* name : {"rope", "tapa"}) {
    protocol::DistanceModel model{.model = name};
    protocol::NearFar h{.near_begin = 1, .near_end = 16, .far_begin = 240, .far_end = 256};
    h.pairs = 4;
    h.mean = 2;
    h.edges = {0, 1, 3};
    h.counts = {1, 3};
    model.histogram = h;
    model.layers.push_back({.layer = 0, .histogram = h});
    result.models.push_back(model);
  }
  return result;
}

TEST(Figures, NearFarHistogramIsADensity) {
  const auto result = two_models();
  const widgets::PlotSpec plot = near_far_figure(result.models, app::names_in(result));
  ASSERT_EQ(plot.series.size(), 2u);
  const widgets::Series& series = plot.series[0];
  double area = 0;
  for (size_t bin = 0; bin < series.y.size(); ++bin) {
    area += series.y[bin] * (series.x[bin + 1] - series.x[bin]);
  }
  EXPECT_NEAR(area, 1.0, 1e-12);  // four pairs in two bins of widths 1 and 2
}

protocol::ShiftResult two_shifted() {
  protocol::ShiftResult result{.formula = "the formula"};
  for (const char* model : {"rope", "tapa"}) {
    for (const char* method : {"ids", "tokens"}) {
      for (int64_t by : {1, 3, 16}) {
        for (int64_t layer : {0, 1}) {
          const bool still = model == std::string("tapa") && method == std::string("ids");
          result.rows.push_back({.model = model,
                                 .method = method,
                                 .by = by,
                                 .layer = layer,
                                 .attention_difference = still ? 0.0 : double(by + layer)});
        }
      }
    }
  }
  return result;
}

TEST(Figures, EveryLineOfTheShiftFigureLooksDifferent) {
  const widgets::PlotSpec plot = shift_figure(two_shifted(), app::names_in(two_shifted()));
  ASSERT_EQ(plot.series.size(), 12u);
  std::set<std::tuple<int, bool, double>> looks;
  for (const widgets::Series& series : plot.series) {
    looks.insert({series.color, series.dashed, series.width});
  }
  EXPECT_EQ(looks.size(), 12u);
  // What a log axis cannot show is said.
  bool said = false;
  for (const std::string& note : plot.notes) {
    said = said || note.find("tapa ids by 1, tapa ids by 3, tapa ids by 16") != note.npos;
  }
  EXPECT_TRUE(said);
}

TEST(Figures, CurvesOfACheckWithTheSameAxesShareAFigure) {
  protocol::CheckResult check{.id = "x", .model = "rope"};
  check.curves.push_back({.label = "measured", .x_label = "distance", .x = {1, 2}, .y = {1, 2}});
  check.curves.push_back({.label = "expected", .x_label = "distance", .x = {1, 2}, .y = {2, 1}});
  check.curves.push_back({.label = "other", .x_label = "shift", .x = {1, 2}, .y = {3, 3}});
  const auto figures = check_figures(check, ModelNames({"rope"}));
  ASSERT_EQ(figures.size(), 2u);
  ASSERT_EQ(figures[0].series.size(), 2u);
  EXPECT_EQ(figures[0].series[1].label, "expected");
  EXPECT_NE(figures[0].series[0].color, figures[0].series[1].color);
  EXPECT_NE(figures[0].id, figures[1].id);
}

TEST(Tables, ShiftHasARowForEachShiftAndAColumnForEachLayer) {
  const Table table = shift_table(two_shifted());
  EXPECT_EQ(table.rows.size(), 12u);
  EXPECT_EQ(table.rows[1]["by"], 3);
  EXPECT_EQ(table.rows[1]["L0"], 3.0);
  EXPECT_EQ(table.rows[1]["L1"], 4.0);
}

// A model without a head, or one that sees both ways, has no loss and no logits.
TEST(Figures, WhatIsAbsentIsDrawnAsAbsent) {
  protocol::ShiftResult shift = two_shifted();
  for (protocol::ShiftRow& row : shift.rows) row.logits_difference = std::nan("");
  shift.provenance.push_back({.models = {"rope"}, .note = "it has no head"});
  const widgets::PlotSpec plot = shift_figure(shift, app::names_in(shift));
  EXPECT_EQ(plot.notes.back(), "rope: it has no head");
  EXPECT_NE(widgets::svg_of(plot).find("</svg>"), std::string::npos);
  EXPECT_EQ(shift_table(shift).rows[0]["logits"], "nan");

  protocol::TextResult text{.model = "bert"};
  text.tokens = {{.id = 0, .text = "a"}, {.id = 60, .text = "b"}};
  text.loss = std::nan("");
  text.provenance.note = "it sees both ways";
  const widgets::PlotSpec losses = token_loss_figure(std::vector{text}, ModelNames({"bert"}));
  EXPECT_TRUE(losses.series.empty());
  EXPECT_NE(widgets::svg_of(losses).find("sees both ways"), std::string::npos);

  const protocol::CompareResult nothing{.a = "x", .b = "y"};
  EXPECT_NE(widgets::svg_of(divergence_figure(nothing, app::names_in(nothing))).find("</svg>"),
            std::string::npos);
}

TEST(Verbs, CompareTellsAnAbsentLoss) {
  FakeRun run;
  protocol::CompareResult compare{.a = "bert", .b = "roformer"};
  compare.loss = {{"a", std::nan("")}, {"b", 2.5}, {"difference", std::nan("")}};
  compare.provenance.note = "bert has no loss";
  run.replies["compare"] = {protocol::to_json_form(compare), {}};
  const Output output = compare_verb()->run(run);
  ASSERT_EQ(output.tables.size(), 2u);
  const std::string text = text_of(output.tables[1]);
  EXPECT_NE(text.find("nan"), std::string::npos) << text;
  EXPECT_NE(text.find("bert has no loss"), std::string::npos) << text;
}

// Two models of other trained lengths: the longer map is asked for again, as long as the shorter.
TEST(Verbs, MapsOfDifferentLengthsAreComparedAsFarAsBothGo) {
  class Lengths final : public FakeRun {
   public:
    protocol::Reply call(const std::string& method, json params) override {
      FakeRun::replies["map"] =
          reply(params.value("model", "") == "long" ? params.value("length", 128) : 64);
      return FakeRun::call(method, std::move(params));
    }

   private:
    static protocol::Reply reply(int64_t tokens) {
      protocol::MapResult map;
      map.tokens = map.row_end = map.column_end = map.height = map.width = tokens;
      protocol::Reply out{protocol::to_json_form(map), {}};
      out.tensors.push_back(protocol::TensorRef::own<float>(
          "map", {tokens, tokens}, std::vector<float>(size_t(tokens * tokens))));
      return out;
    }
  };
  Lengths run;
  protocol::CompareResult compare;
  compare.heads = {{0, 1, 0.25}};
  const auto plot = largest_difference(run, compare, {.a = "long", .b = "short"});
  ASSERT_TRUE(plot.has_value());
  EXPECT_EQ(plot->map->rows, 64);
  ASSERT_EQ(run.requests.size(), 3u);
  EXPECT_EQ(run.requests[2].params["model"], "long");
  EXPECT_EQ(run.requests[2].params["length"], 64);
}

TEST(Verbs, GenerateWithoutATokenizerPrintsIds) {
  FakeRun run;
  protocol::GenerateResult written{.model = "x", .ids = {5, 17, 3}};
  written.provenance.note = "ids alone";
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  EXPECT_EQ(generate_verb()->run(run).text, "5 17 3\n");
  ASSERT_EQ(run.said.size(), 1u);
  EXPECT_EQ(run.said[0], "ids alone");
  written.text = "words";
  run.replies["generate"] = {protocol::to_json_form(written), {}};
  EXPECT_EQ(generate_verb()->run(run).text, "words\n");
}

// Of a model that sees both ways, heads have no mean distance, and texts no loss.
TEST(Report, StandsWithoutLossesAndDistances) {
  Folder folder;
  FakeRun run;
  protocol::TextResult text{.model = "bert"};
  text.tokens = {{.id = 0, .text = "a"}, {.id = 60, .text = "b"}};
  text.loss = text.bits_per_byte = std::nan("");
  protocol::HeadsResult heads{.model = "bert", .layers = 1, .heads = 2};
  for (const int64_t head : {0, 1}) {
    heads.rows.push_back({0, head, {{"entropy", {double(head), 0, 0, 1}}}, {}});
  }
  protocol::MapResult map;
  map.tokens = map.row_end = map.column_end = map.height = map.width = 2;
  run.replies["model.info"] = {protocol::to_json_form(protocol::LoadReport{}), {}};
  run.replies["text.read"] = {protocol::to_json_form(text), {}};
  run.replies["heads"] = {protocol::to_json_form(heads), {}};
  run.replies["heads"].tensors.push_back(
      protocol::TensorRef::own<float>("thumbnails", {1, 2, 1, 1}, {1, 1}));
  run.replies["map"] = {protocol::to_json_form(map), {}};
  run.replies["map"].tensors.push_back(
      protocol::TensorRef::own<float>("map", {2, 2}, {1, 0, 0, 1}));
  make_report(run, {.models = {"bert"}}, folder / "r");
  const std::string page = content(folder / "r" / "index.html");
  EXPECT_NE(page.find(">Two heads of each model<"), std::string::npos);
  EXPECT_EQ(std::ranges::count_if(run.requests, [](const auto& r) { return r.method == "map"; }),
            2);
  EXPECT_EQ(page.find("token_loss"), std::string::npos);
  EXPECT_NE(page.find("nan"), std::string::npos);
}

// A causal model beside one that sees both ways is not compared, the next one is.
TEST(Report, APairThatIsRefusedDoesNotEndTheOthers) {
  class Pairs final : public FakeRun {
   public:
    protocol::Reply call(const std::string& method, json params) override {
      const bool refused = method == "compare" && params["b"] == "bert";
      FakeRun::replies.erase("compare");
      if (method == "compare" && !refused) {
        const protocol::CompareResult result{.a = params["a"], .b = params["b"]};
        FakeRun::replies["compare"] = {protocol::to_json_form(result), {}};
      }
      return FakeRun::call(method, std::move(params));
    }
  };
  Folder folder;
  Pairs run;
  const Output output = make_report(run, {.models = {"rope", "bert", "tapa"}}, folder / "r");
  EXPECT_TRUE(fs::exists(folder / "r" / "figures" / "divergence_rope_tapa.svg"));
  EXPECT_FALSE(fs::exists(folder / "r" / "figures" / "divergence_rope_bert.svg"));
  EXPECT_EQ(
      std::ranges::count_if(output.result["refused"],
                            [](const json& one) { return one["part"] == "Model against model"; }),
      1);
}

// Only some parts answer: the others are said to be missing, and the page stands by itself.
TEST(Report, IsOnePageThatLeadsWithThePositionsAndNamesWhatIsPublished) {
  Folder folder;
  FakeRun run;
  protocol::TextResult text{.model = "rope"};
  text.tokens = {{.id = 0, .text = "[BOS]"}, {.id = 60, .text = "<b>", .loss = 1.0}};
  text.provenance.text_hash = "0123abcd";
  text.provenance.models = {"rope"};
  text.provenance.model_hashes = {"feedbeef"};
  text.provenance.kernel = "plain";
  const protocol::LoadReport load;
  run.replies["model.info"] = {protocol::to_json_form(load), {}};
  run.replies["text.read"] = {protocol::to_json_form(text), {}};
  run.replies["shift"] = {protocol::to_json_form(two_shifted()), {}};
  run.replies["distance"] = {protocol::to_json_form(two_models()), {}};
  const Output output = make_report(run, {.models = {"rope"}}, folder / "r");
  const std::string page = content(folder / "r" / "index.html");
  for (const char* fetched : {"<script", "<link", "src=", "@import", "url(http"}) {
    EXPECT_EQ(page.find(fetched), std::string::npos) << fetched;
  }
  EXPECT_LT(page.find(">Loss against position<"), page.find(">The text<"));
  EXPECT_NE(page.find("RoPE mean 4.1, sigma 0.85"), std::string::npos);
  EXPECT_NE(page.find("Published, not measured here"), std::string::npos);
  EXPECT_NE(page.find("feedbeef"), std::string::npos);
  EXPECT_NE(page.find("0123abcd"), std::string::npos);
  EXPECT_NE(page.find("Not measured: no reply for eval"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  for (const char* name : {"data/shift.csv", "data/shift.json", "data/near_far.csv",
                           "figures/shift.svg", "figures/near_far.png"}) {
    EXPECT_TRUE(fs::exists(folder / "r" / name)) << name;
  }
  EXPECT_FALSE(output.result["refused"].empty());
}

TEST(Verbs, DistanceSendsEveryModelAndTablesEveryHistogram) {
  FakeRun run;
  run.replies["distance"] = {protocol::to_json_form(two_models()), {}};
  const auto verb = distance_verb();
  // declare() fills the verb's members; without a parser the models come by the defaults, so the
  // request is checked through the program's own parser in the process tests.
  const Output output = verb->run(run);
  ASSERT_EQ(run.requests.size(), 1u);
  EXPECT_EQ(run.requests[0].method, "distance");
  ASSERT_EQ(output.tables.size(), 1u);
  EXPECT_EQ(output.tables[0].rows.size(), 4u);
}

TEST(Verbs, NamesAndExamplesFitTogether) {
  for (const auto& verb : all_verbs()) {
    // Whether they run: command_line_test.py.
    EXPECT_NE(verb->example().find("phasescope " + verb->name()), std::string::npos)
        << verb->name();
    EXPECT_FALSE(verb->help().empty()) << verb->name();
  }
}

TEST(Program, BadUsageGivesStatusTwo) {
  EXPECT_EQ(run_words({"info"}), 2);
  EXPECT_EQ(run_words({"map", "rope", "--of", "nonsense"}), 2);
  EXPECT_EQ(run_words({"capture", "rope", "--nonsense"}), 2);
  EXPECT_EQ(run_words({"heads", "rope", "--text", "no-such-file.txt"}), 2);
  EXPECT_EQ(run_words({"heads", "rope", "--prompt", "a", "--text", "b"}), 2);
  EXPECT_EQ(run_words({"heads", "rope", "--prompt", ""}), 2);
  EXPECT_EQ(run_words({"train"}), 2);
}

TEST(Program, ThePlaceOfABenchmarkIsNamedOnceAndLookedAtFirst) {
  EXPECT_EQ(run_words({"bench", "kernels", "--json", "/nowhere/at/all/k.parquet"}), 2);
  EXPECT_EQ(run_words({"bench", "kernels", "a.json", "--out", "b.json"}), 2);
  // Whoever may write anywhere may not write there.
  EXPECT_NE(complaint({"bench", "kernels", "--out", "/proc/x/k.json"}).find("cannot be written to"),
            std::string::npos);
  EXPECT_NE(complaint({"bench", "kernels", "--out", "k.npy"}).find("nothing to write as .npy"),
            std::string::npos);
  EXPECT_NE(complaint({"bench", "load", "--out", "k.png"}).find("nothing to write as .png"),
            std::string::npos);
}

TEST(Program, ABenchmarkRunsAtLeastOnce) {
  for (const char* what : {"kernels", "load", "map", "protocol"}) {
    EXPECT_NE(complaint({"bench", what, "--runs", "0"}).find("from 1 to"), std::string::npos);
    EXPECT_EQ(run_words({"bench", what, "--runs", "-1"}), 2);
  }
}

TEST(Program, ThePageOfABenchmarkIsLookedAtFirst) {
  const Folder folder;
  const std::string other = folder / "other.md", data = folder / "data.json";
  std::ofstream(other) << "{}\n";
  std::ofstream(data) << "# Benchmarks\n";
  const auto refused = [](const std::string& page) {
    return complaint({"bench", "kernels", "--write", page});
  };
  EXPECT_NE(refused(other).find("no page of benchmarks"), std::string::npos);
  EXPECT_EQ(content(other), "{}\n");
  EXPECT_NE(refused(data).find("is a .md file"), std::string::npos);
  EXPECT_NE(refused("/proc/x/page.md").find("cannot be written to"), std::string::npos);
  EXPECT_NE(refused(data + "/page.md").find("a folder is needed"), std::string::npos);
  const std::string page = folder / "page.md";
  EXPECT_NE(complaint({"bench", "map", "--write", page}).find("has no page"), std::string::npos);
}

TEST(Program, NumbersAreReadWholeOrRefused) {
  // Clamped to the largest integer, it would read everything and say so nowhere.
  EXPECT_NE(complaint({"heads", "rope", "--length", "99999999999999999999"}).find("--length"),
            std::string::npos);
  EXPECT_NE(complaint({"heads", "rope", "--seed", "1e3"}).find("whole number"), std::string::npos);
  EXPECT_NE(complaint({"info", "rope", "--threads", "0"}).find("from 1 to 1024"),
            std::string::npos);
  EXPECT_NE(complaint({"generate", "rope", "--temperature", "nan"}).find("finite"),
            std::string::npos);
}

// JSON carries UTF-8 alone; a model of bytes reads what it is given (command_line_test.py).
TEST(Input, TextThatIsNotUtf8TravelsAsBase64) {
  const Folder folder;
  const std::string path = folder / "latin1.txt";
  std::ofstream(path) << "caf\xe9";
  // base64(1)'s words
  EXPECT_EQ(input_of_file(path), (json{{"base64", "Y2Fm6Q=="}, {"name", path}}));
  EXPECT_EQ(input_of_prompt("caf\xc3\xa9"), (json{{"prompt", "caf\xc3\xa9"}}));
}

TEST(Program, AToleranceIsAboveZero) {
  for (const char* value : {"0", "-1"}) {
    const std::string said =
        complaint({"check", "rope", "--reference", "x.safetensors", "--tolerance", value});
    EXPECT_NE(said.find("a tolerance must be above 0"), std::string::npos) << said;
  }
}

TEST(Program, ALengthIsOneOfAText) {
  for (const char* verb : {"capture", "heads", "info", "cost"}) {
    for (const char* value : {"0", "-1", "99999999999999999"}) {
      const std::string said = complaint({verb, "rope", "--length", value});
      EXPECT_NE(said.find("expected a number from 1 to 1099511627776 but got"), std::string::npos)
          << said;
    }
  }
}

TEST(Program, ATextThatNeverEndsIsRefused) {
  const std::string said = complaint({"heads", "rope", "--text", "/dev/zero"});
  EXPECT_NE(said.find("this is a device"), std::string::npos) << said;
}

TEST(Program, NamesWhatItDoesNotKnow) {
  EXPECT_NE(complaint({"heads", "rope", "--foo", "1"}).find("heads takes no \"--foo\""),
            std::string::npos);
  EXPECT_NE(complaint({"distanc", "rope"}).find("did you mean distance"), std::string::npos);
  EXPECT_NE(complaint({"report", "rope"}).find("--out"), std::string::npos);
}

TEST(Program, HelpIsNoError) {
  EXPECT_EQ(run_words({"--help"}), 0);
  for (const auto& verb : all_verbs()) EXPECT_EQ(run_words({verb->name(), "--help"}), 0);
}

}  // namespace
}  // namespace phasescope::app
