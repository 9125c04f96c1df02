#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "formats/file_system.h"

namespace phasescope::formats {

// What stands on the disk, after the power was lost, of data that was never synced.
enum class UnsyncedData {
  lost,         // unsynced bytes and unsynced names are gone
  names_kept,   // renames and new names reached the disk, unsynced bytes did not
  half_written  // as names_kept, and half of the unsynced bytes are there
};

// Thrown by every operation from the moment the power is lost until restart().
class PowerLoss : public FileError {
 public:
  explicit PowerLoss(const std::filesystem::path& path);
};

// A file system for tests: a real folder, seen through operations that can be made to fail. Counted
// operations, from 1: create, append, each write, each sync, rename, remove, make_directory,
// sync_directory. Everything below `root` at construction counts as durable.
class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(std::filesystem::path root);
  ~FaultyFileSystem() override;

  // The n-th operation from now fails with this errno; a write leaves half of its bytes behind.
  void fail_at(std::int64_t n, int error_number);
  // The n-th and all later ones do (a full disk, a disk gone read-only).
  void fail_from(std::int64_t n, int error_number);
  // The power goes after the n-th operation has been done.
  void lose_power_after(std::int64_t n);
  // No fault is planned any more.
  void clear_faults();

  // Operations done or tried so far.
  std::int64_t operations() const;
  bool power_lost() const;
  // Rewrites the folder to what the disk holds, and starts again without faults.
  void restart(UnsyncedData unsynced);

  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<WritableFile> append(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void make_directory(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) const override;
  bool is_directory(const std::filesystem::path& path) const override;
  std::vector<std::string> list(const std::filesystem::path& path) const override;
  std::string read(const std::filesystem::path& path) const override;

 private:
  class Disk;
  class File;
  std::shared_ptr<Disk> disk_;
};

}  // namespace phasescope::formats
