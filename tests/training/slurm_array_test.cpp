// Sweeps as arrays of Slurm's, with programs of its names that run the script's elements here.
#include "training/jobs/slurm_array.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "formats/error.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// sbatch reads the script's own lines, gives the array number 41, and runs each element as Slurm
// does: by bash, with SLURM_ARRAY_TASK_ID. squeue tells of those whose process is there.
constexpr const char* kSbatch = R"sh(#!/bin/bash
[ "$1" = --parsable ] || exit 1
echo "$2" >>"$FAKE_SLURM/submitted"
grep -q -- '--partition=none' "$2" && { echo "invalid partition specified" >&2; exit 1; }
elements=$(sed -n 's/^#SBATCH --array=\(.*\)%.*/\1/p' "$2" | tr , '\n')
for range in $elements; do
  for n in $(seq "${range%-*}" "${range#*-}"); do
    SLURM_ARRAY_TASK_ID=$n setsid bash "$2" </dev/null >/dev/null 2>&1 &
    echo "$!" >"$FAKE_SLURM/element_$n"
  done
done
echo "41;cluster"
)sh";
constexpr const char* kSqueue = R"sh(#!/bin/bash
for file in "$FAKE_SLURM"/element_*; do
  [ -f "$file" ] || continue
  kill -0 "$(cat "$file")" 2>/dev/null && echo "41_${file##*_} RUNNING"
done
exit 0
)sh";

class SlurmArrays : public testing::Test {
 protected:
  SlurmArrays() {
    const fs::path bin = folder_.path() / "bin";
    write_program(bin / "sbatch", kSbatch);
    write_program(bin / "squeue", kSqueue);
    path_ = std::getenv("PATH");
    ::setenv("PATH", (bin.string() + ":" + path_).c_str(), 1);
    ::setenv("FAKE_SLURM", bin.c_str(), 1);
  }
  ~SlurmArrays() override {
    within([&] { return array_queue(sweep()).states.empty(); });
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("FAKE_SLURM");
  }

  static void write_program(const fs::path& file, const char* text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    ::chmod(file.c_str(), 0755);
  }

  fs::path sweep() const { return folder_.path() / "it's a sweep"; }

  // Prepared cells of so many steps.
  SlurmArray array_of(int cells, std::int64_t steps) const {
    SlurmArray array{.folder = sweep(), .at_once = 2, .program = PHASESCOPE_JOB_RUNNER};
    for (int n = 0; n < cells; ++n) {
      array.cells.push_back(sweep() / ("cell-" + std::to_string(n)));
      RunConfig config = small_run(folder_.path(), steps);
      config.train.seed = n + 1;
      prepare_training(formats::real_file_system(),
                       {.dir = array.cells.back(), .config = to_json(config)});
    }
    return array;
  }

  template <class Condition>
  static bool within(Condition&& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  static std::string state_of(const fs::path& cell) {
    return is_job(cell) ? read_job(cell, CurveDetail::none).state : "new";
  }

  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(SlurmArrays, TheScriptNamesElementsAndOptions) {
  SlurmArray array{.folder = "/a b/c", .at_once = 3, .threads = 4};
  array.options = {"--partition=short", "--time=1:00:00"};
  const std::string script = array_script(array, {0, 1, 2, 5, 7, 8});
  for (const char* line :
       {"#!/bin/bash\n", "\n#SBATCH --array=0-2,5,7-8%3\n", "\n#SBATCH --cpus-per-task=4\n",
        "\n#SBATCH --requeue\n", "\n#SBATCH --partition=short\n", "\n#SBATCH --time=1:00:00\n",
        "'/a b/c/slurm/cells.txt'"}) {
    EXPECT_NE(script.find(line), std::string::npos) << line << "\n" << script;
  }
  array.options = {"--a\nrm -rf x"};
  EXPECT_THROW(array_script(array, {0}), formats::Error);
}

// Every cell is trained by its element, the one that is left out is not, and the log is the job's.
TEST_F(SlurmArrays, RunsTheCellsThatAreNamed) {
  const SlurmArray array = array_of(3, 3);
  EXPECT_EQ(state_of(array.cells[0]), "new");
  const SlurmQueue queue = submit_array(formats::real_file_system(), array, {0, 2});
  EXPECT_EQ(queue.id, "41");
  ASSERT_TRUE(within([&] { return array_queue(sweep()).states.empty(); }));
  EXPECT_EQ(state_of(array.cells[0]), "done");
  EXPECT_EQ(state_of(array.cells[1]), "new");
  EXPECT_EQ(state_of(array.cells[2]), "done");
  EXPECT_NE(text_of(array.cells[2] / "log.txt").find("begins at step 0"), std::string::npos);
}

// While it is in the queue nothing is submitted again; ended by SIGTERM the job saves, and the next
// array goes on from there.
TEST_F(SlurmArrays, ASignalSavesAndTheNextArrayGoesOn) {
  const SlurmArray array = array_of(1, 100'000);
  submit_array(formats::real_file_system(), array, {0});
  ASSERT_TRUE(within([&] {
    return is_job(array.cells[0]) && read_job(array.cells[0], CurveDetail::none).step > 3;
  }));
  EXPECT_EQ(submit_array(formats::real_file_system(), array, {0}).states.at(0), "RUNNING");
  const fs::path bin = folder_.path() / "bin";
  EXPECT_EQ(text_of(bin / "submitted"), (sweep() / "slurm/array.sh").string() + "\n");
  const auto end_it = [&] {
    EXPECT_EQ(std::system(("kill -TERM " + text_of(bin / "element_0")).c_str()), 0);
    EXPECT_TRUE(within([&] { return array_queue(sweep()).states.empty(); }));
    EXPECT_EQ(state_of(array.cells[0]), "cancelled");
  };
  end_it();
  const auto ended = read_job(array.cells[0], CurveDetail::none);
  EXPECT_FALSE(ended.checkpoints.empty());
  submit_array(formats::real_file_system(), array, {0});
  EXPECT_TRUE(
      within([&] { return read_job(array.cells[0], CurveDetail::none).step > ended.step + 2; }));
  end_it();
  EXPECT_NE(text_of(array.cells[0] / "log.txt").find("goes on from checkpoint"), std::string::npos);
}

TEST_F(SlurmArrays, SayWhatSbatchSaysAndWhereItIsNot) {
  SlurmArray array = array_of(1, 3);
  array.options = {"--partition=none"};
  const auto refusal = [&] {
    try {
      submit_array(formats::real_file_system(), array, {0});
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    return std::string();
  };
  EXPECT_NE(refusal().find("invalid partition specified"), std::string::npos) << refusal();
  EXPECT_EQ(array_queue(sweep()).id, "");
  fs::remove(folder_.path() / "bin/sbatch");
  ::setenv("PATH", (folder_.path() / "bin").c_str(), 1);
  EXPECT_NE(refusal().find("sbatch cannot be run"), std::string::npos) << refusal();
  ::setenv("PATH", path_.c_str(), 1);
}

}  // namespace
}  // namespace phasescope::training
