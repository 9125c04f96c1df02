#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "formats/error.h"
#include "formats/unique_fd.h"

namespace phasescope::training {

// A running kernel: machines differ in it, and so does one before and after a reboot.
struct Host {
  std::string name;
  std::string boot;  // /proc/sys/kernel/random/boot_id
};
Host this_host();

// Holds a job's folder for as long as it lives. On one machine that is a lock on the folder, which
// a killed process loses by itself. Other machines do not see it (network file systems keep such
// locks to themselves), so that lock.json names the holder there, and its time is set anew every
// few seconds: one that has not been for a minute is of a holder that is gone. A holder that finds
// another one's lock.json in place of its own ends its process without saving.
class JobLock {
 public:
  // Empty when somebody else has it. Throws FileError when the folder cannot be opened. `host`: for
  // tests of several machines.
  static std::optional<JobLock> try_take(const std::filesystem::path& dir,
                                         const Host& host = this_host());
  JobLock(JobLock&&) noexcept;
  JobLock& operator=(JobLock&&) noexcept;
  ~JobLock();

 private:
  class Claim;
  JobLock(formats::UniqueFd folder, std::unique_ptr<Claim> claim);

  formats::UniqueFd folder_;
  std::unique_ptr<Claim> claim_;
};

// Whether somebody holds the folder, here or on another machine.
bool job_is_alive(const std::filesystem::path& dir, const Host& host = this_host());

// Who holds the folder, "HOST (process 123) since 2024-05-31 17:20:01" in local time; empty where
// nobody has said so. After a kill -9 it names the process that is gone, until the next one.
std::string holder_of(const std::filesystem::path& dir);

// "bad_usage", with the holder's name.
formats::Error folder_in_use(const std::filesystem::path& dir);

}  // namespace phasescope::training
