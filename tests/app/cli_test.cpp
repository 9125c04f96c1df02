// The command line without a worker: tables, exports, parameters, exit statuses.
#include "app/cli/cli.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/figures/figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "app/verbs/verbs.h"
#include "fake_run.h"
#include "formats/error.h"
#include "formats/safetensors.h"
#include "protocol/results.h"

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

TEST(Options, ListsAndRanges) {
  EXPECT_EQ(integer_list("256,512", "--lengths"), (std::vector<int64_t>{256, 512}));
  EXPECT_EQ(integer_range("3:17", "--rows"), (std::vector<int64_t>{3, 17}));
  EXPECT_THROW(integer_list("256,x", "--lengths"), formats::Error);
  EXPECT_THROW(integer_list("256,5.5", "--lengths"), formats::Error);
  EXPECT_THROW(integer_range("3", "--rows"), formats::Error);
  EXPECT_THROW(integer_range("3:", "--rows"), formats::Error);
}

TEST(Table, AlignsColumnsAndCountsCharactersNotBytes) {
  Table table{.columns = {"name", "x"}};
  table.rows = {{{"name", "é"}, {"x", 1.5}}, {{"name", "abc"}, {"x", 20}}};
  EXPECT_EQ(text_of(table), "name    x\né     1.5\nabc    20\n");
}

TEST(Table, CsvQuotesWhatNeedsIt) {
  Table table{.columns = {"a", "b"}};
  table.rows = {{{"a", "x,\"y\""}, {"b", 0.1}}, {{"a", nullptr}}};
  EXPECT_EQ(csv_of(table), "a,b\n\"x,\"\"y\"\"\",0.1\n,\n");
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
  const widgets::PlotSpec plot = near_far_figure(result.models);
  ASSERT_EQ(plot.series.size(), 2u);
  const widgets::Series& series = plot.series[0];
  double area = 0;
  for (size_t bin = 0; bin < series.y.size(); ++bin) {
    area += series.y[bin] * (series.x[bin + 1] - series.x[bin]);
  }
  EXPECT_NEAR(area, 1.0, 1e-12);  // four pairs in two bins of widths 1 and 2
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
    EXPECT_NE(verb->example().find("phasescope"), std::string::npos) << verb->name();
    EXPECT_NE(verb->example().find(verb->name() == "view" ? "" : verb->name()), std::string::npos)
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

TEST(Program, HelpIsNoError) {
  EXPECT_EQ(run_words({"--help"}), 0);
  for (const auto& verb : all_verbs()) EXPECT_EQ(run_words({verb->name(), "--help"}), 0);
}

}  // namespace
}  // namespace phasescope::app
