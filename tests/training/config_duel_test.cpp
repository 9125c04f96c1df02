// Duels of run configurations: trained as jobs, cut and continued, refused.
#include "training/jobs/config_duel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/error.h"
#include "formats/json.h"
#include "protocol/json_form.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/job_folder.h"
#include "training/start/start_model.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

class ConfigDuels : public testing::Test {
 protected:
  ConfigDuel duel_in(const char* name, std::int64_t steps = 2) const {
    ConfigDuel duel{.dir = folder_.path() / name,
                    .a = small_run(folder_.path(), steps, {{"key", "none"}}),
                    .b = small_run(folder_.path(), steps, {{"key", "kerple_log"}}),
                    .seeds = {1, 2, 3},
                    .read_with = {{"length", 32}},
                    .program = PHASESCOPE_JOB_RUNNER};
    duel.a.eval.every = duel.b.eval.every = 0;
    return duel;
  }

  // The seed of the job that was trained stands in its configuration.
  static std::int64_t seed_of(const fs::path& dir) {
    return formats::json_from_file(dir / "config.json").at("train").at("seed").get<std::int64_t>();
  }

  // Two texts; what a seed makes of them is known, and all of it says that A is better.
  MeasureSeed measuring() {
    return [this](const fs::path& a, const fs::path& b, protocol::Progress&) {
      if (measured_ == most_) throw protocol::Cancelled();
      ++measured_;
      EXPECT_EQ(read_job(a, CurveDetail::none).state, "done");
      EXPECT_EQ(read_job(b, CurveDetail::none).state, "done");
      EXPECT_EQ(seed_of(a), seed_of(b));
      EXPECT_NE(fs::path(a), fs::path(b));
      const double shift = 0.001 * double(seed_of(a));
      return SeedMeasured{.names = {"x", "y"}, .a = {1 + shift, 2}, .b = {3, 4}};
    };
  }

  std::string refusal(const ConfigDuel& duel) {
    try {
      duel_of_configs(formats::real_file_system(), duel, measuring(), silent_);
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    return "";
  }

  TemporaryFolder folder_;
  protocol::NoProgress silent_;
  int measured_ = 0, most_ = 100;
};

TEST_F(ConfigDuels, StopWhenTheSeedsDecideAndGoOnAsTheyWere) {
  const auto whole =
      duel_of_configs(formats::real_file_system(), duel_in("whole"), measuring(), silent_);
  EXPECT_EQ(whole.unit, "seeds");
  EXPECT_EQ(whole.verdict, "A better");
  EXPECT_EQ(whole.n, 3);
  EXPECT_EQ(whole.texts, 2);
  // Kerple's own tensors are B's alone; all others start alike.
  EXPECT_GT(whole.shared.size(), 10u);
  ASSERT_FALSE(whole.not_shared.empty());
  for (const std::string& name : whole.not_shared) EXPECT_TRUE(name.ends_with("(B alone)")) << name;

  measured_ = 0, most_ = 1;
  EXPECT_THROW(duel_of_configs(formats::real_file_system(), duel_in("cut"), measuring(), silent_),
               protocol::Cancelled);
  most_ = 100;
  const auto cut =
      duel_of_configs(formats::real_file_system(), duel_in("cut"), measuring(), silent_);
  EXPECT_EQ(measured_, 3);  // the first seed is not measured twice
  EXPECT_EQ(protocol::to_json_form(cut.path), protocol::to_json_form(whole.path));
  EXPECT_EQ(protocol::to_json_form(cut.units), protocol::to_json_form(whole.units));
}

TEST_F(ConfigDuels, GoOnWithLossesThatAreNoNumbers) {
  const MeasureSeed broken = [this](const fs::path&, const fs::path&, protocol::Progress&) {
    ++measured_;
    return SeedMeasured{.names = {"x", "y"}, .a = {1, std::nan("")}, .b = {3, 4}};
  };
  ConfigDuel duel = duel_in("broken");
  duel.seeds = {1, 2};
  const auto whole = duel_of_configs(formats::real_file_system(), duel, broken, silent_);
  EXPECT_EQ(whole.verdict, "undecided");
  const auto again = duel_of_configs(formats::real_file_system(), duel, broken, silent_);
  EXPECT_EQ(measured_, 2);
  EXPECT_EQ(protocol::to_json_form(again), protocol::to_json_form(whole));
}

TEST_F(ConfigDuels, RefuseOtherBatchesAndOtherDuels) {
  ConfigDuel duel = duel_in("d");
  duel.b.train.batch_tokens = 256;
  EXPECT_NE(refusal(duel).find("they differ in train.batch_tokens"), std::string::npos);
  EXPECT_FALSE(fs::exists(duel.dir));
  duel = duel_in("d");
  most_ = 0;
  EXPECT_THROW(duel_of_configs(formats::real_file_system(), duel, measuring(), silent_),
               protocol::Cancelled);
  duel.a.train.learning_rate = 1e-4;
  EXPECT_NE(refusal(duel).find("another duel, which differs in: a.train.learning_rate"),
            std::string::npos);
}

// What two trainings begin with is what stands in the models that they name.
TEST_F(ConfigDuels, TellWhichWeightsOfOpenedModelsAreAlike) {
  const auto file = folder_.path() / "tuned.json";
  const auto tuned = [&](const char* model) {
    std::ofstream(file) << nlohmann::json{{"start", {{"model", model}}},
                                          {"data", {{"corpus", folder_.path() / "text.txt"}}},
                                          {"train", {{"steps", 1}, {"batch_tokens", 256}}},
                                          {"eval", {{"every", 0}}}};
    return whole_run_config(file);
  };
  ConfigDuel duel = duel_in("d");
  duel.seeds = {1};
  duel.a = tuned("alibi"), duel.b = tuned("none");
  // The models' own, where the file has no such section.
  EXPECT_EQ(duel.a.encoding.at("key"), "alibi");
  EXPECT_EQ(duel.b.encoding.at("key"), "none");
  const auto other = duel_of_configs(formats::real_file_system(), duel, measuring(), silent_);
  // Norms alone might be equal by chance; matrices that were trained apart are not.
  EXPECT_TRUE(std::ranges::none_of(
      other.shared, [](const std::string& name) { return name.ends_with("proj.weight"); }));
  EXPECT_TRUE(std::ranges::any_of(other.not_shared, [](const std::string& name) {
    return name.ends_with("proj.weight (other weights)");
  }));
  duel.dir = folder_.path() / "same", duel.b = duel.a;
  const auto same = duel_of_configs(formats::real_file_system(), duel, measuring(), silent_);
  EXPECT_TRUE(same.not_shared.empty());
  EXPECT_GT(same.shared.size(), 10u);
}

// Its trainings would stand in the folder of another one.
TEST_F(ConfigDuels, AFolderOfAJobIsLeftAsItIs) {
  const ConfigDuel duel = duel_in("job");
  fs::create_directories(duel.dir);
  std::ofstream(duel.dir / "config.json") << to_json(duel.a);
  write_status(formats::real_file_system(), duel.dir, {.state = "done"});
  EXPECT_NE(refusal(duel).find("the folder holds a job"), std::string::npos);
  EXPECT_FALSE(fs::exists(duel.dir / "duel.json"));
  EXPECT_FALSE(fs::exists(duel.dir / "units.jsonl"));
}

// A cancel that comes while both train leaves them saved and stopped.
TEST_F(ConfigDuels, ACancelStopsTheTrainings) {
  struct Cancelling final : protocol::Progress {
    void progress(double, std::string_view) override {}
    bool cancelled() const override { return true; }
  } cancelling;
  const ConfigDuel duel = duel_in("d", 100'000);
  EXPECT_THROW(duel_of_configs(formats::real_file_system(), duel, measuring(), cancelling),
               protocol::Cancelled);
  int stopped = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(duel.dir)) {
    if (!is_job(entry.path())) continue;
    EXPECT_FALSE(job_is_running(entry.path()));
    ++stopped;
  }
  EXPECT_EQ(stopped, 2);
}

}  // namespace
}  // namespace phasescope::training
