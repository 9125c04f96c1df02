#pragma once
// How much dynamic shared memory a kernel may have: said to the driver once, not before every
// launch.

#include <map>
#include <mutex>
#include <utility>

namespace phasescope::kernels::cuda {

/// The limits that were set, by kernel and device. They only rise: a thread that launches a kernel
/// with less than another thread does not take from it what that one has just asked for.
class SharedLimits {
 public:
  /// A block has so many bytes without a word.
  static constexpr int kGiven = 48 * 1024;

  /// Calls set(bytes) where `kernel` may not have so many on `device` yet. What `set` throws leaves
  /// the limit as it was.
  template <class Set>
  void require(const void* kernel, int device, int bytes, const Set& set) {
    if (bytes <= kGiven) return;
    const std::lock_guard lock(mutex_);
    int& limit = limits_[{kernel, device}];
    if (bytes <= limit) return;
    set(bytes);
    limit = bytes;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const void*, int>, int> limits_;
};

}  // namespace phasescope::kernels::cuda
