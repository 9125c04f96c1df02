#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "formats/file_system.h"
#include "formats/read_only_file.h"
#include "formats/sha256.h"

namespace phasescope::training {

// Bytes that an id below `ids` takes in a file: 1, 2 or 4.
int token_width(std::int64_t ids);

// Ids one after the other in a file, little-endian, of `width` bytes each; a text file is one of
// width 1. Any stretch is read where it stands, so that the file may be larger than memory. Throws
// FileError, and Error "bad_input" where the file has changed since it was opened. From any thread.
class TokenFile {
 public:
  TokenFile(const std::filesystem::path& path, int width) : file_(path), width_(width) {}
  std::int64_t size() const { return static_cast<std::int64_t>(file_.size()) / width_; }
  std::vector<std::int64_t> read(std::int64_t begin, std::int64_t count) const;

 private:
  formats::ReadOnlyFile file_;
  int width_;
};

// Writes such a file, and hashes what it writes.
class TokenWriter {
 public:
  TokenWriter(formats::WritableFile& file, int width) : file_(file), width_(width) {}
  void add(std::span<const std::int64_t> ids);
  std::int64_t count() const { return count_; }
  // SHA-256 of the whole; the last call.
  std::string finish() { return sha256_.finish(); }

 private:
  formats::WritableFile& file_;
  formats::Sha256 sha256_;
  int width_;
  std::int64_t count_ = 0;
};

}  // namespace phasescope::training
