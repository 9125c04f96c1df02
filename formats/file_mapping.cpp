#include "formats/file_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "formats/error.h"

namespace phasescope::formats {

// All of it is atomic: the handler runs in any thread at any time.
struct FileMapping::Guard {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // both 0: free
  std::atomic<bool> zeros{false};                // bytes have been replaced by zeros
};

namespace {

constexpr std::size_t kMostMappings = 4096;  // a handler cannot take memory for more

std::array<FileMapping::Guard, kMostMappings>& guards() {
  static std::array<FileMapping::Guard, kMostMappings> all;
  return all;
}

// One thread at a time takes and gives back guards, and installs the handler.
std::mutex& guards_mutex() {
  static std::mutex mutex;
  return mutex;
}

struct sigaction& handler_before() {
  static struct sigaction before = {};
  return before;
}

std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Zeros from the page of `address` to the end of its mapping. What is behind a cut is all gone, and
// one signal is enough to learn it.
bool replace_by_zeros(std::uintptr_t address) {
  for (FileMapping::Guard& guard : guards()) {
    const std::uintptr_t end = guard.end;
    if (address < guard.begin || address >= end) continue;
    const std::uintptr_t page = address / page_bytes() * page_bytes();
    guard.zeros = true;
    return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int error = errno;
  // What a process sends has no address.
  const bool of_memory = info->si_code > 0;
  if (of_memory && replace_by_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  // The address is none of ours: as if this handler were not there, the fault comes again behind
  // it.
  const struct sigaction& before = handler_before();
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    ::signal(number, SIG_DFL);
  }
}

// What the handler calls is made before it can be called.
bool install_handler() {
  guards();
  page_bytes();
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(SIGBUS, &action, &handler_before()) == 0;
}

FileMapping::Guard* free_guard() {
  static const bool installed = install_handler();
  if (!installed) return nullptr;
  for (FileMapping::Guard& guard : guards()) {
    if (guard.end == 0) return &guard;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const FileMapping> FileMapping::of(const ReadOnlyFile& file) {
  const std::lock_guard lock(guards_mutex());
  Guard* const guard = free_guard();
  if (guard == nullptr || file.size() == 0) return nullptr;
  ReadOnlyFile own = file.duplicate();
  void* const begin = ::mmap(nullptr, own.size(), PROT_READ, MAP_SHARED, own.descriptor(), 0);
  if (begin == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  guard->zeros = false;
  guard->begin = address;
  // Whole pages: the last one may be gone too.
  guard->end = address + (own.size() + page_bytes() - 1) / page_bytes() * page_bytes();
  const std::span bytes(static_cast<const std::byte*>(begin), own.size());
  return std::shared_ptr<const FileMapping>(new FileMapping(std::move(own), bytes, *guard));
}

FileMapping::~FileMapping() {
  const std::lock_guard lock(guards_mutex());
  // First of all: the addresses may be another thread's as soon as they are given back.
  guard_.end = 0;
  guard_.begin = 0;
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void FileMapping::check_unchanged() const {
  file_.check_unchanged();
  if (!guard_.zeros) return;
  throw bad_input("a part of the file could not be read while it was in use", path().string(),
                  "look at the disk, and open the model again");
}

}  // namespace phasescope::formats
