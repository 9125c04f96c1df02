#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace phasescope::formats {

// A regular file open for reading by pread, so that one cut short or rewritten after it was opened
// is an Error "bad_input" and never a signal. Movable; reading is safe from several threads at
// once.
class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(std::filesystem::path path);
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&& other) noexcept;
  ~ReadOnlyFile();

  const std::filesystem::path& path() const { return path_; }
  // Bytes, when it was opened.
  std::uint64_t size() const { return stamp_.size; }

  // Fills `out` from byte `offset` on.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  // Throws where the file's length or time of change is no longer what it was when it was opened.
  void check_unchanged() const;

 private:
  // What tells a file from the one that was opened: its length and when it was last written.
  struct Stamp {
    std::uint64_t size = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };

  std::filesystem::path path_;
  int fd_ = -1;
  Stamp stamp_;
};

}  // namespace phasescope::formats
