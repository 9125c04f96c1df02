#include "training/jobs/job_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ratio>
#include <system_error>
#include <thread>
#include <utility>

#include "formats/file_system.h"
#include "formats/folder_listing.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_reporter.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kBeat{5};
constexpr std::chrono::seconds kGone{60};  // clocks of two machines may be some seconds apart
// Two machines that take over the same lock at once both see, after this, whose it is.
constexpr std::chrono::milliseconds kSettled{1000};
constexpr int kLostStatus = 4;
constexpr int kMoreLinks = 3;
constexpr std::size_t kMostClaimBytes = 4096;

formats::UniqueFd open_folder(const fs::path& dir) {
  return formats::UniqueFd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Null where none stands. A folder may be anybody's: what is no file, may not be read, or is larger
// than a claim says nothing, and is not read to its end.
json claim_at(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return nullptr;
  std::string text;
  if (formats::is_file(path)) {
    text.resize(kMostClaimBytes);
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

json claim_in(const fs::path& dir) { return claim_at(dir / job_file::lock); }

std::string member(const json& claim, const char* key) {
  const bool there = claim.is_object() && claim.contains(key) && claim.at(key).is_string();
  return there ? claim.at(key).get<std::string>() : "";
}

bool beats(const fs::path& path) {
  std::error_code error;
  const auto last = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - last < kGone;
}

// Why a claim that is there cannot be read, as another user's who keeps it to himself; else 0.
int why_unreadable(const fs::path& path) {
  if (!formats::is_file(path)) return 0;
  const formats::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file ? 0 : errno;
}

// Whether another machine holds it; on this machine the lock on the folder tells. A claim that
// cannot be read is of whoever keeps it young.
bool is_of_another(const fs::path& path, const std::string& boot) {
  const json claim = claim_at(path);
  const bool of_another =
      claim.is_object() ? member(claim, "boot") != boot : why_unreadable(path) != 0;
  return of_another && beats(path);
}

bool held_elsewhere(const fs::path& dir, const Host& host) {
  return is_of_another(dir / job_file::lock, host.boot);
}

// What a disk says that gives no file a second name.
bool says_no_links(const std::error_code& error) {
  return std::ranges::any_of(
      std::array{std::errc::operation_not_permitted, std::errc::not_supported,
                 std::errc::operation_not_supported, std::errc::function_not_supported,
                 std::errc::too_many_links, std::errc::cross_device_link},
      [&error](std::errc one) { return error == one; });
}

}  // namespace

// lock.json, kept young by a thread.
class JobLock::Claim {
 public:
  // In place of `before`. Null where another machine was faster. A disk that cannot hold the file
  // leaves the lock on the folder alone.
  static std::unique_ptr<Claim> make(const fs::path& dir, const Host& host, const json& before) {
    auto claim = std::make_unique<Claim>(dir, host);
    try {
      if (!claim->written(before)) return nullptr;
    } catch (const formats::FileError& error) {
      if (held_elsewhere(dir, host)) return nullptr;
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

  // False where another machine has put its claim there first. A link decides that at once; on a
  // disk without links both write and look again.
  bool written(const json& before) const {
    const fs::path place = dir_ / job_file::lock;
    if (!before.is_null() && !made_free(place, before)) return false;
    const Linked linked = linked_to(place);
    if (linked != Linked::cannot) return linked == Linked::yes;
    formats::write_file_atomically(formats::real_file_system(), place, content_.dump() + "\n");
    if (member(before, "boot") == member(content_, "boot")) return true;
    std::this_thread::sleep_for(before.is_null() ? kSettled / 10 : kSettled);
    return claim_in(dir_) == content_;
  }

  // Puts the claim `before` of one that is gone aside. However long ago it was read: where another
  // machine has taken it over since, the newer claim is put back, and this is false.
  bool made_free(const fs::path& place, const json& before) const {
    const fs::path aside = spare_name(place, "-0");
    std::error_code error, ignored;
    fs::rename(place, aside, error);
    if (error == std::errc::no_such_file_or_directory) return true;  // a link decides
    if (!error) {
      const bool same = claim_at(aside).dump() == before.dump();
      if (!same || is_of_another(aside, member(content_, "boot"))) {
        fs::create_hard_link(aside, place, error);
        if (says_no_links(error)) fs::rename(aside, place, ignored);
        fs::remove(aside, ignored);
        return false;
      }
      if (fs::remove(aside, error)) return true;
      fs::rename(aside, place, ignored);  // a folder with something in it
    }
    throw formats::FileError("the lock of a job that is gone cannot be removed", place,
                             error.value());
  }

  // Of a file that is cleared up where this process is killed.
  fs::path spare_name(const fs::path& place, const char* separator) const {
    return place.string() + "." + std::to_string(getpid()) + separator +
           content_.at("since").dump() + ".tmp";
  }

  Linked linked_to(const fs::path& place) const {
    std::error_code error = link_error(place);
    // Another program may have taken the whole file for what a killed one left behind.
    for (int again = 0; again < kMoreLinks && error == std::errc::no_such_file_or_directory &&
                        claim_in(dir_).is_null();
         ++again) {
      error = link_error(place);
    }
    if (!error) return Linked::yes;
    if (error == std::errc::file_exists || !claim_in(dir_).is_null()) return Linked::no;
    if (says_no_links(error)) return Linked::cannot;
    throw formats::FileError("the lock cannot get its name", place, error.value());
  }

  // A second name for a whole file, which network disks too give to one of several alone. An answer
  // may be lost on its way, and the number of names is not.
  std::error_code link_error(const fs::path& place) const {
    formats::FileSystem& files = formats::real_file_system();
    const fs::path whole = spare_name(place, "-");
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
    return there ? std::error_code() : error;
  }

  void beat() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBeat, [this] { return over_; })) {
      const json claim = claim_in(dir_);
      if (claim == content_) {
        constexpr std::array<timespec, 2> now = {timespec{0, UTIME_NOW}, timespec{0, UTIME_NOW}};
        utimensat(AT_FDCWD, (dir_ / job_file::lock).c_str(), now.data(), 0);
      } else if (claim.is_object() || why_unreadable(dir_ / job_file::lock) == EACCES) {
        const std::string by =
            claim.is_object() ? "process on " + member(claim, "host") : "process of another user";
        log_line("error: the job was taken over by a " + by);
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
      const json before = claim_in(dir);  // whoever comes after this is seen by what follows
      if (held_elsewhere(dir, host)) return std::nullopt;
      auto claim = Claim::make(dir, host, before);
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
  std::string words = "another process works in the folder";
  if (!holder.empty()) words += ": " + holder;
  if (const int why = why_unreadable(dir / job_file::lock)) {
    words += std::string("; ") + job_file::lock + " cannot be read: " + std::strerror(why);
  }
  return formats::bad_usage(words, dir.string());
}

}  // namespace phasescope::training
