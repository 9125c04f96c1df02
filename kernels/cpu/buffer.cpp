#include "kernels/cpu/buffer.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "kernels/scratch.h"

namespace phasescope::kernels {
namespace {

constexpr std::int64_t kKeptFloats = std::int64_t{32} << 20;

/// The block that no call uses now.
struct Kept {
  std::mutex mutex;
  FloatBuffer buffer;
  std::int64_t size = 0;
};

Kept& kept() {
  static Kept block;
  return block;
}

}  // namespace

KeptBuffer::KeptBuffer(std::int64_t size) : size_(size) {
  {
    Kept& block = kept();
    const std::lock_guard lock(block.mutex);
    if (block.size >= size) {
      buffer_ = std::move(block.buffer);
      size_ = std::exchange(block.size, 0);
      return;
    }
    block.buffer = FloatBuffer();  // too small: not held beside its successor
    block.size = 0;
  }
  buffer_ = FloatBuffer(size);
}

void release_scratch() {
  Kept& block = kept();
  const std::lock_guard lock(block.mutex);
  block.buffer = FloatBuffer();
  block.size = 0;
}

KeptBuffer::~KeptBuffer() {
  if (size_ > kKeptFloats) return;
  Kept& block = kept();
  const std::lock_guard lock(block.mutex);
  if (block.size >= size_) return;
  block.buffer = std::move(buffer_);
  block.size = size_;
}

int parallel_threads() { return omp_get_max_threads(); }

int threads_with(std::int64_t floats) {
  const std::int64_t bytes = floats * std::int64_t{sizeof(float)};
  return static_cast<int>(std::clamp<std::int64_t>(kBuffersBytes / bytes, 1, parallel_threads()));
}

void parallel_items(std::int64_t count, const std::function<void(std::int64_t, int)>& run,
                    int threads) {
  if (count == 1) {
    run(0, 0);
    return;
  }
  std::atomic<int> numbered{0};  // those with an item: of many threads few may have one
  // An exception that left the parallel region would end the process.
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    int thread = -1;
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < count; ++item) {
      if (failed.load(std::memory_order_relaxed)) continue;
      if (thread < 0) thread = numbered++;
      try {
        run(item, thread);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace phasescope::kernels
