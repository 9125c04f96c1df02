// glibc's checked longjmp takes a jump between stacks for an error.
#undef _FORTIFY_SOURCE

#include "tests/kernels/cuda_emulation/emulator.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

phasescope::kernels::emulation::Index threadIdx, blockIdx, blockDim, gridDim;

namespace phasescope::kernels::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kPageBytes = 4096;
constexpr unsigned char kPoison = 0xFF, kGuard = 0xA5;
// Devices of compute capability 8.6 and 8.9 have the least: 99 KiB a block.
constexpr std::size_t kSharedLimit = 99 * 1024;

int open_ranges = 0;

/// 0 .. count - 1 in an order of its own each time; the same ones in every run of the program.
std::vector<unsigned> shuffled(std::size_t count) {
  static std::mt19937 random(1);
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// ---- Device memory ----

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

bool is_allocated(const void* from, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  auto found = allocations().upper_bound(at);
  if (found == allocations().begin()) return false;
  --found;
  return at + bytes <= found->first + found->second;
}

// ---- Shared memory ----

/// Four bytes of shared memory: who wrote and read them last, in which stretch between two
/// __syncthreads (from 1 on; 0 is never).
struct Word {
  enum class State : std::uint8_t { unwritten, in_flight, written };
  State state = State::unwritten;
  unsigned writer = 0;
  unsigned write_epoch = 0;
  unsigned write_warp_epoch = 0;
  int read_warp = -1;  // kSeveral: more than one
  unsigned read_epoch = 0;
};
constexpr int kSeveral = -2;

struct Copy {
  std::uint32_t to;
  const void* from;
  std::uint32_t bytes;
  bool valid;
};

// ---- Threads ----

struct Fiber {
  enum class State { ready, at_warp, at_block, done };
  State state = State::ready;
  bool started = false;
  ucontext_t first;
  jmp_buf at;
  std::unique_ptr<char[]> stack;
  WarpOperation operation = nullptr;
  void* lane = nullptr;
  Place where;
  std::vector<Copy> open_copies;
  std::vector<std::vector<Copy>> groups;
};

class Block {
 public:
  Block(unsigned threads, std::size_t shared_bytes, const std::function<void()>& body)
      : body_(body),
        fibers_(threads),
        shared_(shared_bytes),
        words_(shared_bytes / 4),
        warp_epochs_(threads / kWarp),
        warp_order_(shuffled(threads / kWarp)) {
    for (Fiber& fiber : fibers_) prepare(fiber);
  }

  void run() {
    std::fill(shared_.begin(), shared_.end(), kPoison);
    std::fill(words_.begin(), words_.end(), Word{});
    epoch_ = 1;
    for (unsigned n = 0; n < fibers_.size(); ++n) begin(n);
    for (bool more = true; more;) {
      for (const unsigned warp : warp_order_) run_warp(warp);
      more = release_barrier();
    }
  }

  // ---- For threads ----

  void join_warp(WarpOperation operation, void* lane, Place where) {
    Fiber& fiber = fibers_[now_];
    fiber.operation = operation;
    fiber.lane = lane;
    wait(Fiber::State::at_warp, where);
  }
  void join_block(Place where) { wait(Fiber::State::at_block, where); }
  void end_warp_epoch() { ++warp_epochs_[now_ / kWarp]; }

  void read(std::uint32_t offset, void* to, std::uint32_t bytes, Place where) {
    place_ = where;
    require_inside(offset, bytes);
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) check_read(words_[n]);
    std::memcpy(to, shared_.data() + offset, bytes);
  }

  void read_by_warp(std::uint32_t offset, void* to, std::uint32_t bytes) {
    read(offset, to, bytes, place_);
  }

  void write(std::uint32_t offset, const void* from, std::uint32_t bytes, Place where) {
    place_ = where;
    begin_write(offset, bytes);
    finish_write(offset, from, bytes);
  }

  void begin_copy(const Copy& copy, Place where) {
    place_ = where;
    if (copy.valid && !is_allocated(copy.from, copy.bytes)) {
      fail("copies from outside every allocation");
    }
    if (reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes != 0 ||
        copy.to % copy.bytes != 0) {
      fail("copies off its alignment");
    }
    begin_write(copy.to, copy.bytes);
    for (std::uint32_t n = copy.to / 4; n < (copy.to + copy.bytes) / 4; ++n) {
      words_[n].state = Word::State::in_flight;
    }
    fibers_[now_].open_copies.push_back(copy);
  }

  void commit_copies() {
    Fiber& fiber = fibers_[now_];
    fiber.groups.push_back(std::move(fiber.open_copies));
    fiber.open_copies.clear();
  }

  void wait_copies(std::size_t pending) {
    auto& groups = fibers_[now_].groups;
    while (groups.size() > pending) {
      for (const Copy& copy : groups.front()) {
        char data[16] = {};
        if (copy.valid) std::memcpy(data, copy.from, copy.bytes);
        finish_write(copy.to, data, copy.bytes);
      }
      groups.erase(groups.begin());
    }
  }

  [[noreturn]] void fail(const std::string& what) {
    message_ = "thread " + std::to_string(now_) + " of block " + std::to_string(blockIdx.x) + ", " +
               std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + " " + what +
               " at " + place_.file_name() + ":" + std::to_string(place_.line());
    if (in_fiber_) _longjmp(scheduler_, 1);
    throw std::runtime_error(message_);
  }

 private:
  // ---- Switching ----

  static void prepare(Fiber& fiber) {
    fiber.stack.reset(new char[kStackBytes]);
    getcontext(&fiber.first);
    fiber.first.uc_stack.ss_sp = fiber.stack.get();
    fiber.first.uc_stack.ss_size = kStackBytes;
    fiber.first.uc_link = nullptr;
    makecontext(&fiber.first, &Block::enter, 0);
  }

  void begin(unsigned n) {
    Fiber& fiber = fibers_[n];
    fiber.state = Fiber::State::ready;
    fiber.open_copies.clear();
    fiber.groups.clear();
  }

  static void enter();

  /// Back to the scheduler; returns when the thread goes on.
  void wait(Fiber::State state, Place where) {
    Fiber& fiber = fibers_[now_];
    fiber.state = state;
    fiber.where = where;
    if (_setjmp(fiber.at) == 0) _longjmp(scheduler_, 1);
  }

  /// Runs thread n until it waits or ends.
  void resume(unsigned n) {
    now_ = n;
    threadIdx = {n, 0, 0};
    in_fiber_ = true;
    if (_setjmp(scheduler_) == 0) {
      if (fibers_[n].started) _longjmp(fibers_[n].at, 1);
      fibers_[n].started = true;
      setcontext(&fibers_[n].first);
    }
    in_fiber_ = false;
    if (!message_.empty()) throw std::runtime_error(message_);
  }

  /// Runs a warp until it stands at __syncthreads or ends.
  void run_warp(unsigned warp) {
    const unsigned first = warp * kWarp;
    for (;;) {
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        if (fibers_[first + lane].state == Fiber::State::ready) resume(first + lane);
      }
      const Fiber& leader = fibers_[first];
      for (unsigned lane = 1; lane < kWarp; ++lane) require_together(leader, first + lane);
      if (leader.state != Fiber::State::at_warp) return;
      now_ = first;
      place_ = leader.where;
      void* lanes[kWarp];
      for (unsigned lane = 0; lane < kWarp; ++lane) lanes[lane] = fibers_[first + lane].lane;
      leader.operation(lanes);
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        fibers_[first + lane].state = Fiber::State::ready;
      }
    }
  }

  void require_together(const Fiber& leader, unsigned thread) {
    const Fiber& fiber = fibers_[thread];
    const bool same_place =
        leader.state == Fiber::State::done ||
        (leader.where.line() == fiber.where.line() &&
         leader.where.column() == fiber.where.column() && leader.operation == fiber.operation);
    if (leader.state == fiber.state && same_place) return;
    now_ = thread;
    place_ = fiber.state == Fiber::State::done ? leader.where : fiber.where;
    fail("is not where lane 0 of its warp is");
  }

  /// True where the block goes on.
  bool release_barrier() {
    const Fiber& leader = fibers_[0];
    for (unsigned n = 0; n < fibers_.size(); n += kWarp) {
      if (fibers_[n].state == leader.state) continue;
      now_ = n;
      place_ = leader.state == Fiber::State::done ? fibers_[n].where : leader.where;
      fail("and warp 0: one has ended, the other waits for the block");
    }
    if (leader.state == Fiber::State::done) return false;
    for (Fiber& fiber : fibers_) fiber.state = Fiber::State::ready;
    ++epoch_;
    return true;
  }

  // ---- Shared memory ----

  void require_inside(std::uint32_t offset, std::uint32_t bytes) {
    if (bytes % 4 != 0 || offset % bytes != 0) fail("uses shared memory off its alignment");
    if (offset + bytes > shared_.size()) fail("leaves the block's shared memory");
  }

  unsigned warp_epoch() const { return warp_epochs_[now_ / kWarp]; }

  void check_read(Word& word) {
    if (word.state == Word::State::unwritten) fail("reads shared memory that was never written");
    if (word.state == Word::State::in_flight) fail("reads a copy that was not waited for");
    require_ordered(word, "reads");
    const int warp = static_cast<int>(now_ / kWarp);
    word.read_warp = word.read_epoch != epoch_ || word.read_warp == warp ? warp : kSeveral;
    word.read_epoch = epoch_;
  }

  void begin_write(std::uint32_t offset, std::uint32_t bytes) {
    require_inside(offset, bytes);
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) {
      Word& word = words_[n];
      if (word.state == Word::State::in_flight) fail("overwrites a copy under way");
      if (word.state == Word::State::written) require_ordered(word, "overwrites");
      if (word.read_epoch == epoch_ && word.read_warp != static_cast<int>(now_ / kWarp)) {
        fail("overwrites what another warp reads, without __syncthreads between");
      }
    }
  }

  void require_ordered(const Word& word, const char* verb) {
    if (word.write_epoch != epoch_ || word.writer == now_) return;
    if (word.writer / kWarp != now_ / kWarp) {
      fail(std::string(verb) + " what another warp wrote, without __syncthreads between");
    }
    if (word.write_warp_epoch == warp_epoch()) {
      fail(std::string(verb) + " what another lane wrote, without __syncwarp between");
    }
  }

  void finish_write(std::uint32_t offset, const void* from, std::uint32_t bytes) {
    std::memcpy(shared_.data() + offset, from, bytes);
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) {
      words_[n].state = Word::State::written;
      words_[n].writer = now_;
      words_[n].write_epoch = epoch_;
      words_[n].write_warp_epoch = warp_epoch();
    }
  }

  const std::function<void()>& body_;
  std::vector<Fiber> fibers_;
  std::vector<unsigned char> shared_;
  std::vector<Word> words_;
  std::vector<unsigned> warp_epochs_;
  std::vector<unsigned> warp_order_;
  unsigned epoch_ = 1;
  unsigned now_ = 0;  // the running thread
  bool in_fiber_ = false;
  Place place_;
  jmp_buf scheduler_;
  std::string message_;
};

Block* running = nullptr;

void Block::enter() {
  for (;;) {  // once a block
    Block& block = *running;
    block.body_();
    Fiber& fiber = block.fibers_[block.now_];
    for (const auto& group : fiber.groups) {
      if (!group.empty()) block.fail("ends without waiting for its copies");
    }
    if (!fiber.open_copies.empty()) block.fail("ends without waiting for its copies");
    block.wait(Fiber::State::done, Place::current());
  }
}

}  // namespace

void run_kernel(Index grid, unsigned threads, std::size_t shared_bytes,
                const std::function<void()>& body) {
  if (threads == 0 || threads % kWarp != 0 || threads > 1024 || shared_bytes > kSharedLimit ||
      grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
    throw std::runtime_error("No device takes a launch of this size.");
  }
  if (open_ranges == 0) throw std::runtime_error("The launch is in no NVTX range.");
  gridDim = grid;
  blockDim = {threads, 1, 1};
  Block block(threads, shared_bytes, body);
  running = &block;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  for (const unsigned at : shuffled(blocks)) {
    blockIdx = {at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y};
    block.run();
  }
  running = nullptr;
}

Range::Range() { ++open_ranges; }
Range::~Range() { --open_ranges; }

void join_warp(WarpOperation operation, void* lane, Place where) {
  running->join_warp(operation, lane, where);
}
void join_block(Place where) { running->join_block(where); }
void join_warp_memory(Place where) {
  running->join_warp([](void* const*) { running->end_warp_epoch(); }, nullptr, where);
}

void read_shared(std::uint32_t offset, void* to, std::uint32_t bytes, Place where) {
  running->read(offset, to, bytes, where);
}
void warp_read_shared(std::uint32_t offset, void* to, std::uint32_t bytes) {
  running->read_by_warp(offset, to, bytes);
}
void write_shared(std::uint32_t offset, const void* from, std::uint32_t bytes, Place where) {
  running->write(offset, from, bytes, where);
}

void copy_async(std::uint32_t to, const void* from, std::uint32_t bytes, bool valid, Place where) {
  running->begin_copy({to, from, bytes, valid}, where);
}
void commit_copies() { running->commit_copies(); }
void wait_copies(std::size_t pending) { running->wait_copies(pending); }

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
