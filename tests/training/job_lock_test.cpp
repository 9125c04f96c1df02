// Two machines that start in one folder of a network disk: what one does between two calls of the
// other. Such a disk keeps locks to each machine, and some disks have no links, which is played by
// functions of the system's names here.
#include "training/jobs/job_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/temporary_folder.h"
#include "training/jobs/job_folder.h"

namespace {

// Whether a lock on a folder holds nobody off, as between two machines.
std::atomic<bool> locks_hold_nothing = false;
// Called once before the next link or renaming; an error in place of it where that is not 0.
std::function<int()> before_next_link, before_next_rename;

int called_once(std::function<int()>& hook) {
  static std::mutex mutex;
  const auto once = [&hook] {
    const std::lock_guard lock(mutex);
    return std::exchange(hook, nullptr);
  }();
  return once ? once() : 0;
}

int refused(int error) {
  errno = error;
  return -1;
}

}  // namespace

extern "C" int flock(int descriptor, int operation) noexcept {
  if (locks_hold_nothing) return 0;
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

extern "C" int link(const char* from, const char* to) noexcept {
  if (const int error = called_once(before_next_link)) return refused(error);
  return static_cast<int>(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (const int error = called_once(before_next_rename)) return refused(error);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

const Host kFirst{"first", "boot 1"}, kSecond{"second", "boot 2"};

class LockOfTwoMachines : public testing::Test {
 protected:
  LockOfTwoMachines() { locks_hold_nothing = true; }
  ~LockOfTwoMachines() override {
    locks_hold_nothing = false;
    before_next_link = before_next_rename = nullptr;
  }

  // As a job's process does when it has the folder.
  static std::optional<JobLock> owned(const fs::path& dir, const Host& host) {
    auto lock = JobLock::try_take(dir, host);
    if (lock) remove_job_litter(formats::real_file_system(), dir);
    return lock;
  }

  // What a program of another version takes away.
  void remove_temporary_files() const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".tmp") fs::remove(entry.path());
    }
  }

  bool is_of_first() const { return holder_of(folder_.path()).starts_with("first "); }

  TemporaryFolder folder_;
};

TEST_F(LockOfTwoMachines, OfManyInAnEmptyFolderOneHasIt) {
  constexpr std::size_t kMachines = 6;
  for (int round = 0; round < 20; ++round) {
    const fs::path dir = folder_.path() / std::to_string(round);
    fs::create_directory(dir);
    std::vector<std::optional<JobLock>> locks(kMachines);
    std::barrier ready(static_cast<std::ptrdiff_t>(kMachines));
    std::vector<std::thread> machines;
    for (std::size_t n = 0; n < kMachines; ++n) {
      machines.emplace_back([&, n] {
        const std::string name = std::to_string(n);
        ready.arrive_and_wait();
        locks[n] = owned(dir, {"machine " + name, "boot " + name});
      });
    }
    for (std::thread& machine : machines) machine.join();
    EXPECT_EQ(std::ranges::count_if(locks, [](const auto& lock) { return lock.has_value(); }), 1);
  }
}

// The second has written its claim, and before it names it the first takes the folder and clears it
// up.
TEST_F(LockOfTwoMachines, ASlowOneComesTooLate) {
  std::optional<JobLock> first;
  before_next_link = [&] {
    first = owned(folder_.path(), kFirst);
    return 0;
  };
  EXPECT_FALSE(owned(folder_.path(), kSecond));
  EXPECT_TRUE(first);
  EXPECT_TRUE(is_of_first());
}

// The same where the first one clears up more than it should.
TEST_F(LockOfTwoMachines, OneWhoseClaimWasClearedUpDoesNotTakeTheFolder) {
  std::optional<JobLock> first;
  before_next_link = [&] {
    first = owned(folder_.path(), kFirst);
    remove_temporary_files();
    return 0;
  };
  EXPECT_FALSE(owned(folder_.path(), kSecond));
  EXPECT_TRUE(is_of_first());
}

TEST_F(LockOfTwoMachines, AClaimThatWasClearedUpIsWrittenAnewWhereNobodyIs) {
  before_next_link = [&] {
    remove_temporary_files();
    return 0;
  };
  const auto lock = owned(folder_.path(), kSecond);
  EXPECT_TRUE(lock);
  EXPECT_TRUE(holder_of(folder_.path()).starts_with("second "));
}

// A disk without links: whoever finds the other one there leaves it.
TEST_F(LockOfTwoMachines, WithoutLinksALateOneDoesNotWriteOverTheOther) {
  std::optional<JobLock> first;
  for (const int error : {EPERM, EOPNOTSUPP, ENOSYS, EMLINK, EXDEV}) {
    before_next_link = [&] {
      first = owned(folder_.path(), kFirst);
      return error;
    };
    EXPECT_FALSE(owned(folder_.path(), kSecond)) << error;
    EXPECT_TRUE(is_of_first()) << error;
    first.reset();
    before_next_link = [&] { return error; };
    EXPECT_TRUE(owned(folder_.path(), kSecond)) << error;
  }
}

// Its claim is gone before it gets its name: that it cannot be written is not that nobody is there.
TEST_F(LockOfTwoMachines, AClaimThatCannotBeWrittenBesideAnotherOneIsGivenUp) {
  std::optional<JobLock> first;
  before_next_link = [] { return EPERM; };
  before_next_rename = [&] {
    first = owned(folder_.path(), kFirst);
    remove_temporary_files();
    return 0;
  };
  EXPECT_FALSE(owned(folder_.path(), kSecond));
  EXPECT_TRUE(first);
  EXPECT_TRUE(is_of_first());
}

// Both have read the claim of a machine that is gone. The first has long taken it over, and works,
// when the second goes on: its claim is not written over, and it is still whose it was.
TEST_F(LockOfTwoMachines, ALateOneDoesNotTakeOverWhatWasTakenOver) {
  for (const bool links : {true, false}) {
    std::ofstream(folder_.path() / "lock.json") << R"({"host": "gone", "boot": "boot 0"})";
    fs::last_write_time(folder_.path() / "lock.json",
                        fs::file_time_type::clock::now() - std::chrono::seconds(61));
    std::optional<JobLock> first;
    before_next_rename = [&] {
      if (!links) before_next_link = [] { return EPERM; };
      first = owned(folder_.path(), kFirst);
      if (!links) before_next_link = [] { return EPERM; };
      return 0;
    };
    EXPECT_FALSE(owned(folder_.path(), kSecond)) << links;
    EXPECT_TRUE(first) << links;
    EXPECT_TRUE(is_of_first()) << links;
    first.reset();
    EXPECT_TRUE(fs::is_empty(folder_.path())) << links;
  }
}

TEST_F(LockOfTwoMachines, OldClaimsThatGotNoNameAreClearedUp) {
  const fs::path young = folder_.path() / "lock.json.12-3.tmp";
  const fs::path old = folder_.path() / "lock.json.12-4.tmp";
  std::ofstream(young) << "{}";
  std::ofstream(old) << "{}";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  remove_job_litter(formats::real_file_system(), folder_.path());
  EXPECT_TRUE(fs::exists(young));
  EXPECT_FALSE(fs::exists(old));
}

// While it lives, files are those of a user who may not read everything.
class AnyUser {
 public:
  AnyUser() : before_(::geteuid() == 0 ? ::setfsuid(65'534) : -1) {}
  ~AnyUser() {
    if (before_ >= 0) ::setfsuid(static_cast<uid_t>(before_));
  }
  AnyUser(const AnyUser&) = delete;
  AnyUser& operator=(const AnyUser&) = delete;

 private:
  int before_;
};

// Another user's claim, with a umask of 077: it holds the folder for as long as it is kept young.
TEST(JobLock, AClaimThatMayNotBeReadBlocksNoFolderForEver) {
  TemporaryFolder folder;
  const fs::path claim = folder.path() / "lock.json";
  std::ofstream(claim) << "{}";
  fs::permissions(claim, fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  {
    const AnyUser user;
    ASSERT_FALSE(std::ifstream(claim).is_open());
    EXPECT_FALSE(JobLock::try_take(folder.path()));
    const std::string said = folder_in_use(folder.path()).full_text();
    EXPECT_NE(said.find("lock.json cannot be read: Permission denied"), std::string::npos) << said;
  }
  fs::last_write_time(claim, fs::file_time_type::clock::now() - std::chrono::seconds(61));
  const AnyUser user;
  EXPECT_FALSE(job_is_alive(folder.path()));
  const auto lock = JobLock::try_take(folder.path());
  EXPECT_TRUE(lock);
  EXPECT_TRUE(holder_of(folder.path()).starts_with(this_host().name + " (process "));
}

}  // namespace
}  // namespace phasescope::training
