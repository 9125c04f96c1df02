// Evaluations as jobs, run in this process.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "formats/json.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/eval.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/eval_rows.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class EvalJob : public testing::Test {
 protected:
  EvalJob() {
    const RunConfig config = small_run(folder_.path(), 1);
    model::ModelConfig model = model_config_of(config);
    model.init_std = 0.3;
    const auto random = model::random_model(model, 1);
    fs::create_directory(folder_.path() / "m");
    model::save_model(formats::real_file_system(), folder_.path() / "m", random->config(),
                      random->encoding(), random->decoder.weights());
    request_ = {{"task", "perplexity"},
                {"models", {(folder_.path() / "m").string()}},
                {"lengths", {32}},
                {"trials", 3},
                {"corpus", config.data.corpus}};
  }

  fs::path job(const json& changes) {
    json request = request_;
    request.update(changes);
    const fs::path dir = folder_.path() / ("j" + std::to_string(++jobs_));
    fs::create_directories(dir);
    std::ofstream(dir / "config.json") << json{{"eval_job", request}};
    return dir;
  }

  protocol::EvalResult result(const json& changes) {
    const fs::path dir = job(changes);
    EXPECT_EQ(run_job(dir), 0);
    return protocol::from_json_form<protocol::EvalResult>(
        formats::json_from_file(dir / "result.json"));
  }

  TemporaryFolder folder_;
  json request_;
  int jobs_ = 0;
};

TEST_F(EvalJob, Risk2_HasTheOptionsItWasAskedWith) {  // 17.A7
  const auto plain = result(json::object());
  EXPECT_EQ(plain.provenance.at(0).dtype, "f32");
  const auto narrow = result({{"dtype", "bf16"}});
  EXPECT_EQ(narrow.provenance.at(0).dtype, "bf16");
  EXPECT_NE(narrow.rows.at(0).value, plain.rows.at(0).value);
  EXPECT_EQ(result({{"seed", 5}}).rows.at(0).seed, 5);
  EXPECT_EQ(result({{"backend", "plain"}}).provenance.at(0).kernel, "plain");
}

// Paths are meant from where the job was started.
TEST_F(EvalJob, Risk13_FindsAModelFromTheFolderItWasStartedIn) {
  const auto found = result({{"models", {"./m"}}, {"folder", folder_.path().string()}});
  EXPECT_EQ(found.rows.at(0).model, "./m");
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Ended after some texts, and in the middle of a line: the others are read, and every number of the
// result is that of an unbroken run.
TEST_F(EvalJob, Risk13_PerplexityGoesOnWithItsTexts) {
  for (const char* window : {"disjoint", "per_position", "last_k:16"}) {
    const fs::path dir = job({{"lengths", {16, 32}}, {"window", window}});
    ASSERT_EQ(run_job(dir), 0);
    const json whole = formats::json_from_file(dir / "result.json");
    const auto lines = lines_of(dir / "rows.jsonl");
    ASSERT_EQ(lines.size(), std::string(window) == "per_position" ? 3u : 6u) << window;
    // All but the text in the middle, whose line a kill tore.
    std::ofstream(dir / "rows.jsonl") << lines[0] + "\n" + lines[1].substr(0, 50);
    fs::remove(dir / "result.json");
    ASSERT_EQ(run_job(dir), 0);
    const json again = formats::json_from_file(dir / "result.json");
    for (const char* part : {"rows", "positions"}) {
      EXPECT_EQ(again.at(part), whole.at(part)) << window << " " << part;
    }
    EXPECT_EQ(lines_of(dir / "rows.jsonl").size(), lines.size() + 1) << window;
    EXPECT_EQ(lines_of(dir / "rows.jsonl").back(), lines.back()) << window;
  }
}

// Whichever bit of a line a disk has changed: what stands there is measured again, or is what was
// measured.
TEST(RowsOfAnEval, OfWhichABitIsOtherwiseAreNotTaken) {
  const TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  const fs::path path = folder.path() / "rows.jsonl";
  const json one = {{"counted", {1.25, 3}}, {"nan", "nan"}}, other = {0.1, 2e-300, nullptr};
  {
    EvalRows rows(files, path);
    rows.add("one", one), rows.add("other", other);
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(*EvalRows(files, path).found("one"), one);
  std::size_t measured_again = 0;
  for (std::size_t bit = 0; bit < 8 * lines[0].size(); ++bit) {
    std::string changed = lines[0];
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(path) << changed << "\n" << lines[1] << "\n";
    const EvalRows rows(files, path);
    if (rows.found("one") == nullptr) {
      ++measured_again;
    } else {
      EXPECT_EQ(*rows.found("one"), one) << changed;
    }
    ASSERT_NE(rows.found("other"), nullptr) << changed;
    EXPECT_EQ(*rows.found("other"), other);
  }
  EXPECT_GT(measured_again, 6 * lines[0].size());
  // Jobs of before go on with what they have.
  std::ofstream(path) << R"({"key": "one", "measured": [1]})"
                      << "\n";
  EXPECT_EQ(*EvalRows(files, path).found("one"), json({1}));
}

bool within(int seconds, const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

TEST_F(EvalJob, Risk13_ObeysPauseAndResume) {  // 17.A7
  const fs::path dir = job(json::object());
  write_request(formats::real_file_system(), dir, JobRequest::pause);
  std::thread running([&] { run_job(dir); });
  const auto state = [&] { return is_job(dir) ? read_job(dir, CurveDetail::none).state : ""; };
  EXPECT_TRUE(within(30, [&] { return state() == "paused"; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(state(), "paused");
  EXPECT_FALSE(fs::exists(dir / "result.json"));
  write_request(formats::real_file_system(), dir, JobRequest::resume);
  running.join();
  EXPECT_EQ(state(), "done");
  EXPECT_TRUE(fs::exists(dir / "result.json"));
}

}  // namespace
}  // namespace phasescope::training
