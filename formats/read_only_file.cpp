#include "formats/read_only_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "formats/error.h"
#include "formats/file_system.h"

namespace phasescope::formats {
namespace {

Error changed_file(const std::filesystem::path& path) {
  return bad_input("the file was cut short or rewritten after it was opened", path.string(),
                   "open the model again");
}

}  // namespace

ReadOnlyFile::ReadOnlyFile(std::filesystem::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK a named pipe would wait for its writer.
  fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  const int failed = !fd_ || ::fstat(fd_.get(), &status) != 0 ? errno : 0;
  if (failed == 0 && S_ISREG(status.st_mode)) {
    stamp_ = {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
              status.st_mtim.tv_nsec};
    return;
  }
  if (failed != 0) {
    throw FileError(std::string("cannot open: ") + std::strerror(failed), path_, failed);
  }
  throw bad_input("this is not a file", path_.string());
}

void ReadOnlyFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw FileError(std::string("cannot read: ") + std::strerror(errno), path_, errno);
    }
    if (count == 0) throw changed_file(path_);
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

ReadOnlyFile ReadOnlyFile::duplicate() const {
  ReadOnlyFile copy;
  copy.path_ = path_;
  copy.stamp_ = stamp_;
  copy.fd_.reset(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.fd_) {
    throw FileError(std::string("cannot open: ") + std::strerror(errno), path_, errno);
  }
  return copy;
}

void ReadOnlyFile::check_unchanged() const {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0 ||
      Stamp{static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
            status.st_mtim.tv_nsec} != stamp_) {
    throw changed_file(path_);
  }
}

}  // namespace phasescope::formats
