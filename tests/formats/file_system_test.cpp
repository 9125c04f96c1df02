// The real file system, the faulty one, and what of rows 26 and 27 concerns a single file.

#include "formats/file_system.h"

#include <sys/stat.h>

#include <cerrno>

#include "formats/faulty_file_system.h"
#include "support.h"

namespace phasescope::formats {
namespace {

constexpr UnsyncedData kAllLosses[] = {UnsyncedData::lost, UnsyncedData::names_kept,
                                       UnsyncedData::half_written};

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  return real_file_system().list(folder);
}

TEST(RealFileSystem, WritesAppendsRenamesAndRemoves) {
  const TemporaryFolder folder;
  FileSystem& fs = real_file_system();
  fs.create(folder / "a")->write_text("one");
  fs.append(folder / "a")->write_text(" two");
  EXPECT_EQ(fs.read(folder / "a"), "one two");
  fs.create(folder / "a")->write_text("new");
  fs.rename(folder / "a", folder / "b");
  EXPECT_FALSE(fs.exists(folder / "a"));
  EXPECT_EQ(fs.read(folder / "b"), "new");
  fs.make_directory(folder / "c");
  fs.make_directory(folder / "c");
  fs.sync_directory(folder.path());
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"b", "c"}));
  fs.remove(folder / "b");
  fs.remove(folder / "b");
  fs.remove(folder / "c");
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(RealFileSystem, ErrorsHaveNumberPathAndHint) {
  const TemporaryFolder folder;
  FileSystem& fs = real_file_system();
  const auto number = [](auto action) {
    try {
      action();
    } catch (const FileError& error) {
      EXPECT_FALSE(error.where().empty());
      return error.error_number();
    }
    return 0;
  };
  EXPECT_EQ(number([&] { fs.read(folder / "none"); }), ENOENT);
  EXPECT_EQ(number([&] { fs.create(folder / "none/x"); }), ENOENT);
  EXPECT_EQ(number([&] { fs.list(folder / "none"); }), ENOENT);
  EXPECT_EQ(number([&] { fs.rename(folder / "none", folder / "x"); }), ENOENT);
  folder.file("file", "x");
  EXPECT_EQ(number([&] { fs.make_directory(folder / "file"); }), EEXIST);
  EXPECT_EQ(number([&] { fs.create("/dev/full")->write_text("x"); }), ENOSPC);
  EXPECT_TRUE(tells(error_of([&] { fs.create("/dev/full")->write_text("x"); }), "free some space"));
}

TEST(WriteFileAtomically, ReplacesTheFileAndLeavesNoOther) {
  const TemporaryFolder folder;
  write_file_atomically(real_file_system(), folder / "x", "old");
  write_file_atomically(real_file_system(), folder / "x", "new");
  EXPECT_EQ(file_content(folder / "x"), "new");
  EXPECT_EQ(names_in(folder.path()).size(), 1u);
}

TEST(WriteFileAtomically, UsesTheUsersUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_file_atomically(real_file_system(), folder / "x", "text");
  ::umask(before);
  struct stat status = {};
  ASSERT_EQ(::stat((folder / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(WriteFileAtomically, WritesIntoDevicesInsteadOfReplacingThem) {
  write_file_atomically(real_file_system(), "/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(tells(error_of([] { write_file_atomically(real_file_system(), "/dev/full", "x"); }),
                    "No space left"));
}

// Five operations: create, write, sync, rename, sync of the folder.
constexpr int kOperations = 5;

TEST(WriteFileAtomically, Row26_EveryFaultLeavesTheOldFileWholeAndNoLitter) {
  for (const int error_number : {ENOSPC, EIO, EROFS}) {
    for (int n = 1; n < kOperations; ++n) {
      const TemporaryFolder folder;
      folder.file("x", "old");
      FaultyFileSystem fs(folder.path());
      fs.fail_at(n, error_number);
      EXPECT_THROW(write_file_atomically(fs, folder / "x", "new"), FileError) << n;
      EXPECT_EQ(file_content(folder / "x"), "old") << n;
      EXPECT_EQ(names_in(folder.path()).size(), 1u) << n;
    }
  }
}

TEST(WriteFileAtomically, Row26_NotSavedAndMaybeNotDurableAreToldApart) {
  const TemporaryFolder folder;
  for (int n = 1; n <= kOperations; ++n) {
    FaultyFileSystem fs(folder.path());
    fs.fail_at(n, EIO);
    try {
      write_file_atomically(fs, folder / "x", "new");
      ADD_FAILURE() << "no error at operation " << n;
    } catch (const FileError& error) {
      EXPECT_EQ(error.content_in_place(), n == kOperations);
      EXPECT_EQ(error.error_number(), EIO);
    }
  }
  EXPECT_EQ(file_content(folder / "x"), "new");
}

TEST(WriteFileAtomically, Row27_PowerLossAfterEachOperationLeavesOldOrNew) {
  for (const UnsyncedData loss : kAllLosses) {
    for (int n = 0; n <= kOperations; ++n) {
      const TemporaryFolder folder;
      folder.file("x", "old");
      FaultyFileSystem fs(folder.path());
      fs.lose_power_after(n);
      if (n < kOperations) {
        EXPECT_THROW(write_file_atomically(fs, folder / "x", "new"), FileError);
      } else {
        write_file_atomically(fs, folder / "x", "new");
      }
      fs.restart(loss);
      const std::string content = file_content(folder / "x");
      EXPECT_TRUE(content == "old" || content == "new") << n << " " << content;
      if (n == kOperations) {
        EXPECT_EQ(content, "new");
      } else if (n < 4) {
        EXPECT_EQ(content, "old");
      }
    }
  }
}

// The same without the sync before the rename: the faulty file system must find the mistake.
TEST(FaultyFileSystem, FindsAMissingSync) {
  const TemporaryFolder folder;
  folder.file("x", "old");
  FaultyFileSystem fs(folder.path());
  const auto file = fs.create(folder / "x.tmp");
  file->write_text("new!");
  file->close();
  fs.rename(folder / "x.tmp", folder / "x");
  fs.restart(UnsyncedData::names_kept);
  EXPECT_EQ(file_content(folder / "x"), "");
}

TEST(FaultyFileSystem, KeepsWhatWasSyncedAndLosesTheRest) {
  const TemporaryFolder folder;
  folder.file("sub/kept", "before");
  FaultyFileSystem fs(folder.path());
  const auto file = fs.append(folder / "sub/kept");
  file->write_text(" synced");
  file->sync();
  file->write_text(" not!");
  fs.make_directory(folder / "new");
  fs.create(folder / "new/unsynced")->write_text("x");
  fs.sync_directory(folder.path());
  fs.restart(UnsyncedData::lost);
  EXPECT_EQ(file_content(folder / "sub/kept"), "before synced");
  EXPECT_TRUE(fs.is_directory(folder / "new"));
  EXPECT_FALSE(fs.exists(folder / "new/unsynced"));
}

TEST(FaultyFileSystem, WritesHalfOfWhatWasNotSynced) {
  const TemporaryFolder folder;
  FaultyFileSystem fs(folder.path());
  const auto file = fs.create(folder / "x");
  file->write_text("1234");
  file->sync();
  file->write_text("567890");
  fs.restart(UnsyncedData::half_written);
  EXPECT_EQ(file_content(folder / "x"), "1234567");
}

TEST(FaultyFileSystem, RenamedFoldersTakeTheirContentAlong) {
  const TemporaryFolder folder;
  FaultyFileSystem fs(folder.path());
  fs.make_directory(folder / "a.tmp");
  const auto file = fs.create(folder / "a.tmp/x");
  file->write_text("text");
  file->sync();
  file->close();
  fs.sync_directory(folder / "a.tmp");
  fs.rename(folder / "a.tmp", folder / "a");
  fs.sync_directory(folder.path());
  fs.restart(UnsyncedData::lost);
  EXPECT_EQ(file_content(folder / "a/x"), "text");
  EXPECT_FALSE(fs.exists(folder / "a.tmp"));
}

TEST(FaultyFileSystem, FailsFromAnOperationOn) {
  const TemporaryFolder folder;
  FaultyFileSystem fs(folder.path());
  fs.fail_from(2, ENOSPC);
  const auto file = fs.create(folder / "x");
  EXPECT_THROW(file->write_text("1234"), FileError);
  EXPECT_THROW(file->write_text("1234"), FileError);
  EXPECT_THROW(fs.make_directory(folder / "y"), FileError);
  EXPECT_EQ(fs.operations(), 4);
  fs.clear_faults();
  file->write_text("ok");
  EXPECT_EQ(file_content(folder / "x"), "1212ok");
}

TEST(FaultyFileSystem, AfterAPowerLossNothingWorks) {
  const TemporaryFolder folder;
  FaultyFileSystem fs(folder.path());
  const auto file = fs.create(folder / "x");
  fs.lose_power_after(1);
  file->write_text("last");
  EXPECT_TRUE(fs.power_lost());
  EXPECT_THROW(file->write_text("more"), PowerLoss);
  EXPECT_THROW(fs.exists(folder / "x"), PowerLoss);
  EXPECT_THROW(fs.read(folder / "x"), PowerLoss);
  fs.restart(UnsyncedData::lost);
  EXPECT_FALSE(fs.exists(folder / "x"));
}

TEST(Trees, AreMadeAndRemoved) {
  const TemporaryFolder folder;
  FileSystem& fs = real_file_system();
  make_directories(fs, folder / "a/b/c");
  make_directories(fs, folder / "a/b/c");
  folder.file("a/b/x", "1");
  folder.file("outside", "2");
  std::filesystem::create_directory_symlink(folder.path(), folder / "a/link");
  remove_tree(fs, folder / "a");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"outside"});
  remove_tree(fs, folder / "a");
}

}  // namespace
}  // namespace phasescope::formats
