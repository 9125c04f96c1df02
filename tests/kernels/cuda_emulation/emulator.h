#pragma once
// Runs the device code of kernels/cuda on the CPU, so that it can be tested without a GPU. The
// kernels' own sources are compiled by the host's compiler; four headers in this folder stand in
// for what only a device has (found first, by the order of the include paths):
//
//   cuda_runtime.h           keywords, indices, memory, warp shuffles, fast functions
//   kernels/cuda/mma.cuh     the PTX instructions, in the layouts of the PTX ISA (section "Matrix
//                            multiply-accumulate operation using mma instruction", m16n8k16)
//   kernels/cuda/cape_mma.cuh  likewise m16n8k8 of tf32, for CAPE's network
//   kernels/cuda/hopper.cuh  likewise those of the Hopper form: wgmma, TMA, mbarriers
//   kernels/cuda/launch.cuh  the launch
//
// A thread is a fiber. The fibers of a warp run until each stands at the next warp-wide operation,
// which is then done once for all 32; __syncthreads joins the warps. What a warp knows of others'
// shared memory follows from the barriers of every kind that it has passed (vector clocks).
//
// What is reported as an error (std::runtime_error, with file and line):
//   - lanes that stand at different warp-wide operations, or leave while others wait
//   - warps that leave while others wait at __syncthreads
//   - a read of shared memory that was never written, or whose asynchronous copy has not been
//   waited
//     for: a copy's bytes arrive only at the wait of the thread that began it
//   - a read or write of shared memory that another warp wrote, or a write of what another warp
//   read,
//     without __syncthreads between; the same within a warp for reads, without __syncwarp
//   - a copy from outside every allocation, off its alignment, or never waited for
//   - copies of tensors (TMA): the same, and bytes arrive only when a warp waits at their barrier;
//   who
//     has not waited there may not read them; barriers that others made and no one fenced; barriers
//     that no one completes, or at which more arrive than they expect
//   - products of a warpgroup (wgmma): they read shared memory, and give their sums, only when
//   they are
//     waited for: sums that are read before are NaN, tiles that are overwritten before are found;
//     products without a fence before their group, and of what threads wrote
//   - a launch that no device of compute capability 8.0 to 9.0 takes, or outside an NVTX range
//   - a write just before or after an allocation (when it is freed)
//
// What it does not show:
//   - the memory model of a device: everything here is sequentially consistent, so a missing fence
//     on global memory, or two blocks that write the same place, go unseen; of ordinary loads from
//     global memory only those past the end of an allocation (and its up to 15 bytes of alignment)
//     are found: the program stops
//   - a write of shared memory that another lane of the same warp has just read
//   - registers of operands that are written while a product of a warpgroup still reads them
//   - how tensor cores round: sums of 16 products are exact here and rounded once to float32
//   - the fast functions' errors: 2^x, log2f, __log2f, __cosf and __sinf are the C library's
//   - registers, spills, speed, and what nvcc makes of the source; bank conflicts are computed by
//     bank_conflicts_test.cpp

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <source_location>
#include <string>
#include <vector>

namespace phasescope::kernels::emulation {

using Place = std::source_location;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Runs `body` as every thread of every block. Throws std::runtime_error for what is listed above.
void run_kernel(Index grid, unsigned threads, std::size_t shared_bytes,
                const std::function<void()>& body);

/// As long as one lives, launches are inside a range.
class Range {
 public:
  Range();
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

// ---- Called by threads -------------------------------------------------------------------------

/// Returns once `operation` has been done for the 32 lanes of the warp; lanes[n] is lane n's
/// `lane`.
using WarpOperation = void (*)(void* const* lanes);
void join_warp(WarpOperation operation, void* lane, Place where);
void join_block(Place where);
/// What a warp's lanes wrote before is seen by its other lanes after.
void join_warp_memory(Place where);

/// Shared memory by byte offset; offsets and sizes are multiples of 4.
void read_shared(std::uint32_t offset, void* to, std::uint32_t bytes, Place where);
void write_shared(std::uint32_t offset, const void* from, std::uint32_t bytes, Place where);

/// Copies that arrive when they are waited for. `from` is not read where not `valid`: zeros arrive.
void copy_async(std::uint32_t to, const void* from, std::uint32_t bytes, bool valid, Place where);
void commit_copies();
void wait_copies(std::size_t pending);

// ---- Called by warp-wide operations ------------------------------------------------------------

/// The bytes at `offset`, read by the warp in turn.
void warp_read_shared(std::uint32_t offset, void* to, std::uint32_t bytes);

/// The same of bytes that copies of tensors brought.
void warp_read_copied(std::uint32_t offset, void* to, std::uint32_t bytes);
/// Ends the launch with an error at the place of the running operation.
[[noreturn]] void fail(const std::string& what);

// ---- Barriers of less than a block -------------------------------------------------------------

/// An mbarrier in shared memory: a phase ends when `count` have arrived and all bytes that they
/// said have come.
void make_barrier(std::uint32_t offset, unsigned count, Place where);
/// Those that were made so far may be what copies arrive at.
void fence_barriers();
void arrive(std::uint32_t offset, std::uint32_t bytes, Place where);
/// Arrives when all copies that the thread has begun have.
void arrive_with_copies(std::uint32_t offset, Place where);
/// All lanes of a warp call these. Until the phase of that parity has ended; until so many threads
/// have come.
void wait_phase(std::uint32_t offset, unsigned parity, Place where);
void join_named(unsigned id, unsigned threads, Place where);

/// A tile of `bytes` that tile() writes when it arrives at the barrier.
void copy_tile(std::uint32_t to, std::uint32_t bytes, std::uint32_t barrier,
               const std::function<void(char*)>& tile, Place where);

// ---- Products that run on ----------------------------------------------------------------------

/// Of a warp: what it has begun, in groups. Sums of a lane are kSums numbers.
class WarpProducts {
 public:
  static constexpr int kSums = 32;
  struct Product {
    std::vector<float*> sums;  // of each lane
    std::function<void(const std::vector<float*>& sums)> multiply;
  };

  void fence() { fenced_ = true; }
  void begin(Product product);
  void commit();
  /// Multiplies all but the last `pending` groups.
  void wait(std::size_t pending);
  bool empty() const { return open_.empty() && groups_.empty(); }

 private:
  struct Kept {
    float sums[kSums];
    int products = 0;
  };
  bool fenced_ = false;
  std::vector<Product> open_;
  std::vector<std::vector<Product>> groups_;
  std::map<float*, Kept> kept_;
};
/// Those of the running warp.
WarpProducts& warp_products();

// ---- Device memory -----------------------------------------------------------------------------

/// Filled with 0xFF (NaN in every floating type). release() throws where the bytes around it were
/// written.
void* allocate(std::size_t bytes);
void release(void* data);
/// Whether all of these bytes are of one allocation.
bool is_allocated(const void* from, std::size_t bytes);

}  // namespace phasescope::kernels::emulation

/// The running thread's, as on a device.
extern phasescope::kernels::emulation::Index threadIdx, blockIdx, blockDim, gridDim;
