#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "formats/read_only_file.h"

namespace phasescope::formats {

// A file's bytes in memory, read-only and from the disk when they are first looked at; the system
// may drop them and read them again. Where the file has been cut short since, or the disk fails,
// the bytes read as zeros in place of a SIGBUS, and check_unchanged() throws from then on: whoever
// has used the bytes asks it before the result is believed. Stands in the way of no handler of
// SIGBUS that was installed before the first mapping was made.
class FileMapping {
 public:
  // Null where the system does not map the file, as for an empty one, or too many are mapped.
  static std::shared_ptr<const FileMapping> of(const ReadOnlyFile& file);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  const std::filesystem::path& path() const { return file_.path(); }
  // The file as long as it was when it was opened.
  std::span<const std::byte> bytes() const { return bytes_; }
  // Throws Error "bad_input" where the file was cut short or rewritten since it was opened, or
  // could not be read.
  void check_unchanged() const;

  // What the handler of signals knows of a mapping.
  struct Guard;

 private:
  FileMapping(ReadOnlyFile file, std::span<const std::byte> bytes, Guard& guard)
      : file_(std::move(file)), bytes_(bytes), guard_(guard) {}

  ReadOnlyFile file_;
  std::span<const std::byte> bytes_;
  Guard& guard_;
};

}  // namespace phasescope::formats
