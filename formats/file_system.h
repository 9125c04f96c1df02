#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/error.h"

namespace phasescope::formats {

// A failed file operation, code "bad_input"; error_number() is the errno (ENOSPC, EROFS, EIO, ...).
class FileError : public Error {
 public:
  FileError(const std::string& message, const std::filesystem::path& path, int error_number,
            bool content_in_place = false);

  int error_number() const { return error_number_; }
  // True when the new content already stands under its final name and only its durability is in
  // doubt ("maybe not durable", as opposed to "not saved").
  bool content_in_place() const { return content_in_place_; }

 private:
  int error_number_;
  bool content_in_place_;
};

// A file open for writing. Dropping one without close() leaves what was written, unsynced.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Writes all of `bytes` or throws.
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;

  void write_text(std::string_view text) { write(std::as_bytes(std::span(text))); }
};

// Every write of this program goes through this interface, so that tests can inject faults
// (faulty_file_system.h). All functions throw FileError.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates the file, or empties the one that is there.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;
  // Opens for appending; creates the file where there is none.
  virtual std::unique_ptr<WritableFile> append(const std::filesystem::path& path) = 0;
  // Replaces a file at `to` in one step.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // A file or an empty folder. What is not there counts as removed.
  virtual void remove(const std::filesystem::path& path) = 0;
  // One folder; its parent must exist. A folder that is there already is left as it is.
  virtual void make_directory(const std::filesystem::path& path) = 0;
  // Makes the names in a folder durable.
  virtual void sync_directory(const std::filesystem::path& path) = 0;

  virtual bool exists(const std::filesystem::path& path) const = 0;
  virtual bool is_directory(const std::filesystem::path& path) const = 0;
  // Names (not paths) in a folder, sorted.
  virtual std::vector<std::string> list(const std::filesystem::path& path) const = 0;
  // The whole file.
  virtual std::string read(const std::filesystem::path& path) const = 0;
  // The whole file in pieces, so that it need not fit into memory.
  virtual void read_pieces(
      const std::filesystem::path& path,
      const std::function<void(std::span<const std::byte> piece)>& take) const {
    const std::string text = read(path);
    take(std::as_bytes(std::span<const char>(text)));
  }
};

// The machine's own file system; one object for the whole program.
FileSystem& real_file_system();

// Writes `bytes` to path + ".tmp", syncs, renames over `path`, syncs the folder. On an error the
// old file is whole and the temporary one is removed. If only the last sync failed the FileError
// says content_in_place().
void write_file_atomically(FileSystem& fs, const std::filesystem::path& path,
                           std::span<const std::byte> bytes);
void write_file_atomically(FileSystem& fs, const std::filesystem::path& path,
                           std::string_view text);

// The general form: `fill` writes the content piece by piece into the file it is given.
void write_file_atomically_with(FileSystem& fs, const std::filesystem::path& path,
                                const std::function<void(WritableFile&)>& fill);

// A folder and the missing ones above it.
void make_directories(FileSystem& fs, const std::filesystem::path& path);

// A file, or a folder with all that is in it (links are removed, not followed).
void remove_tree(FileSystem& fs, const std::filesystem::path& path);

}  // namespace phasescope::formats
