#include "formats/file_system.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "formats/error.h"
#include "formats/unique_fd.h"

namespace phasescope::formats {
namespace {

namespace stdfs = std::filesystem;

std::string hint_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space on that disk or choose another folder";
    case EROFS:
      return "the disk is read-only; choose another folder";
    case EACCES:
    case EPERM:
      return "check the permissions or choose another folder";
    case ENOENT:
      return "check the path";
    default:
      return {};
  }
}

[[noreturn]] void fail(const std::string& doing, const stdfs::path& path, int error_number) {
  throw FileError("cannot " + doing + ": " + std::strerror(error_number), path, error_number);
}

int open_again_when_interrupted(const stdfs::path& path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool is_pipe(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

// As long as a shell may take to start what writes into a named pipe.
constexpr std::chrono::seconds kWaitForWriter{5};

// Returns once a pipe, open without waiting, has had a writer. As long as there was none it reads
// as at its end; with one that has written nothing yet there is nothing to read (EAGAIN).
void wait_for_writer(int fd, const stdfs::path& path,
                     const std::function<void(std::span<const std::byte>)>& take) {
  const auto latest = std::chrono::steady_clock::now() + kWaitForWriter;
  while (true) {
    std::byte first;
    const ssize_t count = ::read(fd, &first, 1);
    if (count > 0) take(std::span(&first, 1));
    if (count > 0 || (count < 0 && errno == EAGAIN)) return;
    pollfd state{fd, POLLIN, 0};
    ::poll(&state, 1, 20);
    if ((state.revents & POLLHUP) != 0) return;  // it has been and gone
    if (std::chrono::steady_clock::now() < latest) continue;
    throw bad_input("nobody writes into this pipe", path.string(),
                    "start what writes into it, or give a file");
  }
}

void sync_descriptor(int fd, const std::string& doing, const stdfs::path& path) {
  // Pipes and devices cannot be synced and say EINVAL.
  if (::fsync(fd) != 0 && errno != EINVAL) fail(doing, path, errno);
}

class RealFile : public WritableFile {
 public:
  RealFile(int fd, stdfs::path path) : fd_(fd), path_(std::move(path)) {}

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void sync() override { sync_descriptor(fd_.get(), "write", path_); }

  void close() override {
    const int fd = fd_.release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail("write", path_, errno);
  }

 private:
  UniqueFd fd_;
  stdfs::path path_;
};

class RealFileSystem : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const stdfs::path& path) override {
    return open_for_writing(path, O_TRUNC);
  }

  std::unique_ptr<WritableFile> append(const stdfs::path& path) override {
    return open_for_writing(path, O_APPEND);
  }

  void rename(const stdfs::path& from, const stdfs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      fail("rename " + from.filename().string(), to, errno);
    }
  }

  void remove(const stdfs::path& path) override {
    if (::remove(path.c_str()) != 0 && errno != ENOENT) fail("remove", path, errno);
  }

  void make_directory(const stdfs::path& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return;
    const int error_number = errno;
    if (error_number != EEXIST || !is_directory(path)) fail("make the folder", path, error_number);
  }

  void sync_directory(const stdfs::path& path) override {
    const UniqueFd fd(open_again_when_interrupted(path, O_RDONLY | O_DIRECTORY));
    if (!fd) fail("open the folder", path, errno);
    sync_descriptor(fd.get(), "sync the folder", path);
  }

  bool exists(const stdfs::path& path) const override {
    std::error_code ignored;
    return stdfs::exists(path, ignored);
  }

  bool is_directory(const stdfs::path& path) const override {
    std::error_code ignored;
    return stdfs::is_directory(path, ignored);
  }

  std::vector<std::string> list(const stdfs::path& path) const override {
    std::error_code error;
    stdfs::directory_iterator it(path, error);
    std::vector<std::string> names;
    for (; !error && it != stdfs::directory_iterator(); it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) fail("list the folder", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string read(const stdfs::path& path) const override {
    std::error_code ignored;
    std::string text;
    if (stdfs::is_regular_file(path, ignored)) text.reserve(stdfs::file_size(path, ignored));
    read_pieces(path, [&text](std::span<const std::byte> piece) {
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    return text;
  }

  void read_pieces(const stdfs::path& path,
                   const std::function<void(std::span<const std::byte>)>& take) const override {
    // Without O_NONBLOCK a named pipe would wait for its writer, for ever where there is none.
    const UniqueFd fd(open_again_when_interrupted(path, O_RDONLY | O_NONBLOCK));
    if (!fd) fail("open", path, errno);
    if (is_pipe(fd.get())) wait_for_writer(fd.get(), path, take);
    ::fcntl(fd.get(), F_SETFL, 0);
    std::vector<std::byte> piece(1 << 18);
    while (true) {
      const ssize_t count = ::read(fd.get(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("read", path, errno);
      if (count == 0) return;
      take(std::span(piece).first(static_cast<std::size_t>(count)));
    }
  }

 private:
  std::unique_ptr<WritableFile> open_for_writing(const stdfs::path& path, int flag) {
    const int fd = open_again_when_interrupted(path, O_WRONLY | O_CREAT | flag, 0666);
    if (fd < 0) fail("write", path, errno);
    return std::make_unique<RealFile>(fd, path);
  }
};

stdfs::path folder_of(const stdfs::path& path) {
  const stdfs::path parent = path.parent_path();
  return parent.empty() ? stdfs::path(".") : parent;
}

// Other processes and threads may be writing the same file: each gets a temporary name of its own.
stdfs::path temporary_name(const stdfs::path& path) {
  static std::atomic<unsigned> counter{0};
  stdfs::path name = path;
  name += '.' + std::to_string(::getpid()) + '-' + std::to_string(counter++) + ".tmp";
  return name;
}

// /dev/stdout, a pipe: written into, never replaced.
bool is_device_or_pipe(const stdfs::path& path) {
  std::error_code ignored;
  const auto status = stdfs::status(path, ignored);
  return stdfs::exists(status) && !stdfs::is_regular_file(status) && !stdfs::is_directory(status);
}

void fill_file(FileSystem& fs, const stdfs::path& path,
               const std::function<void(WritableFile&)>& fill) {
  const auto file = fs.create(path);
  fill(*file);
  file->sync();
  file->close();
}

void remove_quietly(FileSystem& fs, const stdfs::path& path) {
  try {
    fs.remove(path);
  } catch (const FileError&) {
    // The error that led here is the one to report.
  }
}

}  // namespace

FileError::FileError(const std::string& message, const stdfs::path& path, int error_number,
                     bool content_in_place)
    : Error("bad_input", message, path.string(), hint_for(error_number)),
      error_number_(error_number),
      content_in_place_(content_in_place) {}

FileSystem& real_file_system() {
  static RealFileSystem fs;
  return fs;
}

void write_file_atomically_with(FileSystem& fs, const stdfs::path& path,
                                const std::function<void(WritableFile&)>& fill) {
  if (is_device_or_pipe(path)) return fill_file(fs, path, fill);
  const stdfs::path temporary = temporary_name(path);
  try {
    fill_file(fs, temporary, fill);
    fs.rename(temporary, path);
  } catch (...) {
    remove_quietly(fs, temporary);
    throw;
  }
  try {
    fs.sync_directory(folder_of(path));
  } catch (const FileError& error) {
    throw FileError("the file is written, but may not survive a power loss: " + error.message(),
                    path, error.error_number(), true);
  }
}

void write_file_atomically(FileSystem& fs, const stdfs::path& path,
                           std::span<const std::byte> bytes) {
  write_file_atomically_with(fs, path, [&](WritableFile& file) { file.write(bytes); });
}

void write_file_atomically(FileSystem& fs, const stdfs::path& path, std::string_view text) {
  write_file_atomically(fs, path, std::as_bytes(std::span(text)));
}

void make_directories(FileSystem& fs, const stdfs::path& path) {
  if (path.empty() || fs.is_directory(path)) return;
  make_directories(fs, path.parent_path());
  if (path.has_filename()) fs.make_directory(path);
}

void remove_tree(FileSystem& fs, const stdfs::path& path) {
  std::error_code ignored;
  const bool link = stdfs::is_symlink(stdfs::symlink_status(path, ignored));
  if (!link && fs.is_directory(path)) {
    for (const std::string& name : fs.list(path)) remove_tree(fs, path / name);
  }
  fs.remove(path);
}

}  // namespace phasescope::formats
