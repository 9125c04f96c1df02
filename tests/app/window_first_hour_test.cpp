// A first hour with the window: the flows of a researcher, with a real worker that opens the
// bundled models, and jobs that really train. Without a worker program, as where LibTorch is not
// built in, they are left out.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "app/views/compare_view.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "app/views/jobs_view.h"
#include "app/views/map_view.h"
#include "app/views/shift_view.h"
#include "app/views/text_view.h"
#include "app/window/figure_file.h"
#include "app/window/main_window.h"
#include "app/window/opening.h"
#include "tests/app/window_scenario.h"
#include "tests/temporary_folder.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// Of one answer, on a machine that does other things beside.
constexpr seconds kAnswer{90};

// The first session, without the views that read many texts. Jobs go where nobody else's are.
struct RealStage {
  RealStage() { setenv("XDG_DATA_HOME", folder.path().c_str(), 1); }
  static Session first_session() {
    Session session = default_session();
    session.closed_views = {"extrapolation", "distance"};
    return session;
  }
  const Session& session() { return main_window.edit().session(); }
  template <class T>
  const QuestionOf<T>& of(const Asks<T>& asks, const std::string& model) {
    return main_window.requests().of(asks, model);
  }

  TemporaryFolder folder;
  std::unique_ptr<WorkerLink> quick = link_to(protocol::local_worker()),
                              slow = link_to(protocol::local_worker());
  MainWindow main_window{first_session(), *quick, *slow};
};

RealStage& real_stage(ImGuiTestContext* ctx) { return stage_in<RealStage>(ctx); }

class FirstHour : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(protocol::local_worker().argv[0])) GTEST_SKIP() << "there is no worker";
  }
  static void live(ScenarioStep step) { play_scenario<RealStage>(step, seconds(600)); }
};

template <class T>
bool answered(ImGuiTestContext* ctx, const Asks<T>& asks, const std::string& model) {
  const auto& question = real_stage(ctx).of(asks, model);
  return holds_within(ctx, kAnswer, [&] { return question.answers_now() || question.failed(); }) &&
         !question.failed();
}

bool comes_forward(ImGuiTestContext* ctx, const std::string& view) {
  MainWindow& main_window = real_stage(ctx).main_window;
  main_window.window().focus_view = view;
  return holds_within(ctx, seconds(5), [&] { return main_window.view(view)->visible(); });
}

// The workers of this program, by its children in /proc.
std::vector<pid_t> workers() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream stat(entry.path() / "stat"), line(entry.path() / "cmdline");
    std::string words((std::istreambuf_iterator<char>(stat)), {}), command;
    std::getline(line, command, '\0');
    const auto end = words.rfind(')');  // of the program's name, which may hold anything
    if (end == words.npos || !command.ends_with("phasescope-worker")) continue;
    if (std::atoi(words.c_str() + std::min(words.size(), end + 4)) == getpid()) {
      pids.push_back(static_cast<pid_t>(pid));
    }
  }
  return pids;
}

// Reading a text, picking a head, its map down to single pairs.
TEST_F(FirstHour, FromATextToSinglePairsOfAMap) {
  live([](ImGuiTestContext* ctx) {
    RealStage& stage = real_stage(ctx);
    IM_CHECK(answered(ctx, kText, "rope"));
    const auto& text = stage.of(kText, "rope").answer()->result;
    IM_CHECK_EQ(text.tokens.size(), std::size_t{256});
    IM_CHECK(text.bits_per_byte > 1 && text.bits_per_byte < 4);  // guessing: 8
    IM_CHECK(answered(ctx, kHeads, "rope"));
    const ImGuiTestItemInfo grid = ctx->ItemInfo("//###heads/**/##heads");
    IM_CHECK(grid.ID != 0);
    ctx->MouseMoveToPos({grid.RectFull.Min.x + 8, grid.RectFull.Min.y + 8});
    ctx->MouseClick();
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().selection.layer, 0);
    IM_CHECK(answered(ctx, kMap, "rope"));
    const ImGuiWindow* map = ctx->GetWindowByRef("//###map");
    ctx->MouseMoveToPos({map->Pos.x + map->Size.x * 0.4F, map->Pos.y + map->Size.y * 0.45F});
    for (int turn = 0; turn < 8; ++turn) ctx->MouseWheelY(1);
    const auto& question = stage.of(kMap, "rope");
    IM_CHECK(holds_within(ctx, kAnswer, [&] {
      const auto& region = stage.session().region;
      return region.row_end > 0 && question.answers_now() &&
             question.answer()->result.row_begin == region.row_begin &&
             question.answer()->result.row_end == region.row_end;
    }));
    const auto& shown = question.answer()->result;
    IM_CHECK_EQ(shown.layer, 0);
    IM_CHECK_EQ(shown.height, shown.row_end - shown.row_begin);  // a cell is a pair
    const auto values = protocol::find_tensor(question.answer()->tensors, "map")->values<float>();
    for (const float value : values) IM_CHECK_SILENT(!(value > 1.0001F));  // a weight, or the mask
  });
}

// A third model, a head taken out of it, taken back; two models compared; a figure kept as a file
// that opens the session again.
TEST_F(FirstHour, FromAChangedModelToAFigure) {
  live([](ImGuiTestContext* ctx) {
    RealStage& stage = real_stage(ctx);
    const char* const alibi = "//###models/models/alibi/##open";
    IM_CHECK(holds_within(ctx, kAnswer, [&] { return ctx->ItemExists(alibi); }));
    ctx->ItemClick(alibi);
    IM_CHECK(answered(ctx, kHeads, "alibi"));
    IM_CHECK(comes_forward(ctx, "intervene"));
    ctx->ItemClick("//###intervene/Apply to L3H1");
    const std::string changed = "alibi (head_ablations=L3H1:zero)";
    IM_CHECK_STR_EQ(selected_model(stage.session()).c_str(), changed.c_str());
    IM_CHECK(answered(ctx, kIntervene, changed));
    const auto& rows = stage.of(kIntervene, changed).answer()->result.rows;
    IM_CHECK(!rows.empty() && rows[0].loss_change.mean != 0);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{3});
    IM_CHECK(comes_forward(ctx, "compare"));
    const auto& compared = stage.main_window.requests().of(kCompare);
    IM_CHECK(holds_within(ctx, kAnswer, [&] { return compared.answers_now(); }));
    IM_CHECK_EQ(compared.answer()->result.heads.size(), std::size_t{16});
    stage.main_window.edit().apply("folder", [&](Session& s) {
      s.views.set(FigureForm{.folder = (stage.folder.path() / "figures").string()});
    });
    IM_CHECK(comes_forward(ctx, "shift"));
    IM_CHECK(answered(ctx, kShift, "alibi"));
    ctx->ItemClick("//###shift/Save");
    ctx->Yield(3);
    ctx->ItemClick("//Save figures/Save");
    const auto file_of = [&](const std::string& ending) {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(stage.folder.path() / "figures", error)) {
        if (entry.path().string().ends_with(ending)) return entry.path();
      }
      return fs::path();
    };
    IM_CHECK(holds_within(ctx, seconds(20), [&] { return !file_of(".svg.json").empty(); }));
    IM_CHECK(fs::file_size(file_of(".svg")) > 1000);
    IM_CHECK(kind_of(file_of(".svg.json")) == Openable::session);
  });
}

// The worker is killed: the window says so, has another one, and goes on where it was.
TEST_F(FirstHour, AWorkerThatIsKilledIsReplaced) {
  live([](ImGuiTestContext* ctx) {
    RealStage& stage = real_stage(ctx);
    IM_CHECK(answered(ctx, kMap, "rope"));
    const auto pids = workers();
    IM_CHECK(!pids.empty());
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    const WorkerRequests& requests = stage.main_window.requests();
    IM_CHECK(holds_within(ctx, seconds(20), [&] { return !requests.death_notice().empty(); }));
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_RightArrow);
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().selection.head, 2);
    IM_CHECK(answered(ctx, kMap, "rope"));
    IM_CHECK_EQ(stage.of(kMap, "rope").answer()->result.head, 2);
  });
}

// A training from the form, a small one, to its end; then its model in all views.
TEST_F(FirstHour, AModelIsTrainedAndOpened) {
  live([](ImGuiTestContext* ctx) {
    RealStage& stage = real_stage(ctx);
    IM_CHECK(comes_forward(ctx, "jobs"));
    ctx->ItemClick("//###jobs/New training...");
    const auto& form = stage.main_window.requests().of(kJobForm);
    IM_CHECK(holds_within(ctx, kAnswer, [&] { return form.answers_now(); }));
    stage.main_window.edit().apply("a small one", [](Session& s) {
      auto state = s.views.get<JobsState>();
      auto& model = state.run["model"];
      model["layers"] = 1, model["width"] = 32, model["heads"] = 2, model["kv_heads"] = 2;
      model["ffn_width"] = 32, model["context"] = 64;
      state.run["train"]["steps"] = 4, state.run["train"]["batch_tokens"] = 128;
      state.run["train"]["keep_steps"] = nlohmann::json::array();
      state.run["train"]["warmup_steps"] = 1, state.run["train"].erase("curriculum");
      state.run["eval"]["windows"] = 1;
      s.views.set(state);
    });
    IM_CHECK(holds_within(ctx, kAnswer, [&] {
      return form.answers_now() && form.answer()->result.config["train"]["steps"] == 4;
    }));
    IM_CHECK_STR_EQ(form.answer()->result.problem.c_str(), "");
    ctx->Yield(2);
    ctx->ItemClick("//###jobs/Train");
    const auto dir = [&] { return stage.session().views.get<JobsState>().dir; };
    IM_CHECK(holds_within(ctx, kAnswer, [&] { return !dir().empty(); }));
    IM_CHECK(holds_within(ctx, kAnswer, [&] {
      const auto* job = stage.of(kJob, dir()).answer();
      return job && !protocol::is_live(job->result.state);
    }));
    const protocol::JobStatus job = stage.of(kJob, dir()).answer()->result;
    IM_CHECK_STR_EQ(job.state.c_str(), "done");
    IM_CHECK_EQ(job.curve.size(), std::size_t{4});
    ctx->Yield(2);
    ctx->ItemClick("//###jobs/**/Open the model");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(selected_model(stage.session()).c_str(), dir().c_str());
    IM_CHECK(answered(ctx, kHeads, dir()));
    IM_CHECK_EQ(stage.of(kHeads, dir()).answer()->result.rows.size(), std::size_t{2});
  });
}

}  // namespace
}  // namespace phasescope::app
