#include "guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>

namespace phasescope::model {

GuardedMemory& GuardedMemory::shared() {
  static auto* one = new GuardedMemory;  // never taken down: tensors may outlive it
  return *one;
}

GuardedMemory::GuardedMemory() {
  void* begin =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<char*>(begin);
}

void GuardedMemory::protect() {
  if (used_ == 0) return;
  const bool shut = guarded_ && open_ == 0;
  if (mprotect(begin_, used_, shut ? PROT_NONE : PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
}

void GuardedMemory::guard(bool on) {
  const std::lock_guard lock(mutex_);
  guarded_ = on;
  protect();
}

void GuardedMemory::open() {
  const std::lock_guard lock(mutex_);
  if (open_++ == 0 && guarded_) protect();
}

void GuardedMemory::close() {
  const std::lock_guard lock(mutex_);
  if (--open_ == 0 && guarded_) protect();
}

void* GuardedMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const int power = std::max(kSmallest, static_cast<int>(std::bit_width(bytes - 1)));
  if (power > kLargest) throw std::bad_alloc();
  std::vector<void*>& pieces = free_[static_cast<std::size_t>(power)];
  if (!pieces.empty()) {
    void* piece = pieces.back();
    pieces.pop_back();
    return piece;
  }
  const std::size_t begin = given_, size = std::size_t{1} << power;
  if (size > kReserved - begin) throw std::bad_alloc();
  given_ += size;
  powers_.resize(given_ >> kSmallest);
  powers_[begin >> kSmallest] = power;
  if (given_ > used_) {
    used_ = (given_ + kStep - 1) / kStep * kStep;
    protect();
  }
  return begin_ + begin;
}

void GuardedMemory::free(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto begin = static_cast<std::size_t>(static_cast<char*>(memory) - begin_);
  free_[static_cast<std::size_t>(powers_[begin >> kSmallest])].push_back(memory);
}

bool GuardedMemory::holds(const void* memory) const {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const auto begin = reinterpret_cast<std::uintptr_t>(begin_);
  return at >= begin && at < begin + kReserved;
}

}  // namespace phasescope::model
