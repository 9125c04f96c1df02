// The window before there is a worker: what was recorded is shown, the rest waits, and all goes to
// the worker as soon as there is one.
#include "app/window/recorded_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <thread>

#include "app/window/commands.h"
#include "app/window/main_window.h"
#include "formats/error.h"
#include "tests/app/made_up_worker.h"
#include "tests/temporary_folder.h"
#include "tests/widgets/headless_imgui.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using phasescope::testing::HeadlessImGui;

// A build folder with a worker or without.
class BuildFolder {
 public:
  BuildFolder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "bin");
  }
  ~BuildFolder() { fs::remove_all(folder_); }

  void tell(const std::string& state, int done, std::int64_t pid = getpid()) {
    std::ofstream(folder_ / "worker_build.json")
        << protocol::to_json_form(WorkerBuild{state, done, 117, "", "build.log", pid});
  }
  void finish() {
    std::ofstream(worker()) << "a program";
    tell("done", 117);
  }
  fs::path worker() const { return folder_ / "bin" / "phasescope-worker"; }
  WorkerWatch watch() const { return WorkerWatch(worker()); }

 private:
  fs::path folder_ = fs::path(::testing::TempDir()) / ("build_" + std::to_string(getpid()));
};

TEST(WorkerWatch, TellsHowFarTheBuildIs) {
  BuildFolder build;
  EXPECT_FALSE(build.watch().awaited()) << "nobody builds a worker";
  build.tell("building", 43);
  WorkerWatch watch = build.watch();
  EXPECT_TRUE(watch.awaited());
  EXPECT_EQ(watch.words(), "The worker is being built, 43 of 117");
  build.finish();
  EXPECT_FALSE(build.watch().awaited());
}

TEST(WorkerWatch, APartOfAProgramIsNoWorkerAndAKilledBuildIsNone) {
  BuildFolder build;
  build.finish();
  build.tell("building", 43);
  EXPECT_TRUE(build.watch().awaited()) << "the program is being linked";
  build.tell("building", 43, std::numeric_limits<pid_t>::max());
  EXPECT_FALSE(build.watch().awaited());
}

TEST(WorkerWatch, AFailedBuildSaysWhereTheReasonIs) {
  BuildFolder build;
  build.tell("failed", 43);
  WorkerWatch watch = build.watch();
  EXPECT_TRUE(watch.awaited());
  EXPECT_EQ(watch.words(), "The worker could not be built; build.log has the reason");
}

// One link, recorded until the build has finished.
struct Recorded {
  BuildFolder build;
  MadeUpWorker* live = nullptr;
  std::unique_ptr<RecordedLink> link;

  explicit Recorded(std::shared_ptr<const Recording> recording) {
    build.tell("building", 43);
    auto worker = std::make_unique<MadeUpWorker>();
    live = worker.get();
    link = std::make_unique<RecordedLink>(std::move(recording), std::move(worker), build.watch());
  }
  void finish_build() {
    build.finish();
    std::this_thread::sleep_for(std::chrono::milliseconds(600));  // it looks twice a second
  }
};

std::shared_ptr<const Recording> recording_of(const std::string& method,
                                              const nlohmann::json& params) {
  auto recording = std::make_shared<Recording>();
  recording->keep(method, params, {{{"recorded", true}}, {}});
  return recording;
}

// What came of one request.
struct Outcome {
  nlohmann::json result;
  std::string error, progress;
  protocol::Callbacks callbacks() {
    return {[this](protocol::Reply reply) { result = std::move(reply.result); },
            [this](const protocol::ErrorInfo& info) { error = info.code; },
            [this](double, const std::string& text) { progress = text; }};
  }
};

TEST(RecordedLink, AnswersWhatWasRecordedAndKeepsTheRestForTheWorker) {
  Recorded recorded(recording_of("map", {{"model", "rope"}}));
  Outcome known, unknown, cancelled;
  recorded.link->start();
  recorded.link->submit("map", {{"model", "rope"}, {"size", {99, 99}}}, known.callbacks(), "a");
  recorded.link->submit("info", {{"model", "rope"}}, unknown.callbacks(), "b");
  const auto id = recorded.link->submit("info", {{"model", "tapa"}}, cancelled.callbacks(), "c");
  recorded.link->cancel(id);
  recorded.link->drain();
  EXPECT_EQ(known.result, (nlohmann::json{{"recorded", true}}));
  EXPECT_TRUE(unknown.result.is_null());
  EXPECT_EQ(unknown.progress, "waiting for the worker");
  EXPECT_EQ(cancelled.error, "cancelled");
  EXPECT_EQ(recorded.link->recorded(), "The worker is being built, 43 of 117");
  EXPECT_EQ(recorded.live->starts(), 0);

  recorded.finish_build();
  recorded.link->drain();
  EXPECT_EQ(recorded.link->recorded(), "");
  EXPECT_EQ(recorded.live->starts(), 1);
  EXPECT_EQ(recorded.live->counts(), (std::map<std::string, int>{{"info", 1}}));
}

TEST(Recording, ComesBackFromItsFile) {
  const fs::path file = fs::path(::testing::TempDir()) / "recording.safetensors";
  Recording recording;
  const std::string inside = (assets_folder() / "models" / "rope").string();
  recording.keep("map", {{"model", "rope"}},
                 {{{"path", inside}, {"loss", 0.1}},
                  {protocol::TensorRef::own<float>("map", {2, 2}, {1, 2, 3, 4})}});
  recording.write(formats::real_file_system(), file);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(bytes.find(assets_folder().string()), std::string::npos) << "another machine's folder";

  const Recording again = Recording::read(file);
  const protocol::Reply* reply = again.find("map", {{"model", "rope"}});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->result, (nlohmann::json{{"path", inside}, {"loss", 0.1}}));
  EXPECT_EQ(reply->tensor("map").values<float>()[3], 4.0F);
  EXPECT_EQ(again.find("map", {{"model", "tapa"}}), nullptr);
  fs::remove(file);
}

TEST(Recording, WhatIsNoneIsRefusedInASentence) {
  const fs::path model = assets_folder() / "models" / "rope" / "model.safetensors";
  try {
    Recording::read(model);
    FAIL() << "a checkpoint is no recording";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_NE(error.message().find("no recording"), std::string::npos) << error.message();
  }
}

// The window over the bundled recording, drawn a while with each view in front.
class FirstSession : public ::testing::Test {
 protected:
  void draw(int frames) {
    for (int n = 0; n < frames; ++n) {
      gui_.begin_frame(0.1F);
      main_window_.draw();
      gui_.end_frame();
    }
  }
  void draw_every_view() {
    main_window_.start_asking();
    for (const std::string& id : main_window_.view_ids()) {
      show_view(main_window_.context(), id);
      draw(12);
      // Large answers are read beside the window.
      for (int n = 0; n < 200 && main_window_.requests().waiting() > 0; ++n) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        draw(1);
      }
      EXPECT_EQ(main_window_.requests().waiting(), 0)
          << "the view '" << id << "' asks what was not recorded; ./dev record makes it again";
    }
  }

  HeadlessImGui gui_;
  Recorded recorded_{std::make_shared<const Recording>(
      Recording::read(assets_folder() / "first_session.safetensors"))};
  MainWindow main_window_{default_session(), *recorded_.link, *recorded_.link};
};

// Written with one answer and read again; `change` may damage the file between.
Recording recording_with(const std::function<void(std::string&)>& change) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "recording.safetensors";
  Recording recording;
  recording.keep("cost", {{"model", "rope"}}, {{{"text", std::string(70000, 'x')}}, {}});
  formats::FileSystem& files = formats::real_file_system();
  recording.write(files, path);
  std::stringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  std::string bytes = whole.str();
  change(bytes);
  std::ofstream(path, std::ios::binary) << bytes;
  return Recording::read(path);
}

TEST(Recording, LongAnswersAreReadAsTheyWereWritten) {
  const auto recording = recording_with([](std::string&) {});
  const protocol::Reply* reply = recording.find("cost", {{"model", "rope"}});
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->result.at("text"), std::string(70000, 'x'));
}

TEST(Recording, ThatIsDamagedIsRefused) {
  const auto flipped = [](std::string& bytes) { bytes[bytes.size() - 20] ^= 0x55; };
  const auto longer = [](std::string& bytes) {
    const auto at = bytes.find("answers_size\":\"");
    ASSERT_NE(at, std::string::npos);
    bytes[at + 15] = '9';
  };
  EXPECT_THROW(recording_with(flipped), formats::Error);
  EXPECT_THROW(recording_with(longer), formats::Error);
}

TEST_F(FirstSession, IsRecordedWhole) {
  draw_every_view();
  EXPECT_LE(main_window_.seconds_between_polls(), 1)
      << "the worker is looked for without anybody's input";
  for (const auto& notice : main_window_.window().notices) {
    EXPECT_FALSE(notice.error) << notice.text;
  }
}

TEST_F(FirstSession, GoesLiveWhenTheWorkerIsThere) {
  draw_every_view();
  EXPECT_TRUE(recorded_.live->counts().empty());
  recorded_.finish_build();
  draw(12);
  EXPECT_EQ(main_window_.requests().recorded(), "");
  // Views behind others ask when they are looked at.
  const auto& counts = recorded_.live->counts();
  EXPECT_TRUE(counts.contains("text.read")) << nlohmann::json(counts);
  EXPECT_TRUE(counts.contains("model.info")) << nlohmann::json(counts);
}

}  // namespace
}  // namespace phasescope::app
