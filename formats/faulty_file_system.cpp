#include "formats/faulty_file_system.h"

#include <cerrno>
#include <limits>
#include <map>
#include <utility>

namespace phasescope::formats {
namespace {

namespace stdfs = std::filesystem;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// A file or folder in two states: as programs see it, and as the disk holds it.
struct Node {
  bool folder = false;
  std::string seen_bytes, disk_bytes;
  std::map<std::string, std::shared_ptr<Node>> seen_names, disk_names;
};

std::shared_ptr<Node> read_tree(const stdfs::path& path) {
  auto node = std::make_shared<Node>();
  node->folder = stdfs::is_directory(path);
  if (!node->folder) {
    node->seen_bytes = node->disk_bytes = real_file_system().read(path);
    return node;
  }
  for (const std::string& name : real_file_system().list(path)) {
    node->seen_names[name] = node->disk_names[name] = read_tree(path / name);
  }
  return node;
}

std::string surviving_bytes(const Node& node, UnsyncedData unsynced) {
  if (unsynced != UnsyncedData::half_written) return node.disk_bytes;
  if (!node.seen_bytes.starts_with(node.disk_bytes)) {
    return node.seen_bytes.substr(0, node.seen_bytes.size() / 2);
  }
  const std::size_t unsynced_bytes = node.seen_bytes.size() - node.disk_bytes.size();
  return node.seen_bytes.substr(0, node.disk_bytes.size() + unsynced_bytes / 2);
}

void write_tree(const Node& node, const stdfs::path& path, UnsyncedData unsynced) {
  FileSystem& real = real_file_system();
  if (!node.folder) {
    const auto file = real.create(path);
    file->write_text(surviving_bytes(node, unsynced));
    file->close();
    return;
  }
  real.make_directory(path);
  const auto& names = unsynced == UnsyncedData::lost ? node.disk_names : node.seen_names;
  for (const auto& [name, child] : names) write_tree(*child, path / name, unsynced);
}

}  // namespace

PowerLoss::PowerLoss(const stdfs::path& path) : FileError("the power is lost", path, EIO) {}

// The state that open files share with the file system.
class FaultyFileSystem::Disk {
 public:
  explicit Disk(stdfs::path root)
      : root_(stdfs::absolute(root).lexically_normal()), tree_(read_tree(root_)) {}

  void fail_at(std::int64_t n, int error_number, bool later_too) {
    fail_at_ = operations_ + n;
    fail_until_ = later_too ? kNever : fail_at_;
    error_number_ = error_number;
  }
  void lose_power_after(std::int64_t n) { power_until_ = operations_ + n; }
  void clear_faults() {
    fail_at_ = power_until_ = kNever;
    fail_until_ = 0;
  }
  std::int64_t operations() const { return operations_; }
  bool power_lost() const { return operations_ >= power_until_; }

  void check_power(const stdfs::path& path) const {
    if (power_lost()) throw PowerLoss(path);
  }

  // Counts an operation; true if it is to fail.
  bool next_fails(const stdfs::path& path) {
    check_power(path);
    ++operations_;
    return operations_ >= fail_at_ && operations_ <= fail_until_;
  }

  void begin(const stdfs::path& path) {
    if (next_fails(path)) throw injected(path);
  }

  FileError injected(const stdfs::path& path) const {
    return FileError("injected fault", path, error_number_);
  }

  // The node at a path; null where there is none.
  std::shared_ptr<Node> find(const stdfs::path& path) const {
    std::shared_ptr<Node> node = tree_;
    for (const stdfs::path& part : relative(path)) {
      if (part == "." || part.empty()) continue;
      const auto it = node->seen_names.find(part.string());
      if (it == node->seen_names.end()) return nullptr;
      node = it->second;
    }
    return node;
  }

  Node& folder_above(const stdfs::path& path) const {
    const auto node = find(stdfs::absolute(path).lexically_normal().parent_path());
    if (!node) throw FileError("the folder is not there", path, ENOENT);
    return *node;
  }

  void restart(UnsyncedData unsynced) {
    clear_faults();
    for (const std::string& name : real_file_system().list(root_)) {
      remove_tree(real_file_system(), root_ / name);
    }
    write_tree(*tree_, root_, unsynced);
    tree_ = read_tree(root_);
  }

 private:
  stdfs::path relative(const stdfs::path& path) const {
    const stdfs::path inside = stdfs::absolute(path).lexically_normal().lexically_relative(root_);
    if (inside.empty() || *inside.begin() == "..") {
      throw internal_error("a path outside the faulty file system", path.string());
    }
    return inside;
  }

  stdfs::path root_;
  std::shared_ptr<Node> tree_;
  std::int64_t operations_ = 0;
  std::int64_t fail_at_ = kNever;
  std::int64_t fail_until_ = 0;
  std::int64_t power_until_ = kNever;
  int error_number_ = EIO;
};

class FaultyFileSystem::File : public WritableFile {
 public:
  File(std::shared_ptr<Disk> disk, std::shared_ptr<Node> node, stdfs::path path,
       std::unique_ptr<WritableFile> real)
      : disk_(std::move(disk)),
        node_(std::move(node)),
        path_(std::move(path)),
        real_(std::move(real)) {}

  void write(std::span<const std::byte> bytes) override {
    const bool fails = disk_->next_fails(path_);
    if (fails) bytes = bytes.first(bytes.size() / 2);
    real_->write(bytes);
    node_->seen_bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (fails) throw disk_->injected(path_);
  }

  void sync() override {
    disk_->begin(path_);
    node_->disk_bytes = node_->seen_bytes;
  }

  void close() override {
    disk_->check_power(path_);
    real_->close();
  }

 private:
  std::shared_ptr<Disk> disk_;
  std::shared_ptr<Node> node_;
  stdfs::path path_;
  std::unique_ptr<WritableFile> real_;
};

FaultyFileSystem::FaultyFileSystem(stdfs::path root)
    : disk_(std::make_shared<Disk>(std::move(root))) {}

FaultyFileSystem::~FaultyFileSystem() = default;

void FaultyFileSystem::fail_at(std::int64_t n, int error_number) {
  disk_->fail_at(n, error_number, false);
}

void FaultyFileSystem::fail_from(std::int64_t n, int error_number) {
  disk_->fail_at(n, error_number, true);
}

void FaultyFileSystem::lose_power_after(std::int64_t n) { disk_->lose_power_after(n); }

void FaultyFileSystem::clear_faults() { disk_->clear_faults(); }

std::int64_t FaultyFileSystem::operations() const { return disk_->operations(); }

bool FaultyFileSystem::power_lost() const { return disk_->power_lost(); }

void FaultyFileSystem::restart(UnsyncedData unsynced) { disk_->restart(unsynced); }

std::unique_ptr<WritableFile> FaultyFileSystem::create(const stdfs::path& path) {
  disk_->begin(path);
  auto real = real_file_system().create(path);
  std::shared_ptr<Node>& slot = disk_->folder_above(path).seen_names[path.filename().string()];
  if (!slot) slot = std::make_shared<Node>();
  slot->seen_bytes.clear();
  return std::make_unique<File>(disk_, slot, path, std::move(real));
}

std::unique_ptr<WritableFile> FaultyFileSystem::append(const stdfs::path& path) {
  disk_->begin(path);
  auto real = real_file_system().append(path);
  std::shared_ptr<Node>& slot = disk_->folder_above(path).seen_names[path.filename().string()];
  if (!slot) slot = std::make_shared<Node>();
  return std::make_unique<File>(disk_, slot, path, std::move(real));
}

void FaultyFileSystem::rename(const stdfs::path& from, const stdfs::path& to) {
  disk_->begin(to);
  real_file_system().rename(from, to);
  const auto node = disk_->find(from);
  disk_->folder_above(from).seen_names.erase(from.filename().string());
  disk_->folder_above(to).seen_names[to.filename().string()] = node;
}

void FaultyFileSystem::remove(const stdfs::path& path) {
  disk_->begin(path);
  real_file_system().remove(path);
  disk_->folder_above(path).seen_names.erase(path.filename().string());
}

void FaultyFileSystem::make_directory(const stdfs::path& path) {
  disk_->begin(path);
  real_file_system().make_directory(path);
  std::shared_ptr<Node>& slot = disk_->folder_above(path).seen_names[path.filename().string()];
  if (slot) return;
  slot = std::make_shared<Node>();
  slot->folder = true;
}

void FaultyFileSystem::sync_directory(const stdfs::path& path) {
  disk_->begin(path);
  const auto node = disk_->find(path);
  if (!node) throw FileError("the folder is not there", path, ENOENT);
  node->disk_names = node->seen_names;
}

bool FaultyFileSystem::exists(const stdfs::path& path) const {
  disk_->check_power(path);
  return real_file_system().exists(path);
}

bool FaultyFileSystem::is_directory(const stdfs::path& path) const {
  disk_->check_power(path);
  return real_file_system().is_directory(path);
}

std::vector<std::string> FaultyFileSystem::list(const stdfs::path& path) const {
  disk_->check_power(path);
  return real_file_system().list(path);
}

std::string FaultyFileSystem::read(const stdfs::path& path) const {
  disk_->check_power(path);
  return real_file_system().read(path);
}

}  // namespace phasescope::formats
