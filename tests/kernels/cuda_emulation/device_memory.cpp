#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>

#include "tests/kernels/cuda_emulation/emulator.h"

namespace phasescope::kernels::emulation {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr unsigned char kPoison = 0xFF, kGuard = 0xA5;

std::map<std::uintptr_t, std::size_t>& allocations() {
  static std::map<std::uintptr_t, std::size_t> all;
  return all;
}

/// An allocation of so many bytes: the data end where a page begins that is not there, but for
/// their alignment of 16 bytes, and at least a page of guard bytes comes before them.
struct Pages {
  explicit Pages(std::size_t bytes)
      : size((bytes + kPageBytes - 1) / kPageBytes * kPageBytes + 2 * kPageBytes),
        data(size - kPageBytes - (bytes + 15) / 16 * 16) {}
  std::size_t size;
  std::size_t data;  // where the data begin
};

}  // namespace

bool is_allocated(const void* from, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  auto found = allocations().upper_bound(at);
  if (found == allocations().begin()) return false;
  --found;
  return at + bytes <= found->first + found->second;
}

void* allocate(std::size_t bytes) {
  // [first page: guard ... guard, data, up to 15 of guard][last page: not there]
  const Pages pages(bytes);
  void* mapped =
      mmap(nullptr, pages.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<unsigned char*>(mapped);
  if (mprotect(first + pages.size - kPageBytes, kPageBytes, PROT_NONE) != 0) throw std::bad_alloc();
  std::memset(first, kGuard, pages.size - kPageBytes);
  std::memset(first + pages.data, kPoison, bytes);
  allocations()[reinterpret_cast<std::uintptr_t>(first + pages.data)] = bytes;
  return first + pages.data;
}

void release(void* data) {
  if (!data) return;
  const auto found = allocations().find(reinterpret_cast<std::uintptr_t>(data));
  if (found == allocations().end()) throw std::runtime_error("This is no allocation.");
  const std::size_t bytes = found->second;
  allocations().erase(found);
  const Pages pages(bytes);
  auto* first = static_cast<unsigned char*>(data) - pages.data;
  const auto is_guard = [](unsigned char byte) { return byte == kGuard; };
  const bool whole =
      std::all_of(first, first + pages.data, is_guard) &&
      std::all_of(first + pages.data + bytes, first + pages.size - kPageBytes, is_guard);
  munmap(first, pages.size);
  if (!whole) throw std::runtime_error("A kernel wrote outside an allocation.");
}

}  // namespace phasescope::kernels::emulation
