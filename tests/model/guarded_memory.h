#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

// Memory that nobody may touch but between open() and close(): who reads or writes it at another
// time dies by SIGSEGV.

namespace phasescope::model {

class GuardedMemory {
 public:
  static GuardedMemory& shared();

  // From now on it is guarded, until it is not; what was allocated stays.
  void guard(bool on);
  bool guards() const { return guarded_; }
  // Nested calls are counted; all threads may touch it between the first and the last.
  void open();
  void close();

  void* allocate(std::size_t bytes);
  void free(void* memory);
  bool holds(const void* memory) const;

 private:
  static constexpr std::size_t kReserved = std::size_t{8} << 30;  // of addresses, not of memory
  static constexpr std::size_t kStep = std::size_t{1} << 20;      // by which what is used grows
  static constexpr int kSmallest = 6, kLargest = 40;              // powers of two of a piece's size

  GuardedMemory();
  void protect();  // all that is used, as it is to be now

  std::mutex mutex_;
  char* begin_ = nullptr;
  std::size_t given_ = 0, used_ = 0;  // bytes: handed out so far, and with pages
  int open_ = 0;
  bool guarded_ = false;
  std::array<std::vector<void*>, kLargest + 1> free_;  // by the power of two
  std::vector<int> powers_;  // of each 64 bytes of it: where a piece begins
};

}  // namespace phasescope::model
