// Views that ask when they are told to, edits of readings, and the form of a training.
#include <gtest/gtest.h>

#include <cmath>

#include "app/figures/job_figures.h"
#include "app/views/acuity_view.h"
#include "app/views/config_form.h"
#include "app/views/cost_view.h"
#include "app/views/demand_view.h"
#include "app/views/intervene_view.h"
#include "app/views/jobs_view.h"
#include "app/views/pair_view.h"
#include "app/views/xray_view.h"
#include "app/window/commands.h"
#include "protocol/error_info.h"
#include "tests/app/made_up_worker.h"
#include "tests/widgets/headless_imgui.h"

namespace phasescope::app {
namespace {

using nlohmann::json;
using phasescope::testing::HeadlessImGui;
using protocol::Settings;

// One view before a made-up worker.
template <class ViewType>
class Scene {
 public:
  explicit Scene(Session session = default_session())
      : edit(std::move(session)), requests(link, link) {
    window.may_ask = true;
  }
  void frames(int count = 4) {
    for (int frame = 0; frame < count; ++frame) {
      gui_.begin_frame(0.1F);
      requests.begin_frame();
      ImGui::SetNextWindowSize({900, 700});
      view.draw(context);
      gui_.end_frame();
    }
  }
  int asked(const std::string& method) const {
    const auto found = link.counts().find(method);
    return found == link.counts().end() ? 0 : found->second;
  }

  MadeUpWorker link;
  SessionHistory edit;
  WorkerRequests requests;
  WindowState window;
  ViewContext context{edit, requests, window};
  ViewType view;

 private:
  HeadlessImGui gui_;
};

DemandState demand_of(const json& params) {
  DemandState state;
  state.params = params;
  return state;
}

// ---- questions ------------------------------------------------------------------------------

TEST(QuestionViews, ALongQuestionIsAskedByItsButtonAlone) {
  Scene<DemandView> scene;
  scene.frames();
  EXPECT_EQ(scene.asked("demand"), 0);
  scene.view.run(scene.context);
  scene.frames();
  EXPECT_EQ(scene.asked("demand"), 2);
  scene.context.set_state("", demand_of({{"texts", "0:70:35"}}));
  scene.frames();
  EXPECT_EQ(scene.asked("demand"), 2);
}

TEST(QuestionViews, AnswersAreKeptWithTheirQuestions) {
  Scene<DemandView> scene;
  scene.frames();
  scene.view.run(scene.context);
  scene.frames();
  const auto command = [&] { return scene.view.saved(scene.context).front().command; };
  EXPECT_EQ(command(), "phasescope demand rope tapa_norm");
  scene.context.set_state("", demand_of({{"texts", "0:70:35"}}));
  scene.frames();
  EXPECT_EQ(command(), "phasescope demand rope tapa_norm");  // what is shown, dimmed
  EXPECT_EQ(scene.view.command_line(scene.context),
            "phasescope demand rope tapa_norm --texts 0:70:35");
  scene.view.run(scene.context);
  scene.frames();
  EXPECT_EQ(command(), "phasescope demand rope tapa_norm --texts 0:70:35");
  scene.context.set_state("", demand_of(json::object()));
  scene.frames();
  EXPECT_EQ(command(), "phasescope demand rope tapa_norm");
  scene.view.run(scene.context);  // it is known
  scene.frames();
  EXPECT_EQ(scene.asked("demand"), 4);
}

TEST(QuestionViews, ABiasIsFittedByACommandForEachModel) {
  Scene<DemandView> scene;
  scene.context.set_state("", demand_of({{"fit", true}}));
  scene.frames();
  EXPECT_EQ(scene.view.command_line(scene.context),
            "phasescope demand rope --fit && phasescope demand tapa_norm --fit");
  scene.view.run(scene.context);
  scene.frames();
  const auto saved = scene.view.saved(scene.context);
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[1].command, "phasescope demand tapa_norm --fit");
}

TEST(QuestionViews, TheTextOfTheWindowIsNamedInTheCommand) {
  Scene<DemandView> scene;
  DemandState state = demand_of({{"texts", "0:70:35"}});
  state.reads = "text", state.heads = "head";
  scene.context.set_state("", state);
  scene.frames();
  const std::string command = scene.view.command_line(scene.context);
  EXPECT_NE(command.find(" --text "), std::string::npos) << command;
  EXPECT_EQ(command.find("--texts"), std::string::npos) << command;
  EXPECT_NE(command.find("--layers 3 --heads 1"), std::string::npos) << command;
}

TEST(QuestionViews, FieldsThatMeanNothingTogetherAreNotAsked) {
  Scene<DemandView> scene;
  scene.context.set_state("", demand_of({{"steps", 3}}));  // of a fit that is not asked for
  scene.frames();
  scene.view.run(scene.context);
  scene.frames();
  EXPECT_EQ(scene.asked("demand"), 0);
  EXPECT_EQ(scene.view.command_line(scene.context), "");
}

TEST(QuestionViews, AQuestionAWorkerDiedOnIsAskedOnceMore) {
  Scene<AcuityView> scene;
  scene.frames();
  scene.link.set_manner("acuity", MadeUpWorker::Manner::hold);
  scene.view.run(scene.context);
  scene.frames(1);
  EXPECT_EQ(scene.asked("acuity"), 2);
  scene.link.die("killed");
  scene.link.set_manner("acuity", MadeUpWorker::Manner::answer);
  scene.frames();
  EXPECT_EQ(scene.asked("acuity"), 4);
  EXPECT_FALSE(scene.view.saved(scene.context).empty());
}

TEST(QuestionViews, APairFollowsTheSelection) {
  Scene<PairView> scene;
  scene.frames();
  EXPECT_EQ(scene.link.last_params("pair")["head"], "L3H1");
  select_pair(scene.context, 20, 3);
  scene.frames();
  EXPECT_EQ(scene.link.last_params("pair")["query"], 20);
  EXPECT_EQ(scene.link.last_params("pair")["key"], 3);
  const int asked = scene.asked("pair");
  select_pair(scene.context, 3, 20);  // which the query cannot see
  scene.frames();
  EXPECT_EQ(scene.asked("pair"), asked);
}

TEST(QuestionViews, ARowOfATableSelectsItsHead) {
  Scene<DemandView> scene;
  select_row(scene.context, {{"head", "L2H3"}, {"model", "tapa_norm"}});
  const Selection& at = scene.context.session().selection;
  EXPECT_EQ(std::tuple(at.model, at.layer, at.head), std::tuple(1, 2, 3));
  EXPECT_TRUE(is_of_selection(scene.context.session(), {{"layer", 2}, {"head", 3}}));
  EXPECT_FALSE(is_of_selection(scene.context.session(), {{"head", "L2H2"}}));
  select_row(scene.context, {{"distances", "1..2"}});  // of no head
  EXPECT_EQ(at.head, 3);
}

TEST(QuestionViews, SayWhatAQuestionWillTake) {
  EXPECT_EQ(texts_in("0:70:5"), 14);
  EXPECT_EQ(texts_in("3:4:1"), 1);
  EXPECT_EQ(texts_in("0:11:5"), 3);  // 0, 5 and 10
  EXPECT_EQ(texts_in("many"), 0);
  EXPECT_EQ(words_of({.passes = 34, .texts = 14, .tokens = 512}),
            "14 texts of 512 tokens, 34 passes over each");
  EXPECT_EQ(words_of({.passes = 1, .texts = 1, .tokens = 256, .seconds = 200, .at_least = true}),
            "1 text of 256 tokens, at least 1 pass over each, about 3 min");
}

TEST(QuestionViews, ATableHasTheWordsAndNumbersOfItsVerb) {
  const Table table{
      .columns = {"layer", "share", "why"},
      .rows = {{{"layer", 1}, {"share", {{"mean", 0.25}, {"low", 0.2}, {"high", 0.3}}}},
               {{"layer", 2}, {"why", "nothing varies"}}},
      .headings = {{"share", "share (of 1)"}}};
  const widgets::TableSpec spec = spec_of(table);
  EXPECT_EQ(spec.columns[1].title, "share (of 1)");
  EXPECT_TRUE(spec.columns[0].numbers);
  EXPECT_FALSE(spec.columns[2].numbers);
  EXPECT_EQ(spec.rows[0][1].words, "0.25 [0.2, 0.3]");
  EXPECT_EQ(spec.rows[0][1].number, 0.25);
  EXPECT_EQ(spec.rows[1][1].words, "-");
  EXPECT_TRUE(std::isnan(spec.rows[1][1].number));
}

TEST(Cost, IsCountedForTheLengthOfTheForm) {
  Scene<CostView> scene;
  CostState state;
  state.params = {{"length", 4096}};
  scene.context.set_state("", state);
  scene.frames();
  EXPECT_EQ(scene.link.last_params("cost")["length"], 4096);
  EXPECT_EQ(scene.view.command_line(scene.context), "phasescope cost rope tapa_norm --length 4096");
}

// ---- edits of a reading ---------------------------------------------------------------------

TEST(Interventions, AReadingIsItsEdits) {
  const Settings settings{{"encoding.base", "1e6"},
                          {"encoding.head_windows", "L0H1:256 L2:64"},
                          {"encoding.head_ablations", "L3H1:zero"}};
  const std::vector<ReadingEdit> edits = edits_of(settings);
  EXPECT_EQ(edits, (std::vector<ReadingEdit>{{"encoding.base", "", "1e6"},
                                             {"encoding.head_windows", "L0H1", "256"},
                                             {"encoding.head_windows", "L2", "64"},
                                             {"encoding.head_ablations", "L3H1", "zero"}}));
  EXPECT_EQ(with_edit(settings, {"encoding.head_windows", "L2", "32"})[1].second, "L0H1:256 L2:32");
  EXPECT_EQ(with_edit(settings, {"encoding.head_windows", "all", "9"})[1].second,
            "L0H1:256 L2:64 all:9");
  EXPECT_EQ(with_edit(settings, {"encoding.base", "", "2e4"})[0].second, "2e4");
  EXPECT_EQ(without_edit(settings, edits[1])[1].second, "L2:64");
  EXPECT_EQ(without_edit(settings, edits[3]).size(), 2U);
}

TEST(Interventions, AreOptionsOfTheEncoding) {
  EXPECT_EQ(edit_of("zero", "L0H1", 3), (ReadingEdit{"encoding.head_ablations", "L0H1", "zero"}));
  EXPECT_EQ(edit_of("window", "L2", 63.7), (ReadingEdit{"encoding.head_windows", "L2", "64"}));
  EXPECT_EQ(edit_of("sink", "all", 0.25), (ReadingEdit{"encoding.head_sink_caps", "all", "0.25"}));
}

// 19: no slider offers what the encoding refuses.
TEST(Interventions, SlidersEndWhereTheEncodingDoes) {
  using Ends = std::pair<double, double>;
  protocol::EncodingNumber number{.key = "base", .value = 10000, .low = 0.0};
  EXPECT_EQ(slider_ends(number), (Ends{10000.0 / 64, 640000}));
  number = {.key = "decay", .value = 0.9, .low = 0.5, .high = 1.0};
  EXPECT_EQ(slider_ends(number), (Ends{0.5, 1}));
  number = {.key = "shift", .value = 0, .whole = true, .low = 0.0, .high = 512.0};
  EXPECT_EQ(slider_ends(number), (Ends{0, 512}));
  number = {.key = "buckets", .value = 32, .whole = true, .low = 2.0};
  EXPECT_EQ(slider_ends(number), (Ends{2, 2048}));
  number = {.key = "gain", .value = -0.5};
  EXPECT_EQ(slider_ends(number), (Ends{-32, 32}));
}

TEST(Interventions, MakeOneReadingThatIsUndoneAndTakenBack) {
  Scene<InterveneView> scene;
  const auto models = [&] { return scene.context.session().models; };
  const std::vector<std::string> before = models();
  add_edit(scene.context, edit_of("window", "L3H1", 64));
  EXPECT_EQ(selected_model(scene.context.session()), "rope (head_windows=L3H1:64)");
  EXPECT_EQ(models().size(), 3U);
  add_edit(scene.context, edit_of("window", "L3H1", 32));  // a slider moved on: the same step
  EXPECT_EQ(selected_model(scene.context.session()), "rope (head_windows=L3H1:32)");
  EXPECT_EQ(models().size(), 3U);
  add_edit(scene.context, {"encoding.base", "", "50000"});
  EXPECT_EQ(models().size(), 3U);
  EXPECT_EQ(
      edits_of(protocol::model_reading(selected_model(scene.context.session())).settings).size(),
      2U);
  EXPECT_TRUE(scene.edit.undo());
  EXPECT_EQ(selected_model(scene.context.session()), "rope (head_windows=L3H1:32)");
  EXPECT_TRUE(scene.edit.undo());
  EXPECT_EQ(models(), before);
  EXPECT_TRUE(scene.edit.redo());
  remove_edit(scene.context, edit_of("window", "L3H1", 32));
  EXPECT_EQ(models(), before);
  EXPECT_EQ(selected_model(scene.context.session()), "rope");
}

// 19: also where a lower colour has become free.
TEST(Interventions, KeepTheirColourWhileASliderMoves) {
  Scene<InterveneView> scene;
  const auto color = [&] {
    const Session& session = scene.context.session();
    return names_of(session).color(selected_model(session));
  };
  add_edit(scene.context, edit_of("window", "L3H1", 64));
  const int before = color();
  scene.edit.apply("Models", [](Session& s) {
    s.models.erase(s.models.begin()), s.selection.model = std::int64_t(s.models.size()) - 1;
  });
  add_edit(scene.context, edit_of("window", "L3H1", 32));
  EXPECT_EQ(selected_model(scene.context.session()), "rope (head_windows=L3H1:32)");
  EXPECT_EQ(color(), before);
}

TEST(Interventions, AreMeasuredAgainstTheModelItself) {
  Scene<InterveneView> scene;
  scene.frames();
  EXPECT_EQ(scene.asked("ablate"), 0);
  add_edit(scene.context, edit_of("sink", "L3H1", 0.1));
  scene.frames();
  EXPECT_EQ(scene.asked("ablate"), 1);
  const json& asked = scene.link.last_params("ablate");
  EXPECT_EQ(asked["model"], "rope");
  EXPECT_EQ(asked["set"], json({"encoding.head_sink_caps=L3H1:0.1"}));
  const std::string command = scene.view.command_line(scene.context);
  EXPECT_NE(command.find("--set encoding.head_sink_caps=L3H1:0.1"), std::string::npos) << command;
  EXPECT_NE(command.find("--text "), std::string::npos) << command;
  // Another value: what was measured before is shown until the new answer is there.
  scene.link.set_manner("ablate", MadeUpWorker::Manner::hold);
  add_edit(scene.context, edit_of("sink", "L3H1", 0.05));
  scene.frames();
  EXPECT_EQ(scene.asked("ablate"), 2);
  EXPECT_NE(scene.view.saved(scene.context).front().command.find("L3H1:0.1"), std::string::npos);
}

// ---- the form of a training -----------------------------------------------------------------

protocol::ConfigField field_of(json fallback) {
  protocol::ConfigField field{.key = "train.field"};
  field.fallback = std::move(fallback);
  return field;
}

TEST(ConfigForm, TakesWhatAFieldTakes) {
  protocol::ConfigField steps = field_of(100);
  steps.low = 1, steps.high = 1000;
  EXPECT_EQ(typed_value(steps, "30"), json(30));
  EXPECT_EQ(typed_value(steps, "1e2"), json(100));
  for (const char* wrong : {"0", "1001", "2.5", "many", "", "[1]"}) {
    EXPECT_THROW(typed_value(steps, wrong), protocol::RequestError) << wrong;
  }
  EXPECT_EQ(typed_value(field_of(0.1), "2e-3"), json(2e-3));
  EXPECT_EQ(typed_value(field_of("desk"), "12"), json("12"));
  EXPECT_EQ(typed_value(field_of(json::array()), "[600, 1200]"), json({600, 1200}));
  EXPECT_THROW(typed_value(field_of(json::array()), "600"), protocol::RequestError);
}

TEST(ConfigForm, AnotherEncodingHasOptionsOfItsOwn) {
  json config{{"encoding", {{"key", "tapa"}, {"phase_gain", 0.1}}}};
  set_in_config(config, "train.steps", 7);
  set_in_config(config, "encoding.phase_gain", 0.2);
  EXPECT_EQ(config["encoding"]["phase_gain"], 0.2);
  set_in_config(config, "encoding.key", "rope");
  EXPECT_EQ(config, (json{{"encoding", {{"key", "rope"}}}, {"train", {{"steps", 7}}}}));
}

TEST(Jobs, CurvesOfSeveralStandOverEachOther) {
  protocol::JobStatus a, b;
  a.name = "a", b.name = "b";
  for (int step = 0; step < 4; ++step) {
    protocol::MetricPoint point;
    point.step = step, point.tokens = 1000 * step, point.time = 2 * step;
    point.loss = std::log(2.0) * (4 - step), point.lr = 0.5;
    a.curve.push_back(point);
    point.time = 4 * step, point.gradient_norm = 3;
    b.curve.push_back(point);
  }
  const std::vector<protocol::JobStatus> jobs{a, b};
  const auto loss = job_curves_figure(jobs, "loss");
  ASSERT_EQ(loss.series.size(), 2U);
  for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(loss.series[0].y[n], 4.0 - double(n), 1e-15);
  const auto speed = job_curves_figure(jobs, "tokens a second");
  EXPECT_EQ(speed.series[0].y, (std::vector<double>{500, 500, 500}));
  EXPECT_EQ(speed.series[1].y, (std::vector<double>{250, 250, 250}));
  EXPECT_EQ(speed.series[1].x, (std::vector<double>{1, 2, 3}));
  const auto norm = job_curves_figure(jobs, "gradient norm");
  EXPECT_TRUE(norm.series[0].x.empty());
  EXPECT_EQ(norm.series[1].y.size(), 4U);
}

TEST(Jobs, MetricsOfHeadsAreCurvesByLayerAndByJob) {
  protocol::JobStatus a, b;
  a.name = "a", b.name = "b";
  for (int step = 0; step < 4; ++step) {
    protocol::MetricPoint point;
    point.step = step;
    if (step % 2 == 0) {
      const double t = step;
      point.heads = {{"entropy", {{1 + t, 3 + t}, {5 + t, std::nan("")}}}};
    }
    a.curve.push_back(point);
    b.curve.push_back(point);
  }
  const std::vector<protocol::JobStatus> both{a, b}, one{a};
  EXPECT_EQ(job_quantities(both).back(), "heads: entropy");
  EXPECT_EQ(job_quantities(both).size(), job_quantities().size() + 1);
  const auto layers = job_curves_figure(one, "heads: entropy");
  ASSERT_EQ(layers.series.size(), 2U);
  EXPECT_EQ(layers.series[0].x, (std::vector<double>{0, 2}));
  EXPECT_EQ(layers.series[0].y, (std::vector<double>{2, 4}));
  EXPECT_EQ(layers.series[1].y, (std::vector<double>{5, 7}));
  const auto jobs = job_curves_figure(both, "heads: entropy");
  ASSERT_EQ(jobs.series.size(), 2U);
  EXPECT_EQ(jobs.series[1].label, "b");
  EXPECT_EQ(jobs.series[1].y, (std::vector<double>{3, 5}));
}

TEST(Jobs, TickedOnesAreReadAndDrawnBesideTheOneShown) {
  Scene<JobsView> scene;
  JobsState state{"jobs/tapa"};
  state.beside = {"jobs/rope"};
  scene.context.set_state("", state);
  scene.frames();
  for (const char* dir : {"jobs/tapa", "jobs/rope"}) {
    EXPECT_NE(scene.requests.of(kJob, dir).answer(), nullptr) << dir;
  }
  const auto saved = scene.view.saved(scene.context);
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].output.figures.at(0).series.size(), 2U);
}

}  // namespace
}  // namespace phasescope::app
