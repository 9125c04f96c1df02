#include "worker/stdio_guard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace phasescope::worker {

namespace {

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

}  // namespace

FrameFds take_standard_streams() {
  FrameFds fds{formats::UniqueFd(checked(::fcntl(0, F_DUPFD_CLOEXEC, 3), "standard input")),
               formats::UniqueFd(checked(::fcntl(1, F_DUPFD_CLOEXEC, 3), "standard output"))};
  const formats::UniqueFd null(checked(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null"));
  checked(::dup2(null.get(), 0), "standard input");
  checked(::dup2(2, 1), "standard output");
  return fds;
}

}  // namespace phasescope::worker
