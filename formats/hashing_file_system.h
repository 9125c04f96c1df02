#pragma once

#include <map>
#include <string>

#include "formats/file_system.h"
#include "formats/manifest.h"

namespace phasescope::formats {

// Another file system, whose new files are hashed while they are written: what a manifest says of
// them is what was meant to stand there, and reading them back shows whether it does. Files that
// are renamed keep their digests; one that is appended to has none.
class HashingFileSystem final : public FileSystem {
 public:
  explicit HashingFileSystem(FileSystem& fs) : fs_(fs) {}

  // {name: digest} of the files that were created in a folder and closed.
  std::map<std::string, FileDigest> written_in(const std::filesystem::path& folder) const;

  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<WritableFile> append(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void make_directory(const std::filesystem::path& path) override { fs_.make_directory(path); }
  void sync_directory(const std::filesystem::path& path) override { fs_.sync_directory(path); }
  bool exists(const std::filesystem::path& path) const override { return fs_.exists(path); }
  bool is_directory(const std::filesystem::path& path) const override {
    return fs_.is_directory(path);
  }
  std::vector<std::string> list(const std::filesystem::path& path) const override {
    return fs_.list(path);
  }
  std::string read(const std::filesystem::path& path) const override { return fs_.read(path); }
  void read_pieces(const std::filesystem::path& path,
                   const std::function<void(std::span<const std::byte>)>& take) const override {
    fs_.read_pieces(path, take);
  }

 private:
  class File;

  FileSystem& fs_;
  // An open file shares its own, so that it may be renamed or removed meanwhile.
  std::map<std::filesystem::path, std::shared_ptr<FileDigest>> digests_;
};

}  // namespace phasescope::formats
