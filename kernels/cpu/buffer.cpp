#include "kernels/cpu/buffer.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
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
#pragma omp parallel num_threads(threads)
  {
    int thread = -1;
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < count; ++item) {
      if (thread < 0) thread = numbered++;
      run(item, thread);
    }
  }
}

}  // namespace phasescope::kernels
