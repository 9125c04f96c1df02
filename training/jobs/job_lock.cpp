#include "training/jobs/job_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ratio>
#include <thread>
#include <utility>

#include "formats/file_system.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_reporter.h"
#include "training/jobs/plain_file.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kBeat{5};
constexpr std::chrono::seconds kGone{60};  // clocks of two machines may be some seconds apart
// Two machines that take over the same lock at once both see, after this, whose it is.
constexpr std::chrono::milliseconds kSettled{1000};
constexpr int kLostStatus = 4;
constexpr std::size_t kMostClaimBytes = 4096;

formats::UniqueFd open_folder(const fs::path& dir) {
  return formats::UniqueFd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Null where none stands. A folder may be anybody's: what is no file, or larger than a claim, says
// nothing, and is not read to its end.
json claim_in(const fs::path& dir) {
  const fs::path path = dir / job_file::lock;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return nullptr;
  std::string text;
  if (is_plain_file(path)) {
    text.resize(kMostClaimBytes);
    std::ifstream file(path, std::ios::binary);
    if (!file) return nullptr;
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string member(const json& claim, const char* key) {
  const bool there = claim.is_object() && claim.contains(key) && claim.at(key).is_string();
  return there ? claim.at(key).get<std::string>() : "";
}

bool beats(const fs::path& dir) {
  std::error_code error;
  const auto last = fs::last_write_time(dir / job_file::lock, error);
  return !error && fs::file_time_type::clock::now() - last < kGone;
}

// Whether another machine holds it; on this machine the lock on the folder tells.
bool held_elsewhere(const fs::path& dir, const Host& host) {
  const json claim = claim_in(dir);
  return claim.is_object() && member(claim, "boot") != host.boot && beats(dir);
}

}  // namespace

// lock.json, kept young by a thread.
class JobLock::Claim {
 public:
  // Null where another machine was faster. A disk that cannot hold the file leaves the lock on the
  // folder alone.
  static std::unique_ptr<Claim> make(const fs::path& dir, const Host& host) {
    auto claim = std::make_unique<Claim>(dir, host);
    const json before = claim_in(dir);
    try {
      if (!claim->written(before)) return nullptr;
    } catch (const formats::FileError& error) {
      log_line("warning: other machines do not see who runs the job: " + error.full_text());
      return claim;
    }
    claim->thread_ = std::thread([raw = claim.get()] { raw->beat(); });
    return claim;
  }

  Claim(fs::path dir, const Host& host) : dir_(std::move(dir)) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    content_ = {{"host", host.name},
                {"boot", host.boot},
                {"pid", getpid()},
                {"since", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}};
  }

  ~Claim() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    std::error_code ignored;
    if (claim_in(dir_) == content_) fs::remove(dir_ / job_file::lock, ignored);
  }

 private:
  enum class Linked { yes, no, cannot };

  // False where another machine has put its claim there first. Where none stood before, a link
  // decides that at once; over another one, and on a disk without links, both write and look again.
  bool written(const json& before) const {
    const fs::path place = dir_ / job_file::lock;
    std::error_code ignored;
    if (!before.is_null() && !is_plain_file(place)) {
      fs::remove(place, ignored);  // a link to a device would be written through
    }
    if (before.is_null()) {
      const Linked linked = linked_to(place);
      if (linked != Linked::cannot) return linked == Linked::yes;
    }
    formats::write_file_atomically(formats::real_file_system(), place, content_.dump() + "\n");
    if (member(before, "boot") == member(content_, "boot")) return true;
    std::this_thread::sleep_for(before.is_null() ? kSettled / 10 : kSettled);
    return claim_in(dir_) == content_;
  }

  // A second name for a whole file, which network disks too give to one of several alone. An answer
  // may be lost on its way, and the number of names is not.
  Linked linked_to(const fs::path& place) const {
    formats::FileSystem& files = formats::real_file_system();
    const fs::path whole = place.string() + "." + std::to_string(getpid()) + "-" +
                           content_.at("since").dump() + ".tmp";
    const auto file = files.create(whole);
    std::error_code error, ignored;
    try {
      file->write_text(content_.dump() + "\n");
      file->close();
      fs::create_hard_link(whole, place, error);
    } catch (...) {
      fs::remove(whole, ignored);
      throw;
    }
    const bool there = !error || fs::hard_link_count(whole, ignored) == 2;
    fs::remove(whole, ignored);
    if (there) return Linked::yes;
    return error == std::errc::file_exists ? Linked::no : Linked::cannot;
  }

  void beat() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBeat, [this] { return over_; })) {
      const json claim = claim_in(dir_);
      if (claim == content_) {
        constexpr std::array<timespec, 2> now = {timespec{0, UTIME_NOW}, timespec{0, UTIME_NOW}};
        utimensat(AT_FDCWD, (dir_ / job_file::lock).c_str(), now.data(), 0);
      } else if (claim.is_object()) {
        log_line("error: the job was taken over by a process on " + member(claim, "host"));
        _exit(kLostStatus);
      }
    }
  }

  fs::path dir_;
  json content_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

Host this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  Host host{.name = name.data(), .boot = ""};
  std::ifstream("/proc/sys/kernel/random/boot_id") >> host.boot;
  return host;
}

JobLock::JobLock(formats::UniqueFd folder, std::unique_ptr<Claim> claim)
    : folder_(std::move(folder)), claim_(std::move(claim)) {}
JobLock::JobLock(JobLock&&) noexcept = default;
JobLock& JobLock::operator=(JobLock&&) noexcept = default;
JobLock::~JobLock() = default;

std::optional<JobLock> JobLock::try_take(const fs::path& dir, const Host& host) {
  formats::UniqueFd folder = open_folder(dir);
  if (!folder) throw formats::FileError("the job's folder cannot be opened", dir, errno);
  // Somebody who only asks whether the job is alive holds a shared lock for a moment.
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (flock(folder.get(), LOCK_EX | LOCK_NB) == 0) {
      if (held_elsewhere(dir, host)) return std::nullopt;
      auto claim = Claim::make(dir, host);
      if (!claim) return std::nullopt;
      return JobLock(std::move(folder), std::move(claim));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

bool job_is_alive(const fs::path& dir, const Host& host) {
  const formats::UniqueFd folder = open_folder(dir);
  if (folder && flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
  return held_elsewhere(dir, host);
}

std::string holder_of(const fs::path& dir) {
  const json claim = claim_in(dir);
  if (!claim.is_object()) return "";
  std::string words =
      member(claim, "host") + " (process " + claim.value("pid", json()).dump() + ")";
  const json since = claim.value("since", json());
  if (!since.is_number_integer()) return words;
  const std::time_t at = since.get<std::int64_t>() / std::nano::den;
  std::tm parts{};
  std::array<char, 32> stamp{};
  if (localtime_r(&at, &parts) == nullptr) return words;
  std::strftime(stamp.data(), stamp.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return words + " since " + stamp.data();
}

formats::Error folder_in_use(const fs::path& dir) {
  const std::string holder = holder_of(dir);
  return formats::bad_usage(
      "another process works in the folder" + (holder.empty() ? "" : ": " + holder), dir.string());
}

}  // namespace phasescope::training
