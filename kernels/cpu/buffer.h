#pragma once
// Aligned scratch memory and the parallel loop of the CPU kernels.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>

namespace phasescope::kernels {

/// Floats on a 64-byte boundary, not initialised unless asked.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(std::int64_t size)
      : data_(static_cast<float*>(::operator new[](
            static_cast<std::size_t>(size > 0 ? size : 1) * sizeof(float), kAlignment))) {}
  FloatBuffer(std::int64_t size, float value) : FloatBuffer(size) {
    for (std::int64_t i = 0; i < size; ++i) data_.get()[i] = value;
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, kAlignment); }
  };
  std::unique_ptr<float, Free> data_;
};

/// A FloatBuffer whose memory stays with the process for the next one. Memory that goes back to the
/// system costs the next call a page fault for every 4 KB: a quarter of the backward pass at 2048 x
/// 128, where it is the sums of dk and dv, and as much of a forward pass of 512 tokens, where it is
/// panels and weights. A few blocks are kept, of 128 MB at most together.
class KeptBuffer {
 public:
  explicit KeptBuffer(std::int64_t size);
  ~KeptBuffer();
  KeptBuffer(const KeptBuffer&) = delete;
  KeptBuffer& operator=(const KeptBuffer&) = delete;

  float* data() { return buffer_.data(); }

 private:
  FloatBuffer buffer_;
  std::int64_t size_;
};

/// As many floats for each of some threads.
class ThreadBuffers {
 public:
  ThreadBuffers(std::int64_t threads, std::int64_t size)
      : step_((size + kLine - 1) / kLine * kLine), memory_(threads * step_) {}

  float* of(std::int64_t thread) { return memory_.data() + thread * step_; }

 private:
  static constexpr std::int64_t kLine = 64;  // four cache lines: no two threads share a pair
  std::int64_t step_;
  KeptBuffer memory_;
};

/// Hands out the parts of some memory one after the other.
struct FloatParts {
  float* at;
  float* operator()(std::int64_t size) {
    float* part = at;
    at += size;
    return part;
  }
};

/// Number of OpenMP's threads.
int parallel_threads();
/// So many of them that buffers of `floats` each stay within kBuffersBytes together, at least one.
int threads_with(std::int64_t floats);
inline constexpr std::int64_t kBuffersBytes = std::int64_t{160} << 20;

/// Calls run(item, thread) for items 0..count-1 on OpenMP's threads, at most `threads` of them, in
/// no fixed order; thread is from 0 on, below `count` and the number of threads. What `run` throws
/// (an allocation that fails) is thrown from here once all threads have ended: the first of them;
/// items that no thread has begun by then are left out.
void parallel_items(std::int64_t count, const std::function<void(std::int64_t, int)>& run,
                    int threads = parallel_threads());

}  // namespace phasescope::kernels
