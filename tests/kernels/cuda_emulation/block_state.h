#pragma once
// What the emulator keeps of a block: its threads, its shared memory, its barriers.

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/kernels/cuda_emulation/emulator.h"

namespace phasescope::kernels::emulation {

/// What a warp knows of the others (a vector clock): of each warp, and then of each barrier in
/// shared memory, up to which of its times what it wrote is seen. A warp's time rises whenever
/// others may learn of it; a barrier's are its phases, which the copies that arrive there belong
/// to.
using Clock = std::vector<unsigned>;
inline constexpr std::size_t kBarriers = 32;

inline void learn(Clock& clock, const Clock& from) {
  for (std::size_t n = 0; n < clock.size(); ++n) clock[n] = std::max(clock[n], from[n]);
}

/// Four bytes of shared memory: who wrote them last, and when by the writer's clock.
struct Word {
  enum class State : std::uint8_t { unwritten, in_flight, written, barrier };
  State state = State::unwritten;
  unsigned source = 0;  // a warp's or a barrier's place in a clock
  unsigned time = 0;
  unsigned writer = 0;  // of a warp, the thread
  unsigned warp_epoch = 0;
};

struct Copy {
  std::uint32_t to;
  const void* from;
  std::uint32_t bytes;
  bool valid;
};

/// What arrives at a barrier in shared memory.
struct Arrival {
  std::vector<Copy> copies;         // of a thread
  std::function<void(char*)> tile;  // or of a tensor: writes the tile
  std::uint32_t to = 0, bytes = 0;  // its place
  unsigned arrivals = 0;
};

/// A barrier in shared memory (mbarrier).
struct PhaseBarrier {
  unsigned count = 0, pending = 0;
  std::int64_t bytes = 0;  // that are still to come in this phase
  unsigned phase = 0;
  bool fenced = false;  // for copies
  Clock known, done;    // of those who arrived: so far, and by the end of the last phase
  unsigned maker = 0, made = 0;
  std::size_t number = 0;
  std::vector<Arrival> under_way;
};

/// A barrier by number, of some of a block's warps.
struct NamedBarrier {
  unsigned arrived = 0, generation = 0;
  Clock known, done;
};

/// Where a thread goes on: what __builtin_setjmp fills.
using JumpPlace = void* [5];

struct Fiber {
  enum class State { ready, at_warp, at_block, done };
  State state = State::ready;
  bool started = false;
  WarpOperation operation = nullptr;
  void* lane = nullptr;
  Place where;
  JumpPlace at;
  /// Of one that waits at a barrier of less than the block: whether it may go on.
  std::function<bool()> may_go_on;
  std::unique_ptr<char[]> stack;
  ucontext_t first;
  std::vector<Copy> open_copies;
  std::vector<std::vector<Copy>> groups;
};

}  // namespace phasescope::kernels::emulation
