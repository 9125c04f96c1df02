// What a view shows, combines and saves while answers are on their way.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "app/cli/given_input.h"
#include "app/views/distance_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/head_pictures.h"
#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/patterns_view.h"
#include "app/views/text_view.h"
#include "app/views/theory_view.h"
#include "app/window/main_window.h"
#include "formats/file_system.h"
#include "protocol/shell_word.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"
#include "tests/widgets/headless_imgui.h"
#include "tests/widgets/soft_draw.h"
#include "widgets/heatmap.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using Manner = MadeUpWorker::Manner;
using phasescope::testing::HeadlessImGui;

class Answers : public OneView {
 protected:
  Answers() : OneView(4) {}
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// 17.A4: of 16 texts and of 64 there is no one figure.
TEST_F(Answers, OnlyThoseToOneQuestionAreCombined) {
  open("extrapolation");
  ASSERT_EQ(saved_.size(), 1U);
  EXPECT_EQ(saved_[0].output.figures[0].series.size(), 2U);
  link_.set_manner_of_model("rope", Manner::hold);
  context_.set_state("texts", ExtrapolationState{.choices = {.options = {{"trials", 64}}}});
  draw();
  const auto shown = shown_answers(context_, kEval);
  EXPECT_FALSE(shown.old);
  ASSERT_EQ(shown.list.size(), 1U);
  EXPECT_EQ(shown.list[0]->result.rows[0].model, "tapa_norm");
  for (const widgets::PlotSpec& figure : saved_.at(0).output.figures) {
    ASSERT_EQ(figure.series.size(), 1U);
    EXPECT_EQ(figure.series[0].color, 1) << "the colour is the model's";  // 17.A3
  }
  EXPECT_EQ(saved_[0].command,
            "phasescope eval perplexity tapa_norm --lengths 256,512,1024 --trials 64");
  link_.set_manner_of_model("rope", Manner::answer);
  draw();
  EXPECT_EQ(saved_.at(0).output.figures[0].series.size(), 2U);
}

// 17.A4: what is saved meanwhile is what is seen, with the command that it answers.
TEST_F(Answers, WhileAllAreOnTheirWayTheOldOnesAreShownAndSavedAsWhatTheyAre) {
  open("extrapolation");
  link_.set_manner("eval", Manner::hold);
  context_.set_state("texts", ExtrapolationState{.choices = {.options = {{"trials", 64}}}});
  draw();
  EXPECT_TRUE(shown_answers(context_, kEval).old);
  ASSERT_EQ(saved_.size(), 1U);
  EXPECT_TRUE(has(saved_[0].command, "--trials 16")) << saved_[0].command;
  EXPECT_TRUE(has(view_->command_line(context_), "--trials 64"));
  link_.set_manner("eval", Manner::fail);
  draw();
  EXPECT_TRUE(shown_answers(context_, kEval).old);
  EXPECT_TRUE(has(saved_.at(0).command, "--trials 16"));
}

// A number is never without its interval: exp(1.42) and 3 % to either side.
TEST_F(Answers, TheTableOfExtrapolationHasIntervals) {
  open("extrapolation");
  const std::string said = words_in({1200, 900});
  EXPECT_TRUE(has(said, "4.137 [4.013, 4.261]")) << said;
}

// A map that came before its tokens had those of the text before on its axes.
TEST_F(Answers, TokensAreOfTheTextThatTheAnswerIsAbout) {
  open("map");
  ASSERT_NE(token_text(context_, 0, 1), "");
  const Asked before = context_.of(kMap, 0).answer()->asked;
  link_.set_manner(protocol::TextRequest::method, Manner::hold);
  read_text(context_, TextInput::kTyped, "another text");
  draw();
  const Asked after = context_.of(kMap, 0).answer()->asked;
  EXPECT_NE(after, before);
  EXPECT_EQ(token_text(context_, 0, 1), "");
  EXPECT_EQ(token_text(context_, 0, 1, after), "");
  EXPECT_NE(token_text(context_, 0, 1, before), "");
  link_.set_manner(protocol::TextRequest::method, Manner::answer);
  draw();
  EXPECT_NE(token_text(context_, 0, 1, after), "");
  EXPECT_EQ(token_text(context_, 0, 1, before), "");
}

// Of a long path nothing else of what the worker was doing stood in its line.
TEST(Progress, CallsModelsByTheirShortNames) {
  Session session = default_session();
  session.models = {"/runs/long/one", "/runs/long/one (encoding.base=5e4)", "rope"};
  const std::string reading = short_name(session, session.models[1]);
  ASSERT_LT(reading.size(), session.models[1].size());
  EXPECT_EQ(with_short_names(session, session.models[1] + " at 1024"), reading + " at 1024");
  EXPECT_EQ(with_short_names(session, "/runs/long/one at 8, rope"), "one at 8, rope");
}

// ---- what an old picture looks like ----

using phasescope::testing::Pictures;
using phasescope::testing::soft_drawn;
using widgets::Image;
using widgets::Rgba;

Rgba ground() {
  const ImVec4 color = ImGui::GetStyleColorVec4(ImGuiCol_WindowBg);
  const auto part = [](float value) { return static_cast<std::uint8_t>(value * 255 + 0.5F); };
  return {part(color.x), part(color.y), part(color.z), 255};
}

// The sum over red, green and blue of how far a colour is from the ground.
int ink_of(Rgba color, Rgba on) {
  return std::abs(color.r - on.r) + std::abs(color.g - on.g) + std::abs(color.b - on.b);
}

// A picture does not follow the style: it is laid under half of the ground's colour.
TEST(OldPictures, AreHalfAsFarFromTheGround) {
  HeadlessImGui gui;
  constexpr Rgba kColor{200, 40, 120, 255};
  for (const char* theme : {"light", "dark"}) {
    for (const bool old : {false, true}) {
      widgets::apply_theme(theme);
      ImVec2 at;
      gui.frame([&] {
        const Dimmed dimmed(old);
        at = ImGui::GetCursorScreenPos();
        ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + 40, at.y + 40},
                                                  IM_COL32(kColor.r, kColor.g, kColor.b, 255));
        ImGui::Dummy({40, 40});
      });
      const Rgba on = ground();
      const Image image = soft_drawn(*ImGui::GetDrawData(), on, {});
      const auto pixel = [&](float x, float y) {
        return image.pixels[static_cast<std::size_t>(at.y + y) * image.width +
                            static_cast<std::size_t>(at.x + x)];
      };
      const auto expected = [&](int own, int under) { return old ? (own + under) / 2.0 : own; };
      // Half is 128 of 255, and two colours are rounded: less than 2 of 255.
      EXPECT_NEAR(pixel(20, 20).r, expected(kColor.r, on.r), 1.5) << theme << old;
      EXPECT_NEAR(pixel(20, 20).g, expected(kColor.g, on.g), 1.5) << theme << old;
      EXPECT_NEAR(pixel(20, 20).b, expected(kColor.b, on.b), 1.5) << theme << old;
      EXPECT_EQ(ink_of(pixel(60, 20), on), 0) << "nothing beside it is touched";
    }
  }
}

class OldPicturesOfViews : public Answers {
 protected:
  OldPicturesOfViews() {
    widgets::set_picture_taker([this](std::uint64_t id, Image image) {
      if (id == 0) id = 1000 + pictures_.size();
      pictures_[id] = std::move(image);
      return id;
    });
  }
  ~OldPicturesOfViews() override { widgets::set_picture_taker({}); }

  Image picture() {
    for (int frame = 0; frame < frames_; ++frame) {
      gui_.begin_frame(0.1F);
      requests_.begin_frame();
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({760, 520});
      view_->draw(context_);
      gui_.end_frame();
    }
    return soft_drawn(*ImGui::GetDrawData(), ground(), pictures_);
  }
  // Of the pixels that are not nearly the ground's, the part that came nearer to it by far.
  static double faded(const Image& before, const Image& after) {
    const Rgba on = ground();
    int all = 0, fainter = 0;
    for (std::size_t n = 0; n < before.pixels.size(); ++n) {
      const int ink = ink_of(before.pixels[n], on);
      if (ink < 60) continue;
      ++all, fainter += ink_of(after.pixels[n], on) < 0.6 * ink;
    }
    return all > 0 ? static_cast<double>(fainter) / all : 0;
  }

  Pictures pictures_;
};

// What is asked now is not what is seen, and that is seen: the figure, its axes and its table are
// most of what a view draws, its tools the rest.
TEST_F(OldPicturesOfViews, AreDimmedUntilTheNewAnswerIsThere) {
  const auto other_head = [&] { select_head(context_, 0, 2, 2); };
  const auto other_texts = [&] {
    context_.set_state("texts", ExtrapolationState{.choices = {.options = {{"trials", 64}}}});
  };
  const std::pair<const char*, std::function<void()>> changed[] = {{"map", other_head},
                                                                   {"extrapolation", other_texts}};
  for (const auto& [id, change] : changed) {
    link_.set_manner("", Manner::answer);
    open(id);
    const Image before = picture();
    EXPECT_LT(faded(before, picture()), 0.01) << id;
    link_.set_manner("", Manner::hold);
    change();
    EXPECT_GT(faded(before, picture()), 0.1) << id;
  }
}

Session with_difference() {
  Session session = default_session();
  session.views.set(MapState{.show = "difference"});
  session.selection = {0, 3, 1, {}, {}};
  return session;
}

// 17.A4: until the slower model answers there is no A - B.
TEST_F(Answers, MapsOfTwoHeadsAreNotSubtracted) {
  open("map", with_difference());
  ASSERT_EQ(saved_.size(), 3U);
  link_.set_manner_of_model("tapa_norm", Manner::hold);
  select_head(context_, 0, 2, 2);
  draw();
  ASSERT_EQ(saved_.size(), 2U);
  EXPECT_EQ(saved_[0].output.figures[0].title, "rope L2H2: weight");
  EXPECT_TRUE(has(saved_[0].command, "--head L2H2"));
  EXPECT_EQ(saved_[1].output.figures[0].title, "tapa_norm L3H1: weight");
  EXPECT_TRUE(has(saved_[1].command, "--head L3H1"));
  link_.set_manner_of_model("tapa_norm", Manner::answer);
  draw();
  ASSERT_EQ(saved_.size(), 3U);
  EXPECT_TRUE(has(saved_[2].command, " --head L2H2 ")) << saved_[2].command;
  EXPECT_TRUE(has(saved_[2].command, " --minus tapa_norm")) << saved_[2].command;
}

// 17.A4: after a failure the old picture keeps its own head.
TEST_F(Answers, APictureIsTitledWithItsOwnHead) {
  open("map");
  EXPECT_EQ(saved_.at(0).output.figures[0].title, "rope L3H1: weight");
  link_.set_manner("map", Manner::fail);
  select_head(context_, 0, 0, 0);
  draw();
  EXPECT_FALSE(context_.of(kMap, 0).answers_now());
  EXPECT_EQ(saved_.at(0).output.figures[0].title, "rope L3H1: weight");
  EXPECT_TRUE(has(saved_.at(0).command, "--head L3H1"));
}

// Opening a model takes seconds: the map of one that is open does not wait for the others.
TEST(MapOfAnOpenModel, WaitsForNoModelThatIsStillToBeOpened) {
  class Worker : public MadeUpWorker {
   public:
    protocol::RequestId submit(const std::string& method, nlohmann::json params,
                               protocol::Callbacks callbacks, const std::string& tag) override {
      if (method == "model.info") asked.push_back(params.at("model"));
      const bool never = method == "model.info" && params.at("model") == "tapa_norm";
      return never ? 0 : MadeUpWorker::submit(method, std::move(params), std::move(callbacks), tag);
    }
    std::vector<std::string> asked;
  };
  HeadlessImGui gui;
  Worker link;
  Session session = default_session();
  session.models = {"tapa_norm", "rope"};
  session.selection.model = 1;
  MainWindow main_window(session, link, link);
  main_window.start_asking();
  for (int frame = 0; frame < 8; ++frame) {
    gui.begin_frame(0.1F), main_window.draw(), gui.end_frame();
  }
  ASSERT_FALSE(link.asked.empty());
  EXPECT_EQ(link.asked.front(), "rope") << "that of the selected head is the first to be opened";
  EXPECT_TRUE(main_window.context().of(kMap, 1).answers_now());
  EXPECT_EQ(link.counts().count("heads"), 0U) << "these wait until all shapes are known";
}

// 17.A4
TEST_F(Answers, MapsOfDifferentTokensAreNotSubtracted) {
  link_ = MadeUpWorker({.other_tokens = "tapa_norm"});
  open("map", with_difference());
  EXPECT_EQ(saved_.size(), 2U);
}

// 17.A4: the second model has fewer tokens than the region that is shown of the first.
TEST_F(Answers, ARegionIsNoLongerThanTheTextOfEachModel) {
  link_ = MadeUpWorker({.tokens = 40});
  Session session = with_difference();
  open("map", session);
  show_region(context_, {10, 200, 0, 200});
  draw();
  EXPECT_EQ(link_.last_params("map")["rows"], nlohmann::json({10, 40}));
  EXPECT_EQ(saved_.size(), 3U);
}

// 17.A3: two checkpoints of one folder name have a curve, a colour and files of their own.
TEST_F(Answers, TwoFoldersOfOneNameAreTwoModels) {
  Session session = default_session();
  session.models = {"/runs/a/checkpoint-1000", "/runs/b/checkpoint-1000"};
  for (const char* id : {"extrapolation", "distance", "shift", "theory", "text"}) {
    open(id, session);
    ASSERT_EQ(saved_.size(), 1U) << id;
    std::set<std::string> files, labels;
    for (const widgets::PlotSpec& figure : saved_[0].output.figures) {
      EXPECT_TRUE(files.insert(figure.id).second) << figure.id;
      for (const widgets::Series& series : figure.series) labels.insert(series.label);
    }
    const auto of = [&](const std::string& name) {
      return std::ranges::any_of(labels, [&](const auto& label) { return has(label, name); }) ||
             std::ranges::any_of(files, [&](const auto& file) { return has(file, name); });
    };
    EXPECT_TRUE(of("a/checkpoint-1000") || of("a_checkpoint-1000")) << id;
    EXPECT_TRUE(of("b/checkpoint-1000") || of("b_checkpoint-1000")) << id;
  }
  for (const char* id : {"heads", "map", "patterns"}) {
    session.views.set(MapState{.show = "both"});
    open(id, session);
    ASSERT_EQ(saved_.size(), 2U) << id;
    EXPECT_EQ(saved_[0].folder, "a_checkpoint-1000");
    EXPECT_EQ(saved_[1].folder, "b_checkpoint-1000");
    EXPECT_NE(saved_[0].output.figures[0].id, saved_[1].output.figures[0].id);
  }
}

// 17.A4: of one layer, the figure says that of itself; the pooled one does not stand for it.
TEST_F(Answers, ADistanceFigureSaysWhatIsPooled) {
  for (const char* figure : {"near - far", "score", "weight", "score parts"}) {
    for (const std::int64_t layer : {-1, 2}) {
      Session session = default_session();
      session.views.set(DistanceState{.figure = figure, .layer = layer});
      open("distance", session);
      const widgets::PlotSpec& plot = saved_.at(0).output.figures.at(0);
      const bool all = std::ranges::count(plot.notes, "all layers and heads pooled") > 0;
      EXPECT_EQ(all, layer < 0) << figure;
      EXPECT_EQ(std::ranges::count(plot.notes, "heads of L2 pooled") > 0, layer == 2) << figure;
      EXPECT_EQ(has(plot.title, ", L2"), layer == 2) << plot.title;
    }
  }
}

// Several heads could be chosen with the pointer alone.
TEST_F(Answers, HeadsAreChosenForTheirMeanByTheKeyboard) {
  open("heads");
  std::vector<Command> commands;
  view_->add_commands(commands);
  const auto choose = std::ranges::find(commands, "heads.choose", &Command::id);
  ASSERT_NE(choose, commands.end());
  const auto chosen = [&] { return context_.state<HeadsState>().chosen; };
  choose->run(context_);
  ASSERT_EQ(chosen().size(), 1U);  // the first session's head
  EXPECT_EQ(chosen()[0], (ChosenHead{"rope", 3, 1}));
  select_head(context_, 1, 0, 2);
  choose->run(context_);
  ASSERT_EQ(chosen().size(), 2U);
  EXPECT_EQ(chosen()[1], (ChosenHead{"tapa_norm", 0, 2}));
  choose->run(context_);
  EXPECT_EQ(chosen().size(), 1U) << "the second time it is left again";
  select_head(context_, 1, 0, -1);  // a layer's mean is no head
  choose->run(context_);
  EXPECT_EQ(chosen().size(), 1U);
}

// Curves of different models are compared in one figure, and not by their colours alone.
TEST_F(Answers, TheDriftOfAllModelsIsOneFigure) {
  Session session = default_session();
  session.models = {"rope", "tape", "tapa"};
  PatternsState state;
  state.figure = "drift with depth";
  session.views.set(state);
  open("patterns", session);
  ASSERT_EQ(saved_.size(), 1U);
  ASSERT_EQ(saved_[0].output.figures.size(), 1U);
  const widgets::PlotSpec& plot = saved_[0].output.figures[0];
  std::set<std::string> labels;
  std::set<int> colors;
  std::set<widgets::PointShape> shapes;
  int bands = 0;
  for (const widgets::Series& series : plot.series) {
    labels.insert(series.label), colors.insert(series.color), shapes.insert(series.points);
    bands += series.low.empty() ? 0 : 1;
  }
  EXPECT_EQ(plot.series.size(), 6U);  // the size of the state and its drift, of each
  EXPECT_EQ(labels.size(), 6U);
  EXPECT_EQ(colors.size(), 3U);
  EXPECT_EQ(shapes.size(), 3U);
  EXPECT_EQ(bands, 3);
  EXPECT_EQ(plot.notes.size(), 1U) << "what they share is said once";
  EXPECT_EQ(saved_[0].output.result["models"].size(), 3U);
  EXPECT_EQ(saved_[0].command,
            "phasescope patterns rope && phasescope patterns tape && phasescope patterns tapa");
  session.models = {"rope"};
  open("patterns", session);
  ASSERT_EQ(saved_.size(), 1U);
  ASSERT_EQ(saved_[0].output.figures.size(), 1U);
  EXPECT_EQ(saved_[0].output.figures[0].series.size(), 2U);
}

// 17.A4: several curves of a check do not overwrite each other's file.
TEST_F(Answers, EveryCurveOfACheckHasAFile) {
  link_ = MadeUpWorker({.curves = 3});
  open("theory");
  std::set<std::string> files;
  for (const widgets::PlotSpec& figure : saved_.at(0).output.figures) {
    EXPECT_TRUE(files.insert(figure.id).second) << figure.id;
  }
  EXPECT_EQ(files.size(), 2U * 4 * 3);
  EXPECT_FALSE(saved_[0].output.provenance.empty());
}

// 17.A10: what the first session's views copy.
TEST_F(Answers, CommandsOfTheTextThatNobodyChoseNameNone) {
  const std::map<std::string, std::string> expected{
      {"models", "phasescope info rope"},
      {"text", "phasescope text rope && phasescope text tapa_norm"},
      {"heads", "phasescope heads rope && phasescope heads tapa_norm"},
      {"patterns", "phasescope patterns rope && phasescope patterns tapa_norm"},
      {"distance", "phasescope distance rope tapa_norm --corpus"},
      {"shift", "phasescope shift rope tapa_norm"},
      {"theory", "phasescope theory rope tapa_norm"},
      {"jobs", "phasescope jobs list"}};
  for (const auto& [id, command] : expected) {
    open(id);
    EXPECT_EQ(view_->command_line(context_), command);
  }
  open("map");
  EXPECT_TRUE(view_->command_line(context_).starts_with("phasescope map rope --head L3H1 "));
  EXPECT_FALSE(has(view_->command_line(context_), "--text"));
  Session session = default_session();
  session.views.set(
      DistanceState{.options = nlohmann::json::object()});  // without a text it would read many
  open("distance", session);
  const std::string file = (assets_folder() / "texts/default.txt").string();
  EXPECT_EQ(view_->command_line(context_),
            "phasescope distance rope tapa_norm --text " + protocol::shell_word(file));
  session.text = {TextInput::kTyped, "two words", 0};
  open("heads", session);
  EXPECT_EQ(view_->command_line(context_),
            "phasescope heads rope --prompt 'two words' && "
            "phasescope heads tapa_norm --prompt 'two words'");
}

// 17.A9: the command line and the window send the same bytes.
TEST_F(Answers, ATextThatIsNoUtf8IsSentAsTheCommandLineSendsIt) {
  const std::filesystem::path file = ::testing::TempDir() + "latin1.txt";
  const std::string words = "caf\xE9 au lait";
  formats::write_file_atomically(formats::real_file_system(), file, std::string_view(words));
  open("text");
  read_text_file_into(context_, file.string());
  draw();
  const nlohmann::json input = input_of_file(file.string());
  EXPECT_EQ(link_.last_params("text.read")["input"], input);
  EXPECT_TRUE(input.contains("base64"));
}

// Those of a thousand heads are made beside the window, and taken in a frame that has time for
// them.
TEST(PicturesOfManyHeads, AreTakenOnceTheyAreMade) {
  constexpr std::int64_t kLayers = 32, kHeads = 32, kSide = 16;
  std::vector<float> cells(kLayers * kHeads * kSide * kSide, 0.5F);
  cells[7] = widgets::kMaskedCell;
  Answer<protocol::HeadsResult> answer;
  answer.result.layers = kLayers, answer.result.heads = kHeads;
  answer.tensors = {protocol::TensorRef::own<float>("thumbnails", {kLayers, kHeads, kSide, kSide},
                                                    std::move(cells))};
  answer.serial = next_serial();
  HeadPictures pictures;
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  for (int i = 0; i < 20; ++i, wait()) {
    EXPECT_EQ(pictures.take(answer, false), HeadPictures::Taken::later);
  }
  EXPECT_EQ(pictures.texture().rows(), 0);
  auto taken = HeadPictures::Taken::later;
  for (int i = 0; i < 4000 && taken == HeadPictures::Taken::later; ++i, wait()) {
    taken = pictures.take(answer, true);
  }
  EXPECT_EQ(taken, HeadPictures::Taken::now);
  EXPECT_EQ(pictures.texture().rows(), kLayers * kSide);
  EXPECT_EQ(pictures.marks().masked, 1U);
  EXPECT_EQ(pictures.take(answer, true), HeadPictures::Taken::nothing);
}

// 17.A9: a worker of another version answers with other shapes.
TEST(AViewThatThrows, IsSaidAndTheOthersAreDrawn) {
  HeadlessImGui gui;
  MadeUpWorker link({.flat_thumbnails = true});
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  for (int i = 0; i < 20; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  ASSERT_FALSE(main_window.window().notices.empty());
  EXPECT_TRUE(has(main_window.window().notices[0].text, "Heads could not be drawn"));
  EXPECT_EQ(main_window.window().notices.size(), 1U);  // said once, not in every frame
  EXPECT_TRUE(main_window.requests().of(kMap, "rope").answers_now());
}

// A layout that was cut, or of a screen that is no longer there: the views stand on this one.
TEST(ALayout, Row30_ThatIsCorruptOrOffTheScreenLeavesViewsInSight) {
  for (const std::string layout :
       {"[[[\nPos=x\n[Docking][Data]\nDockNode ID=zz", "[Window][Heads###heads]\nPos=1,",
        "[Window][Heads###heads]\nPos=-9000,-9000\nSize=300,200\nCollapsed=0\n"}) {
    HeadlessImGui gui;
    MadeUpWorker link;
    Session session = default_session();
    session.layout = layout;
    MainWindow main_window(session, link, link);
    main_window.start_asking();
    for (int i = 0; i < 10; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
    int views = 0;
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      if (!window->WasActive || !std::string(window->Name).ends_with("###heads")) continue;
      const ImVec2 screen = ImGui::GetIO().DisplaySize;
      EXPECT_TRUE(window->Rect().Overlaps(ImRect({0, 0}, screen))) << layout;
      ++views;
    }
    EXPECT_EQ(views, 1) << layout;
  }
}

}  // namespace
}  // namespace phasescope::app
