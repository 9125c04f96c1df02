#include "training/checkpoint.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "formats/faulty_file_system.h"
#include "tests/temporary_folder.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using formats::FaultyFileSystem;
using formats::UnsyncedData;

std::string content_of(std::int64_t step) {
  return "weights of step " + std::to_string(step) + std::string(5000, 'w');
}

void write_synced(formats::FileSystem& files, const fs::path& path, const std::string& text) {
  auto file = files.create(path);
  file->write_text(text);
  file->sync();
  file->close();
}

SaveOutcome save(formats::FileSystem& files, const fs::path& root, std::int64_t step,
                 CheckpointOptions options = {}) {
  options.state = {{"step", step}};
  return save_checkpoint(
      files, root, step,
      [&](formats::FileSystem& hashing, const fs::path& folder) {
        write_synced(hashing, folder / "model.bin", content_of(step));
        write_synced(hashing, folder / "optimiser.bin", "moments " + std::to_string(step));
      },
      options);
}

// The newest checkpoint is whole: its files hold what was saved.
void expect_content(const formats::FileSystem& files, const Checkpoint& checkpoint) {
  EXPECT_EQ(files.read(checkpoint.folder / "model.bin"), content_of(checkpoint.step));
  EXPECT_EQ(checkpoint.state.at("step"), checkpoint.step);
}

TEST(Checkpoint, IsFoundWithItsState) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  EXPECT_FALSE(find_newest_checkpoint(files, folder.path()).newest);
  EXPECT_EQ(save(files, folder.path(), 20).kind, SaveOutcome::Kind::saved);
  const FoundCheckpoint found = find_newest_checkpoint(files, folder.path());
  ASSERT_TRUE(found.newest);
  EXPECT_EQ(found.newest->step, 20);
  expect_content(files, *found.newest);
  EXPECT_EQ(files.read(folder.path() / "latest"), "step-20\n");
}

// What stands in the place of a name keeps no old checkpoints on the disk.
TEST(Checkpoint, OldOnesGoWhereTheNewestCannotBeNamed) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  fs::create_directories(folder.path() / "latest/somebody's");
  for (const std::int64_t step : {10, 20, 30}) {
    const SaveOutcome outcome = save(files, folder.path(), step);
    EXPECT_EQ(outcome.kind, SaveOutcome::Kind::saved);
    EXPECT_NE(outcome.message.find("tidying up failed"), std::string::npos) << outcome.message;
  }
  EXPECT_EQ(checkpoint_steps(files, folder.path()), (std::vector<std::int64_t>{20, 30}));
}

TEST(Checkpoint, KeepsTheNewestTwoAndThoseNamed) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  for (std::int64_t step = 10; step <= 60; step += 10) {
    CheckpointOptions options;
    options.keep_steps = {20};
    EXPECT_EQ(save(files, folder.path(), step, options).message, "");
  }
  EXPECT_EQ(checkpoint_steps(files, folder.path()), (std::vector<std::int64_t>{20, 50, 60}));
}

// The one that is the best stays until a better one is there.
TEST(Checkpoint, KeepsTheBestAndNamesIt) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  const auto save_with_best = [&](std::int64_t step, std::int64_t best) {
    CheckpointOptions options;
    options.best = best;
    EXPECT_EQ(save(files, folder.path(), step, options).message, "");
  };
  EXPECT_FALSE(best_checkpoint(files, folder.path()));
  save_with_best(10, 0);
  for (std::int64_t step = 20; step <= 60; step += 10) save_with_best(step, 20);
  EXPECT_EQ(checkpoint_steps(files, folder.path()), (std::vector<std::int64_t>{20, 50, 60}));
  EXPECT_EQ(files.read(folder.path() / "best"), "step-20\n");
  // A better one that could not be saved: the old one is the best there is.
  save_with_best(80, 70);
  EXPECT_EQ(best_checkpoint(files, folder.path()), 20);
  EXPECT_EQ(checkpoint_steps(files, folder.path()), (std::vector<std::int64_t>{20, 60, 80}));
  save_with_best(90, 90);
  EXPECT_EQ(best_checkpoint(files, folder.path()), 90);
  EXPECT_EQ(checkpoint_steps(files, folder.path()), (std::vector<std::int64_t>{80, 90}));
}

// Whatever a save that keeps a new best one is cut off by, the file names one that is whole.
TEST(Checkpoint, TheBestIsWholeAfterAPowerCutAnywhere) {
  for (const auto fate :
       {UnsyncedData::lost, UnsyncedData::names_kept, UnsyncedData::half_written}) {
    bool lost = true;
    for (std::int64_t operation = 1; lost; ++operation) {
      TemporaryFolder folder;
      FaultyFileSystem files(folder.path());
      CheckpointOptions options;
      options.best = 10;
      for (const std::int64_t step : {10, 20, 30}) save(files, folder.path(), step, options);
      files.lose_power_after(operation);
      options.best = 40;
      save(files, folder.path(), 40, options);
      lost = files.power_lost();
      files.restart(fate);
      const auto best = best_checkpoint(files, folder.path());
      ASSERT_TRUE(best == 10 || best == 40) << operation;
      EXPECT_NO_THROW(verify_checkpoint(files, checkpoint_folder(folder.path(), *best)))
          << operation << ", step " << *best;
    }
  }
}

// Reads nothing below a folder, as a disk with a bad sector or a lost network.
class Unreadable final : public formats::FaultyFileSystem {
 public:
  Unreadable(const fs::path& root, std::string name)
      : FaultyFileSystem(root), name_(std::move(name)) {}
  std::string read(const fs::path& path) const override {
    if (path.parent_path().filename() == name_) throw formats::FileError("cannot read", path, EIO);
    return FaultyFileSystem::read(path);
  }

 private:
  std::string name_;
};

// KB in memory now, or at most since the last clear_refs (proc(5)).
long kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stol(line.substr(key.size() + 1));
  }
  return 0;
}

// Files of any size are hashed as they are written, and read back in pieces.
TEST(Checkpoint, Risk5_ASaveNeedsNotItsSizeInMemory) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  constexpr int kPieces = 96;  // of 1 MiB
  std::ofstream("/proc/self/clear_refs") << "5";
  const long before = kilobytes("VmRSS");
  const SaveOutcome saved =
      save_checkpoint(files, folder.path(), 1,
                      [&](formats::FileSystem& hashing, const fs::path& into) {
                        const std::string piece(std::size_t{1} << 20, 'w');
                        auto file = hashing.create(into / "model.bin");
                        for (int n = 0; n < kPieces; ++n) file->write_text(piece);
                        file->sync();
                        file->close();
                      },
                      {});
  EXPECT_EQ(saved.message, "");
  EXPECT_EQ(find_newest_checkpoint(files, folder.path()).newest->step, 1);
  EXPECT_EQ(fs::file_size(folder.path() / "step-1/model.bin"), std::uintmax_t{kPieces} << 20);
  // A piece of 1 MiB, one of 256 KiB that is read, and what libraries keep.
  EXPECT_LT(kilobytes("VmHWM") - before, 16 * 1024);
}

// A checkpoint that cannot be read now may be whole: it is not deleted for it.
TEST(Checkpoint, Row35OneThatCannotBeReadStays_Risk7) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  save(files, folder.path(), 10);
  save(files, folder.path(), 20);
  Unreadable lost(folder.path(), "step-20");
  EXPECT_EQ(save(lost, folder.path(), 30).kind, SaveOutcome::Kind::saved);
  EXPECT_EQ(checkpoint_steps(files, folder.path()), (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_EQ(find_newest_checkpoint(files, folder.path()).newest->step, 30);
  expect_content(files, verify_checkpoint(files, folder.path() / "step-20"));
}

TEST(Checkpoint, ABrokenOneIsSkippedAndNamed) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  save(files, folder.path(), 10);
  save(files, folder.path(), 20);
  std::ofstream(folder.path() / "step-20/model.bin", std::ios::app) << "x";
  const FoundCheckpoint longer = find_newest_checkpoint(files, folder.path());
  ASSERT_TRUE(longer.newest);
  EXPECT_EQ(longer.newest->step, 10);
  ASSERT_EQ(longer.skipped.size(), 1u);
  EXPECT_NE(longer.skipped[0].find("step-20: model.bin has another size"), std::string::npos);

  std::string same_size = content_of(20);
  same_size[3] ^= 1;
  std::ofstream(folder.path() / "step-20/model.bin", std::ios::trunc) << same_size;
  const FoundCheckpoint changed = find_newest_checkpoint(files, folder.path());
  EXPECT_EQ(changed.newest->step, 10);
  EXPECT_NE(changed.skipped[0].find("SHA-256"), std::string::npos);

  // Saving the broken step again replaces it.
  EXPECT_EQ(save(files, folder.path(), 20).kind, SaveOutcome::Kind::saved);
  EXPECT_EQ(find_newest_checkpoint(files, folder.path()).newest->step, 20);
}

TEST(Checkpoint, AManifestOfAnotherVersionOrWithoutItsFieldsIsSkipped) {
  TemporaryFolder folder;
  formats::FileSystem& files = formats::real_file_system();
  save(files, folder.path(), 10);
  for (const char* manifest : {"{\"schema_version\": 2}", "{}", "[", ""}) {
    std::ofstream(folder.path() / "step-10/manifest.json", std::ios::trunc) << manifest;
    EXPECT_FALSE(find_newest_checkpoint(files, folder.path()).newest) << manifest;
  }
}

// reliability.md, row 27. For every single operation of the second save and every fate of unsynced
// data: what loads afterwards is whole, and it is the new one whenever the save had said so.
TEST(Checkpoint, Row27PowerLossAfterEachOperationLeavesAVerifiedOne) {
  for (const UnsyncedData fate :
       {UnsyncedData::lost, UnsyncedData::names_kept, UnsyncedData::half_written}) {
    bool lost = true;
    std::int64_t operation = 1;
    for (; lost; ++operation) {
      TemporaryFolder folder;
      FaultyFileSystem files(folder.path());
      const fs::path root = folder.path() / "checkpoints";
      files.make_directory(root);
      files.sync_directory(folder.path());
      save(files, root, 10);
      save(files, root, 20);
      ASSERT_EQ(checkpoint_steps(files, root).size(), 2u);

      files.lose_power_after(operation);
      const SaveOutcome outcome = save(files, root, 30);
      lost = files.power_lost();
      files.restart(fate);
      const FoundCheckpoint found = find_newest_checkpoint(files, root);
      ASSERT_TRUE(found.newest) << "operation " << operation;
      expect_content(files, *found.newest);
      EXPECT_GE(found.newest->step, 20) << "operation " << operation;
      if (outcome.kind == SaveOutcome::Kind::saved) {
        EXPECT_EQ(found.newest->step, 30) << "operation " << operation;
      }
      // The next save works and leaves no litter.
      EXPECT_EQ(save(files, root, 40).kind, SaveOutcome::Kind::saved);
      for (const std::string& name : files.list(root)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    }
    EXPECT_GT(operation, 15);  // the loop went through a whole save
  }
}

// reliability.md, row 26. A disk that fails once, or is full from some moment on, at every
// operation.
TEST(Checkpoint, Row26AFailingDiskLeavesOldOnesWholeAndNoLitter) {
  for (const int error : {ENOSPC, EIO, EROFS}) {
    bool failed = true;
    for (std::int64_t operation = 1; failed; ++operation) {
      TemporaryFolder folder;
      FaultyFileSystem files(folder.path());
      const fs::path root = folder.path() / "checkpoints";
      files.make_directory(root);
      save(files, root, 10);
      save(files, root, 20);

      files.fail_at(operation, error);
      const std::int64_t before = files.operations();
      const SaveOutcome outcome = save(files, root, 30);
      failed = files.operations() - before >= operation;
      files.clear_faults();
      const FoundCheckpoint found = find_newest_checkpoint(files, root);
      ASSERT_TRUE(found.newest);
      expect_content(files, *found.newest);
      EXPECT_TRUE(found.skipped.empty()) << found.skipped[0];
      EXPECT_EQ(found.newest->step, outcome.in_place() ? 30 : 20) << "operation " << operation;
      EXPECT_EQ(outcome.message.empty(), !failed) << "operation " << operation;
      if (outcome.kind == SaveOutcome::Kind::not_saved) {
        for (const std::string& name : files.list(root)) {
          EXPECT_FALSE(name.ends_with(".tmp")) << name << " after operation " << operation;
        }
        EXPECT_NE(outcome.message.find("not saved"), std::string::npos);
      }
      if (outcome.kind == SaveOutcome::Kind::maybe_not_durable) {
        EXPECT_NE(outcome.message.find("maybe not durable"), std::string::npos);
      }
    }
  }
}

TEST(Checkpoint, Row26ADiskThatStaysFullKeepsTheOldOnes) {
  for (std::int64_t operation = 1; operation <= 30; ++operation) {
    TemporaryFolder folder;
    FaultyFileSystem files(folder.path());
    const fs::path root = folder.path() / "checkpoints";
    files.make_directory(root);
    save(files, root, 10);
    save(files, root, 20);
    files.fail_from(operation, ENOSPC);
    save(files, root, 30);
    save(files, root, 40);
    files.clear_faults();
    const FoundCheckpoint found = find_newest_checkpoint(files, root);
    ASSERT_TRUE(found.newest);
    EXPECT_GE(found.newest->step, 20);
    expect_content(files, *found.newest);
    EXPECT_EQ(save(files, root, 50).message, "");
    for (const std::string& name : files.list(root)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  }
}

}  // namespace
}  // namespace phasescope::training
