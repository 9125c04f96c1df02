#include "kernels/cpu/buffer.h"

#include <omp.h>

#include <algorithm>
#include <array>
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
constexpr std::int64_t kAnySize = std::int64_t{256} << 10;

struct Block {
  FloatBuffer buffer;
  std::int64_t size = 0;      ///< 0: none
  std::int64_t returned = 0;  ///< which of all that came back
};

/// Blocks that no call uses now.
class KeptBlocks {
 public:
  /// The smallest that has room for `size`; none of those that are so much larger that whoever had
  /// them would miss them.
  Block take(std::int64_t size) {
    const std::lock_guard lock(mutex_);
    Block* best = nullptr;
    for (Block& block : blocks_) {
      const bool fits = block.size >= size && block.size <= std::max(kAnySize, 4 * size);
      if (fits && (!best || block.size < best->size)) best = &block;
    }
    if (best) return std::exchange(*best, Block());
    make_room(size);
    return {};
  }

  void give_back(Block block) {
    const std::lock_guard lock(mutex_);
    make_room(block.size);
    block.returned = ++returned_;
    *std::min_element(blocks_.begin(), blocks_.end(), older) = std::move(block);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    for (Block& block : blocks_) block = Block();
  }

 private:
  /// Empty places are the oldest.
  static bool older(const Block& a, const Block& b) { return a.returned < b.returned; }

  /// Drops what came back longest ago until `size` more floats are within the limit.
  void make_room(std::int64_t size) {
    std::sort(blocks_.begin(), blocks_.end(), older);
    std::int64_t all = size;
    for (const Block& block : blocks_) all += block.size;
    for (Block& block : blocks_) {
      if (all <= kKeptFloats) return;
      all -= block.size;
      block = Block();
    }
  }

  std::mutex mutex_;
  std::array<Block, 4> blocks_;
  std::int64_t returned_ = 0;
};

KeptBlocks& kept() {
  static KeptBlocks blocks;
  return blocks;
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

KeptBuffer::KeptBuffer(std::int64_t size) {
  Block block = kept().take(size);
  const bool found = block.size > 0;
  buffer_ = found ? std::move(block.buffer) : FloatBuffer(size);
  size_ = found ? block.size : size;
}

void release_scratch() { kept().release(); }

KeptBuffer::~KeptBuffer() {
  if (size_ > 0 && size_ <= kKeptFloats) kept().give_back({std::move(buffer_), size_});
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
