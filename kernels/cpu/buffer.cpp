#include "kernels/cpu/buffer.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/scratch.h"

#ifdef __SANITIZE_THREAD__  // gcc
#define PHASESCOPE_THREAD_SANITIZER 1
#elif defined(__has_feature)  // clang
#define PHASESCOPE_THREAD_SANITIZER __has_feature(thread_sanitizer)
#endif

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

#if PHASESCOPE_THREAD_SANITIZER
/// ThreadSanitizer does not see how the threads of OpenMP's library wait for each other, and would
/// call every result a race: for it they are threads of the standard library.
template <class RunOne>
void on_threads(std::int64_t count, int threads, const RunOne& run_one) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&] {
      int thread = -1;
      for (std::int64_t item; (item = next++) < count;) run_one(item, thread);
    });
  }
  for (std::thread& one : team) one.join();
}
#else
template <class RunOne>
void on_threads(std::int64_t count, int threads, const RunOne& run_one) {
#pragma omp parallel num_threads(threads)
  {
    int thread = -1;
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < count; ++item) run_one(item, thread);
  }
}
#endif

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
  const auto run_one = [&](std::int64_t item, int& thread) {
    if (failed.load(std::memory_order_relaxed)) return;
    if (thread < 0) thread = numbered++;
    try {
      run(item, thread);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  on_threads(count, threads, run_one);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace phasescope::kernels
