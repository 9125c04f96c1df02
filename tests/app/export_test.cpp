// What --out names: every form of an output, and the place it goes to.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "app/cli/output.h"
#include "cli_tools.h"
#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "widgets/plot_svg.h"
#include "widgets/svg_writer.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// 17.A10: what was asked for, one sidecar a figure, and no x.json.json.
TEST(Export, AFolderHasWhatWasAskedFor) {
  TemporaryFolder folder;
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {3, 2}});
  Output output{.result = {{"x", 1}}, .figures = {plot}};
  output.tables.push_back({.columns = {"a"}});
  export_output(output, folder / "all", {{"command", "c"}});
  EXPECT_EQ(names_in(folder / "all"),
            (std::set<std::string>{"index.html", "result.json", "table.csv", "loss.svg", "loss.png",
                                   "loss.csv", "loss.json"}));
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

// A figure that is pasted into a paper says by itself that its weights were quantised: once, each
// model.
TEST(Export, FiguresNameWhatWeightsWereStoredAs) {
  TemporaryFolder folder;
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {3, 2}});
  Output output{.figures = {plot}};
  const std::string q4 = "weights of m from Q4_K (5 tensors), Q6_K (2 tensors)";
  const std::string mx = "weights of n from MXFP4";
  output.provenance = {
      {{"note", "text cut to 128 of 142 tokens; " + q4}}, {{"note", mx}}, {{"note", q4}}};
  export_output(output, folder / "x.svg", {{"command", "c"}});
  const std::string svg = content(folder / "x.svg");
  for (const std::string& words : {q4.substr(0, 20), mx}) {
    const std::size_t first = svg.find(words);
    ASSERT_NE(first, std::string::npos) << words;
    EXPECT_EQ(svg.find(words, first + 1), std::string::npos) << words;
  }
  EXPECT_EQ(svg.find("text cut"), std::string::npos);
  export_output(output, folder / "all", {{"command", "c"}});
  EXPECT_NE(content(folder / "all" / "loss.svg").find(mx), std::string::npos);
}

// A browser takes the first element of an id for all: a second plot clipped by the frame of the
// first loses points.
TEST(Export, FiguresOfAPageHaveNoIdInCommon) {
  TemporaryFolder folder;
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {3, 2}});
  Output output{.figures = {plot, plot}};
  export_output(output, folder / "all", {{"command", "c"}});
  const std::string page = content(folder / "all" / "index.html");
  const std::regex clip("<clipPath id=\"([^\"]*)\"");
  std::vector<std::string> ids;
  for (std::sregex_iterator at(page.begin(), page.end(), clip), end; at != end; ++at) {
    ids.push_back((*at)[1]);
    EXPECT_NE(page.find("url(#" + ids.back() + ")"), std::string::npos);
  }
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_NE(ids[0], ids[1]);
}

// Without the library that draws PNGs the rest is written, and the line on the terminal says so.
TEST(Export, WithoutAConverterThereIsNoPng) {
  TemporaryFolder folder;
  Output output{.result = json::object()};
  output.figures.push_back({.id = "loss", .title = "Loss"});
  ::setenv("PHASESCOPE_LIBRSVG", (folder / "nothing.so").c_str(), 1);
  export_output(output, folder / "all", {{"command", "c"}});
  const std::string said = what_else(output, folder / "all");
  EXPECT_THROW(convert_svg("<svg/>", "pdf"), formats::Error);
  ::unsetenv("PHASESCOPE_LIBRSVG");
  EXPECT_EQ(names_in(folder / "all"), (std::set<std::string>{"index.html", "result.json",
                                                             "loss.svg", "loss.csv", "loss.json"}));
  EXPECT_NE(said.find("no PNG: librsvg is not there"), std::string::npos) << said;
  EXPECT_EQ(what_else(output, folder / "all"), "");
}

TEST(Export, SafetensorsHoldTheTensorsAndTheCommand) {
  TemporaryFolder folder;
  Output output{.result = json::object()};
  output.tensors.push_back(protocol::TensorRef::own<float>("logits", {2, 2}, {1.f, 2.f, 3.f, 4.f}));
  export_output(output, folder / "c.safetensors", {{"command", "phasescope capture"}});
  const auto file = formats::SafetensorsFile::open(folder / "c.safetensors");
  ASSERT_NE(file.find("logits"), nullptr);
  EXPECT_EQ(file.find("logits")->shape, (std::vector<std::int64_t>{2, 2}));
  const json sidecar = json::parse(content(folder / "c.safetensors.json"));
  EXPECT_EQ(sidecar["command"], "phasescope capture");
}

TEST(Export, UnknownFormsAreNamed) {
  TemporaryFolder folder;
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
  TemporaryFolder folder;
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

// Where the text `words` begins that ends at its x (its anchor is the end).
double begin_of(const std::string& svg, const std::string& words, double size) {
  const std::size_t end = svg.find(">" + words + "<"), begin = svg.rfind("<text x=\"", end);
  EXPECT_NE(end, std::string::npos) << words;
  return std::stod(svg.substr(begin + 9)) - widgets::text_width(words, size);
}

// Names of rows are as long as they are: the frame makes room for them, and for the axis' own name.
TEST(Export, NamesOfAnAxisAreNotCutOff) {
  widgets::PlotSpec plot{.id = "cost", .title = "Cost"};
  plot.series.push_back({.label = "a", .x = {1, 2}, .y = {0, 1}});
  const std::string part = "tape: post-attention linear";
  plot.y.ticks = {{0, "MLP"}, {1, part}};
  EXPECT_GE(begin_of(widgets::svg_of(plot), part, 11), 0);
  plot.y.label = "part";  // it is turned, and takes its line's height
  EXPECT_GE(begin_of(widgets::svg_of(plot), part, 11), 18);
}

// Numbers of neighbouring cells do not touch: digits are left out, or the numbers.
TEST(Export, NumbersInCellsHaveRoom) {
  const auto drawn = [](int columns, const std::string& number) {
    widgets::PlotSpec plot{.id = "map", .title = "Map"};
    plot.map = widgets::MapSpec{.rows = 1, .cols = columns};
    plot.map->values.assign(static_cast<std::size_t>(columns), 0.4936F);
    return widgets::svg_of(plot, {720, 300}).find(">" + number + "</text>") != std::string::npos;
  };
  EXPECT_TRUE(drawn(4, "0.4936"));
  EXPECT_FALSE(drawn(16, "0.4936"));
  EXPECT_TRUE(drawn(16, "0.494"));
  EXPECT_FALSE(drawn(17, "0.49"));
}

// The program rsvg-convert draws the same, byte for byte.
TEST(Export, APictureIsThatOfRsvgConvert) {
  if (std::system("rsvg-convert --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "rsvg-convert is not there";
  }
  TemporaryFolder folder;
  widgets::PlotSpec plot{.id = "loss", .title = "Loss \u03c3 & <b>"};
  plot.series.push_back({.label = "a", .x = {0, 1, 2}, .y = {3, 2, 1}});
  const std::string svg = widgets::svg_of(plot);
  std::ofstream(folder / "in.svg") << svg;
  for (const std::string form : {"pdf", "png"}) {
    const std::string command =
        "SOURCE_DATE_EPOCH=0 rsvg-convert --format " + form + (form == "png" ? " --zoom 2 " : " ") +
        (folder / "in.svg").string() + " > " + (folder / ("out." + form)).string();
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(convert_svg(svg, form), content(folder / ("out." + form))) << form;
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
  TemporaryFolder folder;
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
  TemporaryFolder folder;
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

}  // namespace
}  // namespace phasescope::app
