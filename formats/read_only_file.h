#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "formats/unique_fd.h"

namespace phasescope::formats {

// A regular file open for reading by pread, so that one cut short or rewritten after it was opened
// is an Error "bad_input" and never a signal. Movable; reading is safe from several threads at
// once.
class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  // Bytes, when it was opened.
  std::uint64_t size() const { return stamp_.size; }

  // Fills `out` from byte `offset` on.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  // The same open file once more, with its stamp.
  ReadOnlyFile duplicate() const;
  int descriptor() const { return fd_.get(); }
  // Throws where the file's length or time of change is no longer what it was when it was opened.
  void check_unchanged() const;

 private:
  ReadOnlyFile() = default;

  // What tells a file from the one that was opened: its length and when it was last written.
  struct Stamp {
    std::uint64_t size = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };

  std::filesystem::path path_;
  UniqueFd fd_;
  Stamp stamp_;
};

}  // namespace phasescope::formats
