// What tours of the window found wanting in its views: what is squeezed, named, and asked for.
#include <gtest/gtest.h>
#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/views/compare_view.h"
#include "app/views/heads_view.h"
#include "app/views/jobs_view.h"
#include "app/views/map_view.h"
#include "app/views/patterns_view.h"
#include "app/views/query_view.h"
#include "app/views/theory_view.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

class Finding : public OneView {
 protected:
  explicit Finding(MadeUpShape shape = {}) : OneView(5, std::move(shape)) {}

  template <class Draw>
  void frame_in(ImVec2 size, Draw draw) {
    gui_.begin_frame(0.1F);
    requests_.begin_frame();
    font_ = ImGui::GetFontSize(), line_ = ImGui::GetTextLineHeightWithSpacing();
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(size);
    draw();
    gui_.end_frame();
  }
  void draw_in(ImVec2 size, int frames = 4) {
    for (int frame = 0; frame < frames; ++frame) frame_in(size, [&] { view_->draw(context_); });
  }
  std::string words_in(ImVec2 size) {
    std::string words;
    frame_in(size, [&] { words = gui_.words_of([&] { view_->draw(context_); }); });
    return words;
  }
  static bool has(const std::string& words, const std::string& part) {
    return words.find(part) != std::string::npos;
  }
  // The sizes of the parts that a view draws under this name.
  static std::vector<ImVec2> parts(const std::string& name) {
    std::vector<ImVec2> sizes;
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      const std::string full = window->Name;
      const std::size_t slash = full.rfind('/');
      if (window->Active && slash != std::string::npos &&
          full.compare(slash + 1, name.size() + 1, name + "_") == 0) {
        sizes.push_back(window->Size);
      }
    }
    return sizes;
  }
  // The table itself is a part of this name too, within it.
  static float height_of_table() {
    float height = 0;
    for (const ImVec2& size : parts("table")) height = std::max(height, size.y);
    return height;
  }
  void point_at(float x, float y) { ImGui::GetIO().AddMousePosEvent(x, y); }

  float font_ = 0, line_ = 0;  // of the last frame
};

Session session_of_seven() {
  Session session = default_session();
  session.models = {"rope", "tapa_norm", "tapa", "alibi", "none", "tape", "cape_kerple"};
  return session;
}

// ---- what is squeezed ----

// The charts of seven models were 40 pixels high.
TEST_F(Finding, ChartsOfManyModelsCanBeRead) {
  for (const char* id : {"distance", "shift"}) {
    open(id, session_of_seven());
    draw_in({420, 300});
    const auto figures = parts("figure");
    ASSERT_FALSE(figures.empty()) << id;
    for (const ImVec2& size : figures) EXPECT_GE(size.y, 16 * font_ - 1) << id;
  }
}

// One row of the table was in sight, under seven lines of words.
TEST_F(Finding, ATableOfShiftsHasRows) {
  open("shift");
  draw_in({420, 300});
  EXPECT_GE(height_of_table(), 6 * line_ - 1);
}

TEST_F(Finding, ATableOfHeadsHasRowsBelowThePictures) {
  open("heads");
  draw_in({440, 400});
  EXPECT_GE(height_of_table(), 9 * font_ - 1);  // search, titles and three rows
}

// The scatter below a table was a line, and what its axis is of was cut off.
TEST_F(Finding, AScatterBelowATableCanBeRead) {
  Session session = default_session();
  session.views.set(HeadsState{.scatter = true});
  open("heads", session);
  draw_in({440, 500});
  const auto scatters = parts("scatter");
  ASSERT_EQ(scatters.size(), 1U);
  EXPECT_GE(scatters[0].y, 16 * font_ - 1);
}

// Matrices of four models were 30 pixels wide.
TEST_F(Finding, PatternsOfSeveralModelsAreNoStrips) {
  for (const float width : {440.0F, 900.0F}) {
    open("patterns", session_of_seven());
    draw_in({width, 700});
    const auto models = parts("model");
    ASSERT_EQ(models.size(), 7U);
    for (const ImVec2& size : models) EXPECT_GE(size.x, 18 * font_) << width;
  }
}

TEST_F(Finding, ThreeMapsAreNoStrips) {
  Session session = default_session();
  session.views.set(MapState{.show = "difference"});
  open("map", session);
  draw_in({340, 420}, 6);
  const auto captions = parts("caption");  // as wide as the map with its colour scale
  ASSERT_EQ(captions.size(), 3U);
  for (const ImVec2& size : captions) EXPECT_GE(size.x, 9 * font_);
}

// The dot of a pair stood in a corner of its small cell, where it might be of the next one: what a
// file has numbers beside stands in the middle in the window.
TEST_F(Finding, DotsOfMatchedHeadsStandInTheirCells) {
  Session session = default_session();
  session.views.set(CompareState{.figure = "heads most alike"});
  open("compare", session);
  ASSERT_FALSE(saved_.empty());
  widgets::PlotSpec plot = saved_[0].output.figures.at(0);
  const auto& matches = context_.requests.of(kCompare).answer()->result.matches;
  centre_marks(plot);
  ASSERT_EQ(plot.series.size(), 1U);
  ASSERT_EQ(plot.series[0].x.size(), matches.size());
  for (std::size_t n = 0; n < matches.size(); ++n) {  // of four heads a layer
    EXPECT_EQ(plot.series[0].x[n], 4.0 * matches[n].other_layer + matches[n].other_head + 0.5);
    EXPECT_EQ(plot.series[0].y[n], 4.0 * matches[n].layer + matches[n].head + 0.5);
  }
}

// ---- what is zoomed ----

ImPlotPlot* first_plot() {
  ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
  return plots.GetBufSize() > 0 ? plots.GetByIndex(0) : nullptr;
}

ImPlotRange first_limits() {
  return first_plot() ? first_plot()->XAxis(0).Range : ImPlotRange(0, 0);
}

void expect_limits(const ImPlotRange& wanted, const char* when) {
  const ImPlotRange found = first_limits();
  const double rounding = 1e-9 * wanted.Size();  // of limits that went through pixels and JSON
  EXPECT_NEAR(found.Min, wanted.Min, rounding) << when;
  EXPECT_NEAR(found.Max, wanted.Max, rounding) << when;
}

// Not the map alone: how a curve is zoomed is undone, and there when the window opens again.
TEST_F(Finding, AZoomOfACurveIsInTheSessionAndUndone) {
  const ImVec2 size{900, 700};
  const auto zoomed = [&] { return edit_.session().views.get<FiguresState>().zoomed; };
  open("extrapolation");
  point_at(-100, -100);
  draw_in(size, 8);
  ASSERT_NE(first_plot(), nullptr);
  const ImPlotRange fitted = first_limits();
  const ImVec2 middle = first_plot()->PlotRect.GetCenter();
  point_at(middle.x, middle.y);
  draw_in(size, 3);
  EXPECT_TRUE(zoomed().empty()) << "nobody has zoomed it";
  ImGui::GetIO().AddMouseWheelEvent(0, 3);
  draw_in(size, 5);
  const ImPlotRange closer = first_limits();
  EXPECT_LT(closer.Size(), fitted.Size());
  ASSERT_EQ(zoomed().size(), 1U);
  EXPECT_EQ(zoomed().begin()->second.x.low, closer.Min);
  EXPECT_EQ(zoomed().begin()->second.x.high, closer.Max);
  const json written = protocol::to_json_form(edit_.session());
  ASSERT_TRUE(edit_.undo());
  draw_in(size);
  EXPECT_TRUE(zoomed().empty());
  expect_limits(fitted, "undone");
  ASSERT_TRUE(edit_.redo());
  draw_in(size);
  expect_limits(closer, "done again");
  for (const bool down : {true, false, true, false}) {
    ImGui::GetIO().AddMouseButtonEvent(0, down);
    draw_in(size, 1);
  }
  draw_in(size);
  EXPECT_TRUE(zoomed().empty()) << "a double click shows all again";
  expect_limits(fitted, "after a double click");
  open("extrapolation", protocol::from_json_form<Session>(written));
  draw_in(size, 8);
  expect_limits(closer, "opened again");
}

// A figure whose circles are round forgot its zoom with the window, and no undo found it.
TEST_F(Finding, AZoomOfEqualAxesIsInTheSessionAndUndone) {
  widgets::PlotSpec plot{.id = "round", .equal_axes = true};
  plot.series.push_back({.label = "a", .x = {-1, 1}, .y = {-1, 1}});
  const auto frames = [&](int count) {
    for (int n = 0; n < count; ++n) {
      frame_in({900, 600}, [&] {
        ImGui::Begin("equal axes");
        view_->draw_figure(context_, plot, {.version = 1});
        ImGui::End();
      });
    }
  };
  const auto zoomed = [&] { return edit_.session().views.get<FiguresState>().zoomed; };
  const auto up = [] { return first_plot()->YAxis(0).Range; };
  open("models");  // has no figures of its own
  point_at(-100, -100);
  frames(10);
  ASSERT_NE(first_plot(), nullptr);
  const double fitted = up().Size();
  const ImVec2 middle = first_plot()->PlotRect.GetCenter();
  point_at(middle.x, middle.y);
  frames(3);
  EXPECT_TRUE(zoomed().empty()) << "nobody has zoomed it";
  ImGui::GetIO().AddMouseWheelEvent(0, 3);
  frames(5);
  const ImPlotRange closer = up();
  EXPECT_LT(closer.Size(), 0.95 * fitted);  // ImPlot takes a tenth, however far the wheel turns
  ASSERT_EQ(zoomed().size(), 1U);
  EXPECT_EQ(zoomed().begin()->second.y.low, closer.Min);
  EXPECT_EQ(zoomed().begin()->second.y.high, closer.Max);
  const json written = protocol::to_json_form(edit_.session());
  ASSERT_TRUE(edit_.undo());
  frames(8);
  EXPECT_TRUE(zoomed().empty());
  // Labels of other limits are of other widths, so that the frame is some pixels wider or narrower.
  EXPECT_NEAR(up().Size(), fitted, 0.02 * fitted) << "undone";
  open("models", protocol::from_json_form<Session>(written));
  frames(10);
  EXPECT_NEAR(up().Min, closer.Min, 1e-9 * closer.Size()) << "opened again";
  EXPECT_NEAR(up().Max, closer.Max, 1e-9 * closer.Size()) << "opened again";
  const double across = first_plot()->XAxis(0).GetAspect();
  EXPECT_NEAR(across, first_plot()->YAxis(0).GetAspect(), 1e-6 * across);
}

// ---- what was being typed ----

// What a killed window left in a line of a training's form is entered when it opens again, and what
// its field does not take stays there with the reason.
TEST_F(Finding, WhatAKilledWindowLeftInALineIsEntered) {
  for (const std::string typed : {"12", "many"}) {
    JobsState state;
    state.form = true;
    state.run = json::object({{"train", {{"steps", 100}}}});
    state.typed = {{"train.steps", typed}};
    Session session = default_session();
    session.views.set(state);
    open("jobs", protocol::from_json_form<Session>(protocol::to_json_form(session)));
    draw_in({700, 700});
    const std::string words = words_in({700, 700});
    state = edit_.session().views.get<JobsState>();
    const bool taken = typed == "12";
    EXPECT_EQ(state.run["train"]["steps"], taken ? 12 : 100);
    EXPECT_EQ(state.typed.contains("train.steps"), !taken);
    EXPECT_EQ(has(words, "expected a number"), !taken) << words;
  }
}

// ---- what is refused ----

// A session of before may have a path that no worker can be told: its sentence stood behind "Models
// could not be drawn".
TEST_F(Finding, ARecentModelThatIsRefusedSaysWhyAlone) {
  Session session = default_session();
  session.models = {"rope"};
  session.recent = {"/models/caf\xe9"};
  open("models", session);
  const ImVec2 size{700, 900};
  for (float y = 40; y < 890 && window_.said.empty(); y += 8) {
    point_at(100, y);
    draw_in(size, 1);
    for (const bool down : {true, false}) {
      ImGui::GetIO().AddMouseButtonEvent(0, down);
      ASSERT_NO_THROW(draw_in(size, 1));
    }
  }
  ASSERT_EQ(window_.said.size(), 1U);
  EXPECT_TRUE(window_.said[0].error);
  EXPECT_EQ(window_.said[0].text.find("could not be drawn"), std::string::npos);
  EXPECT_NE(window_.said[0].text.find("caf\\xe9"), std::string::npos) << window_.said[0].text;
}

// ---- what is named ----

// Two long readings of a model looked alike where their names ran out of the list.
TEST_F(Finding, ALongNameOfAModelIsSaidUnderThePointer) {
  const std::string reading = "rope (yarn x16, base=1000000, original=131072)";
  const auto times = [&](const std::string& words) {
    int count = 0;
    for (std::size_t at = words.find(reading); at != words.npos; at = words.find(reading, at + 1)) {
      ++count;
    }
    return count;
  };
  Session session = default_session();
  session.models = {reading};
  open("models", session);
  const ImVec2 size{260, 700};
  point_at(-100, -100);
  draw_in(size, 6);
  const int before = times(words_in(size));
  EXPECT_GE(before, 1);
  bool said = false;
  for (float y = 60; y < 690 && !said; y += 8) {
    point_at(100, y);
    draw_in(size, 8);  // as long as a tooltip waits
    said = times(words_in(size)) > before;
  }
  EXPECT_TRUE(said);
}

// What is wrong stood in the list alone, without what to do about it.
TEST_F(Finding, WhatToDoAboutAModelIsSaidUnderThePointer) {
  link_.set_manner("model.info", MadeUpWorker::Manner::fail);
  open("models");
  const ImVec2 size{420, 500};
  point_at(-100, -100);
  draw_in(size, 6);
  EXPECT_TRUE(has(words_in(size), "The file is not a model"));
  bool said = false;
  for (float y = 60; y < 490 && !said; y += 8) {
    point_at(100, y);
    draw_in(size, 8);  // as long as a tooltip waits
    said = has(words_in(size), "choose a folder with a config.json");
  }
  EXPECT_TRUE(said);
}

TEST_F(Finding, TokensStandOnTheAxesWhereTheyHaveRoom) {
  open("map");
  std::vector<widgets::AxisTick> few, many;
  frame_in({700, 700}, [&] {
    const Asked& about = context_.of(kMap, 0).answer()->asked;
    few = token_ticks(context_, 0, about, {0, 16}, 16 * 20, false);
    many = token_ticks(context_, 0, about, {0, 256}, 400, false);
  });
  ASSERT_EQ(few.size(), 16U);
  for (std::size_t n = 0; n < few.size(); ++n) {
    EXPECT_EQ(few[n].at, static_cast<double>(n) + 0.5);
    EXPECT_EQ(few[n].label, token_text(context_, 0, static_cast<std::int64_t>(n)));
  }
  EXPECT_TRUE(many.empty());
}

TEST_F(Finding, APairThatIsPointedAtHasItsTokens) {
  open("map");
  draw_in({700, 700});
  bool found = false;
  for (float y = 100; y < 650 && !found; y += 50) {
    for (float x = 80; x < 650 && !found; x += 50) {
      point_at(x, y);
      draw_in({700, 700}, 2);
      const std::string words = words_in({700, 700});
      found = has(words, "query \"") && has(words, ", key \"");
    }
  }
  EXPECT_TRUE(found);
}

// Beside a map of weights stood the mean of each row, which is one by its number of keys.
TEST_F(Finding, BesideAMapOfWeightsStandsTheLargestOfEachRow) {
  open("map");
  const auto* weights = context_.of(kMap, 0).answer();
  ASSERT_NE(weights, nullptr);
  const widgets::PlotSpec largest = map_profile(*weights, true);
  EXPECT_EQ(largest.x.label, "largest");
  ASSERT_EQ(largest.series.size(), 1U);
  const auto cells = protocol::find_tensor(weights->tensors, "map")->values<float>();
  const auto width = static_cast<std::size_t>(weights->result.width);
  ASSERT_EQ(largest.series[0].x.size() * width, cells.size());
  for (std::size_t row = 0; row < largest.series[0].x.size(); ++row) {
    float most = -std::numeric_limits<float>::infinity();
    for (std::size_t key = 0; key < width; ++key) most = std::max(most, cells[row * width + key]);
    EXPECT_EQ(largest.series[0].x[row], most) << row;
  }
  Session session = default_session();
  session.views.set(MapState{.of = "score"});
  open("map", session);
  EXPECT_EQ(map_profile(*context_.of(kMap, 0).answer(), true).x.label, "mean");
}

// A model that is computed in float64 has its profiles in it too.
TEST_F(Finding, ProfilesOfFloat64AreCurvesToo) {
  open("map");
  ASSERT_NE(context_.of(kMap, 0).answer(), nullptr);
  Answer<protocol::MapResult> answer = *context_.of(kMap, 0).answer();
  const widgets::PlotSpec of_floats = map_profile(answer, false);
  for (protocol::TensorRef& tensor : answer.tensors) {
    const auto values = tensor.values<float>();
    tensor =
        protocol::TensorRef::own<double>(tensor.name, tensor.shape, {values.begin(), values.end()});
  }
  ASSERT_EQ(map_profile(answer, false).series.size(), 1U);
  EXPECT_EQ(map_profile(answer, false).series[0].y, of_floats.series.at(0).y);
}

class FindingOfOtherTokens : public Finding {
 protected:
  FindingOfOtherTokens() : Finding({.other_tokens = "tapa_norm"}) {}
};

// Two models that cut a text into other tokens have other words at one number, and no mark of one
// on the map of the other.
TEST_F(FindingOfOtherTokens, AMarkIsOfTheSameToken) {
  Session session = default_session();
  session.models = {"rope", "tapa_norm", "tapa"};
  open("map", session);
  EXPECT_FALSE(same_token(context_, 0, 1, 5));
  EXPECT_TRUE(same_token(context_, 0, 2, 5));
  EXPECT_TRUE(same_token(context_, 0, context_.models(), 5)) << "tokens that are not known";
  widgets::Hover marks;
  marks.model = 0, marks.layer = 2, marks.token = marks.query = 5, marks.key = 3;
  EXPECT_EQ(marks_on(context_, marks, 0), marks);
  EXPECT_EQ(marks_on(context_, marks, 2), marks);
  const widgets::Hover others = marks_on(context_, marks, 1);
  for (const auto of : {widgets::Coordinate::token, widgets::Coordinate::query,
                        widgets::Coordinate::key, widgets::Coordinate::position}) {
    EXPECT_FALSE(others.at(of));
  }
  EXPECT_EQ(others.layer, 2);
  marks.position = 5;  // which is one of every sequence
  EXPECT_EQ(marks_on(context_, marks, 1).at(widgets::Coordinate::position), 5);
}

// The key that is selected is marked on the pictures of the models that have that token alone, and
// what another one has at the query's number is said.
TEST_F(FindingOfOtherTokens, OneQueryMarksNoOtherToken) {
  const ImVec2 size{1500, 900};
  const ImU32 ink = ImGui::ColorConvertFloat4ToU32(widgets::palette().warn);
  const auto drawn = [&](std::vector<std::string> models, std::optional<std::int64_t> key) {
    Session session = default_session();
    session.models = std::move(models);
    session.selection.model = 0;
    session.selection.query = 5, session.selection.key = key;
    session.views.set(QueryState{.table = false});
    open("query", session);
    point_at(-100, -100);
    draw_in(size, 6);
    int vertices = 0;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) vertices += vertex.col == ink;
    }
    return vertices;
  };
  const auto of_key = [&](const std::vector<std::string>& models) {
    const int with = drawn(models, 3);
    return with - drawn(models, std::nullopt);
  };
  const int of_one = of_key({"rope"});
  EXPECT_GT(of_one, 0);
  EXPECT_EQ(of_key({"rope", "tapa"}), 2 * of_one);
  EXPECT_EQ(of_key({"rope", "tapa_norm"}), of_one);
  EXPECT_FALSE(same_token(context_, 0, 1, 3));
  EXPECT_TRUE(has(words_in(size), "\" in tapa_norm"));
}

// The products of every head have the positions that they are of, as those of all heads have.
TEST_F(Finding, ProductsSideBySideAreOfPositions) {
  Session session = default_session();
  PatternsState state;
  state.figure = "dot products side by side";
  session.views.set(state);
  open("patterns", session);
  ASSERT_FALSE(saved_.empty());
  ASSERT_FALSE(saved_[0].output.figures.empty());
  for (const widgets::PlotSpec& plot : saved_[0].output.figures) {
    EXPECT_EQ(plot.x.label, "position j");
    EXPECT_EQ(plot.y.label, "position i");
    EXPECT_EQ(plot.map->row_end, 256);  // 64 of 256 positions are shown
    EXPECT_EQ(plot.map->samples.at(1), 4);
    EXPECT_EQ(plot.map->value_label, "PE dot product G");
  }
}

TEST_F(Finding, ACheckThatFailsSaysWhyInItsRow) {
  Session session = default_session();
  session.views.set(TheoryState{.verdict = "fails"});
  open("theory", session);
  const std::string words = words_in({1100, 800});
  EXPECT_TRUE(has(words, "largest residual over shifts 1, 3, 16, 1000 ...")) << words;
  // Those of other verdicts are not listed.
  EXPECT_FALSE(has(words, "premise not met")) << words;
  EXPECT_FALSE(has(words, "undecided")) << words;
}

class FindingOfManyLayers : public Finding {
 protected:
  FindingOfManyLayers() : Finding({.layers = 14}) {}
};

// Layers from the twelfth on were left out of the table without a word.
TEST_F(FindingOfManyLayers, AllAreInTheTableOfShifts) {
  ImGui::GetIO().DisplaySize = {3000, 1000};
  open("shift");
  draw_in({2900, 900});
  const std::string words = words_in({2900, 900});
  for (const char* layer : {"L11", "L12", "L13"}) EXPECT_TRUE(has(words, layer)) << layer;
}

// What a model has not stood there as a red error with a button that could not help.
TEST_F(Finding, WhatAModelHasNotIsNoFailure) {
  link_.set_manner("distance", MadeUpWorker::Manner::unfit);
  open("distance");
  std::string words = words_in({700, 500});
  EXPECT_TRUE(has(words, "It has no such thing")) << words;
  EXPECT_FALSE(has(words, "Try again")) << words;
  link_.set_manner("distance", MadeUpWorker::Manner::fail);
  Session session = default_session();
  session.models = {"tape"};
  open("distance", session);
  words = words_in({700, 500});
  EXPECT_TRUE(has(words, "Try again")) << words;
}

// ---- which head is asked for ----

class FindingOfStacks : public Finding {
 protected:
  FindingOfStacks() : Finding({.stacks = true, .one_stack = "tapa_norm"}) {}

  static Session session_in(const std::string& stack) {
    Session session = default_session();
    session.models = {"rope", "tapa_norm"};
    session.selection.stack = stack;
    return session;
  }
};

// The stack that is chosen for an encoder-decoder is none of a model beside it that has but one.
TEST_F(FindingOfStacks, AModelOfOneStackIsAskedForItsOwnHeads) {
  Session session = session_in("enc");
  session.selection.model = 1;
  for (const char* id : {"map", "arcs"}) {
    open(id, session);
    EXPECT_EQ(link_.last_params("map")["model"], "tapa_norm");
    EXPECT_EQ(link_.last_params("map")["head"], json::array({"L3H1"})) << id;
  }
  session.selection.model = 0;
  session.views.set(MapState{.show = "both"});
  open("map", session);
  EXPECT_EQ(context_.of(kMap, 0).asked().params["head"], json::array({"enc.L3H1"}));
  EXPECT_EQ(context_.of(kMap, 1).asked().params["head"], json::array({"L3H1"}));
}

// A pair of Compare is shown on the map in the stack in which it was compared.
TEST_F(FindingOfStacks, APairIsShownInTheStackThatWasCompared) {
  for (const std::string b : {"rope", "tapa_norm"}) {
    Session session = session_in("enc");
    session.models = {"t5", "rope", "tapa_norm"};
    session.views.set(CompareState{.b = b, .figure = "heads most alike"});
    MapState map;
    map.b_stack = "cross";  // as another pair left it
    session.views.set(map);
    open("compare", session);
    draw_in({900, 700});
    // The table of pairs is at the lower end.
    const auto shown = [&] { return edit_.session().views.get<MapState>(); };
    for (float y = 690; y > 200 && shown().b_layer < 0; y -= 12) {
      point_at(100, y);
      draw_in({900, 700}, 1);
      for (const bool down : {true, false}) {
        ImGui::GetIO().AddMouseButtonEvent(0, down);
        draw_in({900, 700}, 1);
      }
    }
    EXPECT_GE(shown().b_layer, 0);
    EXPECT_EQ(shown().b, b);
    EXPECT_EQ(shown().b_stack, b == "rope" ? "enc" : "");
  }
}

}  // namespace
}  // namespace phasescope::app
