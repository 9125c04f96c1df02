#include "tests/kernels/cuda_emulation/emulator.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/cuda_emulation/block_state.h"

phasescope::kernels::emulation::Index threadIdx, blockIdx, blockDim, gridDim;

namespace phasescope::kernels::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 128 * 1024;
constexpr unsigned char kPoison = 0xFF;

int open_ranges = 0;

/// To where __builtin_setjmp filled the place, which must be in another function. The compiler's
/// own jump: the library's takes a jump between stacks for an error, and costs several times as
/// much.
[[noreturn, gnu::noinline]] void jump(JumpPlace& to) { __builtin_longjmp(to, 1); }

/// 0 .. count - 1 in an order of its own each time; the same ones in every run of the program.
std::vector<unsigned> shuffled(std::size_t count) {
  static std::mt19937 random(1);
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

class Block {
 public:
  Block(unsigned threads, std::size_t shared_bytes, const std::function<void()>& body)
      : body_(body),
        fibers_(threads),
        shared_(shared_bytes),
        words_(shared_bytes / 4),
        reads_(shared_bytes / 4 * (threads / kWarp)),
        warps_(threads / kWarp),
        warp_epochs_(threads / kWarp),
        products_(threads / kWarp),
        warp_order_(shuffled(threads / kWarp)) {
    for (Fiber& fiber : fibers_) prepare(fiber);
  }

  void run() {
    std::fill(shared_.begin(), shared_.end(), kPoison);
    std::fill(words_.begin(), words_.end(), Word{});
    std::fill(reads_.begin(), reads_.end(), 0);
    clocks_.assign(warps_, Clock(warps_ + kBarriers));
    for (unsigned warp = 0; warp < warps_; ++warp) clocks_[warp][warp] = 1;
    phases_.clear();
    named_.clear();
    for (unsigned n = 0; n < fibers_.size(); ++n) begin(n);
    for (bool more = true; more;) {
      bool ran = false;
      for (const unsigned warp : warp_order_) ran = run_warp(warp) || ran;
      more = ran || release_barrier();
    }
    for (const WarpProducts& products : products_) {
      if (!products.empty()) fail("ends without waiting for its products");
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
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) check_read(n);
    std::memcpy(to, shared_.data() + offset, bytes);
  }

  /// Likewise what copies of tensors brought: tensor cores see what threads wrote after a fence
  /// alone, which no kernel here needs.
  void read_copied(std::uint32_t offset, void* to, std::uint32_t bytes) {
    read(offset, to, bytes, place_);
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) {
      if (words_[n].source < warps_) fail("multiplies what threads wrote");
    }
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

  // ---- Barriers of less than the block ----

  void make_barrier(std::uint32_t offset, unsigned count, Place where) {
    place_ = where;
    if (offset % 8 != 0) fail("makes a barrier off its alignment");
    begin_write(offset, 4), begin_write(offset + 4, 4);
    words_[offset / 4].state = words_[offset / 4 + 1].state = Word::State::barrier;
    PhaseBarrier barrier;
    barrier.count = barrier.pending = count;
    barrier.known = barrier.done = Clock(warps_ + kBarriers);
    barrier.maker = warp(), barrier.made = clock()[warp()];
    barrier.number = warps_ + phases_.size();
    if (phases_.size() == kBarriers || !phases_.emplace(offset, barrier).second) {
      fail("makes a barrier where one is, or too many");
    }
  }
  void fence_barriers() {
    for (auto& [offset, barrier] : phases_) barrier.fenced = true;
  }
  void arrive(std::uint32_t offset, std::uint32_t bytes, Place where) {
    PhaseBarrier& barrier = barrier_at(offset, where);
    learn(barrier.known, clock());
    ++clock()[warp()];
    barrier.bytes += bytes;
    count_arrivals(barrier, 1);
  }
  void copy_tile(std::uint32_t to, std::uint32_t bytes, std::uint32_t offset,
                 const std::function<void(char*)>& tile, Place where) {
    PhaseBarrier& barrier = barrier_at(offset, where);
    if (!barrier.fenced) fail("copies to a barrier that is not fenced");
    if (to % 1024 != 0) fail("copies a tile off its alignment");
    require_inside_all(to, bytes);
    begin_copied(to, bytes);
    barrier.under_way.push_back({.tile = tile, .to = to, .bytes = bytes});
  }
  /// The thread's copies arrive there.
  void arrive_with_copies(std::uint32_t offset, Place where) {
    PhaseBarrier& barrier = barrier_at(offset, where);
    Fiber& fiber = fibers_[now_];
    Arrival arrival{.arrivals = 1};
    for (auto& group : fiber.groups) {
      arrival.copies.insert(arrival.copies.end(), group.begin(), group.end());
    }
    arrival.copies.insert(arrival.copies.end(), fiber.open_copies.begin(), fiber.open_copies.end());
    fiber.groups.clear(), fiber.open_copies.clear();
    barrier.under_way.push_back(std::move(arrival));
  }
  void wait_phase(std::uint32_t offset, unsigned parity, Place where) {
    PhaseBarrier& barrier = barrier_at(offset, where);
    wait_until(
        [this, &barrier, parity] {
          if (barrier.phase % 2 == parity) deliver(barrier);
          if (barrier.phase % 2 == parity) return false;
          learn(clock(), barrier.done);
          return true;
        },
        where);
  }
  void join_named(unsigned id, unsigned threads, Place where) {
    NamedBarrier& barrier = named_[id];
    const unsigned generation = barrier.generation, thread = now_;
    if (barrier.known.empty()) barrier.known = barrier.done = Clock(warps_ + kBarriers);
    if (thread % kWarp == 0) {
      learn(barrier.known, clock());
      ++clock()[warp()];
      if (++barrier.arrived == threads / kWarp) {
        ++barrier.generation;
        barrier.arrived = 0;
        barrier.done = barrier.known;
      }
    }
    wait_until(
        [this, &barrier, generation] {
          if (barrier.generation == generation) return false;
          learn(clock(), barrier.done);
          ++warp_epochs_[warp()];
          return true;
        },
        where);
  }

  // ---- Products of the tensor cores that run on ----

  WarpProducts& products() { return products_[warp()]; }

  [[noreturn]] void fail(const std::string& what) {
    message_ = "thread " + std::to_string(now_) + " of block " + std::to_string(blockIdx.x) + ", " +
               std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + " " + what +
               " at " + place_.file_name() + ":" + std::to_string(place_.line());
    if (in_fiber_) jump(scheduler_);
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

  /// To the next lane of the warp that can go on, else to the scheduler; returns when the thread
  /// goes on.
  void wait(Fiber::State state, Place where) {
    Fiber& fiber = fibers_[now_];
    fiber.state = state;
    fiber.where = where;
    if (__builtin_setjmp(fiber.at) == 0) leave();
  }
  [[noreturn]] void leave() {
    const unsigned next = now_ + 1;
    if (next % kWarp == 0 || fibers_[next].state != Fiber::State::ready || !fibers_[next].started) {
      jump(scheduler_);
    }
    now_ = next;
    threadIdx = {next, 0, 0};
    jump(fibers_[next].at);
  }

  /// Runs thread n, and the lanes after it that it goes on to, until they wait or end.
  void resume(unsigned n) {
    now_ = n;
    threadIdx = {n, 0, 0};
    in_fiber_ = true;
    if (__builtin_setjmp(scheduler_) == 0) {
      if (fibers_[n].started) jump(fibers_[n].at);
      fibers_[n].started = true;
      setcontext(&fibers_[n].first);
    }
    in_fiber_ = false;
    if (!message_.empty()) throw std::runtime_error(message_);
  }

  /// All lanes of a warp call it; they go on once `may` says so, which is asked of the first.
  void wait_until(std::function<bool()> may, Place where) {
    fibers_[now_].may_go_on = std::move(may);
    join_warp(&Block::wait_together, nullptr, where);
  }
  static void wait_together(void* const*) {}

  /// Runs a warp until it stands at __syncthreads, or at a barrier that holds it, or ends. Whether
  /// it did anything.
  bool run_warp(unsigned warp) {
    const unsigned first = warp * kWarp;
    bool ran = false;
    for (;;) {
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        if (fibers_[first + lane].state != Fiber::State::ready) continue;
        resume(first + lane);
        ran = true;
      }
      const Fiber& leader = fibers_[first];
      for (unsigned lane = 1; lane < kWarp; ++lane) require_together(leader, first + lane);
      if (leader.state != Fiber::State::at_warp) return ran;
      now_ = first;
      place_ = leader.where;
      if (leader.may_go_on) {
        if (!leader.may_go_on()) return ran;
        for (unsigned lane = 0; lane < kWarp; ++lane) fibers_[first + lane].may_go_on = nullptr;
      }
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
      if (fibers_[n].state != Fiber::State::at_warp) continue;
      now_ = n;
      place_ = fibers_[n].where;
      fail("waits for a barrier that no one completes");
    }
    for (unsigned n = 0; n < fibers_.size(); n += kWarp) {
      if (fibers_[n].state == leader.state) continue;
      now_ = n;
      place_ = leader.state == Fiber::State::done ? fibers_[n].where : leader.where;
      fail("and warp 0: one has ended, the other waits for the block");
    }
    if (leader.state == Fiber::State::done) return false;
    for (Fiber& fiber : fibers_) fiber.state = Fiber::State::ready;
    Clock all(warps_ + kBarriers);
    for (const Clock& clock : clocks_) learn(all, clock);
    for (unsigned warp = 0; warp < warps_; ++warp) {
      clocks_[warp] = all;
      ++clocks_[warp][warp];
      ++warp_epochs_[warp];
    }
    return true;
  }

  // ---- Shared memory ----

  void require_inside(std::uint32_t offset, std::uint32_t bytes) {
    if (bytes % 4 != 0 || offset % bytes != 0) fail("uses shared memory off its alignment");
    if (offset + bytes > shared_.size()) fail("leaves the block's shared memory");
  }

  unsigned warp() const { return now_ / kWarp; }
  unsigned warp_epoch() const { return warp_epochs_[warp()]; }
  Clock& clock() { return clocks_[warp()]; }

  void check_read(std::uint32_t n) {
    const Word& word = words_[n];
    if (word.state == Word::State::unwritten) fail("reads shared memory that was never written");
    if (word.state == Word::State::in_flight) fail("reads a copy that was not waited for");
    if (word.state == Word::State::barrier) fail("reads a barrier");
    require_ordered(word, "reads");
    reads_[n * warps_ + warp()] = clock()[warp()];
  }

  void begin_write(std::uint32_t offset, std::uint32_t bytes) {
    require_inside(offset, bytes);
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) check_write(n);
  }
  void check_write(std::uint32_t n) {
    const Word& word = words_[n];
    if (word.state == Word::State::in_flight) fail("overwrites a copy under way");
    if (word.state == Word::State::barrier) fail("overwrites a barrier");
    if (word.state == Word::State::written) require_ordered(word, "overwrites");
    for (unsigned other = 0; other < warps_; ++other) {
      if (other != warp() && reads_[n * warps_ + other] > clock()[other]) {
        fail("overwrites what another warp reads, without __syncthreads between");
      }
    }
  }

  void require_ordered(const Word& word, const char* verb) {
    if (word.source >= warps_) {
      if (word.time > clock()[word.source]) {
        fail(std::string(verb) + " a copy whose barrier it has not waited for");
      }
      return;
    }
    if (word.source != warp()) {
      if (word.time > clock()[word.source]) {
        fail(std::string(verb) + " what another warp wrote, without __syncthreads between");
      }
      return;
    }
    if (word.writer != now_ && word.warp_epoch == warp_epoch()) {
      fail(std::string(verb) + " what another lane wrote, without __syncwarp between");
    }
  }

  void finish_write(std::uint32_t offset, const void* from, std::uint32_t bytes) {
    std::memcpy(shared_.data() + offset, from, bytes);
    for (std::uint32_t n = offset / 4; n < (offset + bytes) / 4; ++n) {
      words_[n] = {Word::State::written, warp(), clock()[warp()], now_, warp_epoch()};
    }
  }

  // ---- Copies that arrive at a barrier ----

  PhaseBarrier& barrier_at(std::uint32_t offset, Place where) {
    place_ = where;
    const auto found = phases_.find(offset);
    if (found == phases_.end()) fail("uses a barrier that is none");
    PhaseBarrier& barrier = found->second;
    if (barrier.made > clock()[barrier.maker]) {
      fail("uses a barrier that another warp made, without __syncthreads between");
    }
    return barrier;
  }
  void require_inside_all(std::uint32_t offset, std::uint32_t bytes) {
    if (offset + bytes > shared_.size()) fail("leaves the block's shared memory");
  }
  void begin_copied(std::uint32_t to, std::uint32_t bytes) {
    for (std::uint32_t n = to / 4; n < (to + bytes) / 4; ++n) {
      check_write(n);
      words_[n].state = Word::State::in_flight;
    }
  }
  void arrived(const PhaseBarrier& barrier, std::uint32_t to, std::uint32_t bytes) {
    for (std::uint32_t n = to / 4; n < (to + bytes) / 4; ++n) {
      words_[n] = {Word::State::written, static_cast<unsigned>(barrier.number), barrier.phase + 1};
    }
  }
  /// As late as can be: when a warp waits for them.
  void deliver(PhaseBarrier& barrier) {
    const std::vector<Arrival> all = std::exchange(barrier.under_way, {});
    for (const Arrival& arrival : all) {
      for (const Copy& copy : arrival.copies) {
        std::memset(shared_.data() + copy.to, 0, copy.bytes);
        if (copy.valid) std::memcpy(shared_.data() + copy.to, copy.from, copy.bytes);
        arrived(barrier, copy.to, copy.bytes);
      }
      if (arrival.tile) {
        arrival.tile(reinterpret_cast<char*>(shared_.data()) + arrival.to);
        arrived(barrier, arrival.to, arrival.bytes);
        barrier.bytes -= arrival.bytes;
      }
    }
    unsigned arrivals = 0;
    for (const Arrival& arrival : all) arrivals += arrival.arrivals;
    count_arrivals(barrier, arrivals);
  }
  void count_arrivals(PhaseBarrier& barrier, unsigned arrivals) {
    if (arrivals > barrier.pending) fail("arrives at a barrier that expects no more");
    barrier.pending -= arrivals;
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.count;
    barrier.known[barrier.number] = barrier.phase;
    barrier.done = barrier.known;
  }

  const std::function<void()>& body_;
  std::vector<Fiber> fibers_;
  std::vector<unsigned char> shared_;
  std::vector<Word> words_;
  std::vector<unsigned> reads_;  // of each word and warp, by the warp's clock; 0 is never
  unsigned warps_;
  std::vector<unsigned> warp_epochs_;
  std::vector<WarpProducts> products_;
  std::vector<unsigned> warp_order_;
  std::vector<Clock> clocks_;
  std::map<std::uint32_t, PhaseBarrier> phases_;
  std::map<unsigned, NamedBarrier> named_;
  unsigned now_ = 0;  // the running thread
  bool in_fiber_ = false;
  Place place_;
  JumpPlace scheduler_;
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
  if (threads == 0 || threads % kWarp != 0 || threads > 1024 ||
      shared_bytes > static_cast<std::size_t>(emulated_shared_bytes()) || grid.x == 0 ||
      grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
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

void make_barrier(std::uint32_t offset, unsigned count, Place where) {
  running->make_barrier(offset, count, where);
}
void fence_barriers() { running->fence_barriers(); }
void arrive(std::uint32_t offset, std::uint32_t bytes, Place where) {
  running->arrive(offset, bytes, where);
}
void arrive_with_copies(std::uint32_t offset, Place where) {
  running->arrive_with_copies(offset, where);
}
void wait_phase(std::uint32_t offset, unsigned parity, Place where) {
  running->wait_phase(offset, parity, where);
}
void join_named(unsigned id, unsigned threads, Place where) {
  running->join_named(id, threads, where);
}
void copy_tile(std::uint32_t to, std::uint32_t bytes, std::uint32_t barrier,
               const std::function<void(char*)>& tile, Place where) {
  running->copy_tile(to, bytes, barrier, tile, where);
}
WarpProducts& warp_products() { return running->products(); }
void warp_read_copied(std::uint32_t offset, void* to, std::uint32_t bytes) {
  running->read_copied(offset, to, bytes);
}
void fail(const std::string& what) { running->fail(what); }

}  // namespace phasescope::kernels::emulation
