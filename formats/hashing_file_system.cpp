#include "formats/hashing_file_system.h"

#include <utility>

#include "formats/sha256.h"

namespace phasescope::formats {

class HashingFileSystem::File final : public WritableFile {
 public:
  File(std::unique_ptr<WritableFile> file, std::shared_ptr<FileDigest> digest)
      : file_(std::move(file)), digest_(std::move(digest)) {}

  void write(std::span<const std::byte> bytes) override {
    file_->write(bytes);
    hash_.update(bytes);
    size_ += bytes.size();
  }
  void sync() override { file_->sync(); }
  void close() override {
    file_->close();
    *digest_ = {size_, hash_.finish()};
  }

 private:
  std::unique_ptr<WritableFile> file_;
  std::shared_ptr<FileDigest> digest_;
  Sha256 hash_;
  std::uint64_t size_ = 0;
};

std::map<std::string, FileDigest> HashingFileSystem::written_in(
    const std::filesystem::path& folder) const {
  std::map<std::string, FileDigest> files;
  for (const auto& [path, digest] : digests_) {
    const bool closed = !digest->sha256.empty();
    if (closed && path.parent_path() == folder) files.emplace(path.filename().string(), *digest);
  }
  return files;
}

std::unique_ptr<WritableFile> HashingFileSystem::create(const std::filesystem::path& path) {
  auto file = fs_.create(path);
  const auto digest = digests_[path] = std::make_shared<FileDigest>();
  return std::make_unique<File>(std::move(file), digest);
}

std::unique_ptr<WritableFile> HashingFileSystem::append(const std::filesystem::path& path) {
  digests_.erase(path);
  return fs_.append(path);
}

void HashingFileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  fs_.rename(from, to);
  digests_.erase(to);
  if (auto node = digests_.extract(from)) {
    node.key() = to;
    digests_.insert(std::move(node));
  }
}

void HashingFileSystem::remove(const std::filesystem::path& path) {
  fs_.remove(path);
  digests_.erase(path);
}

}  // namespace phasescope::formats
