#include "kernels/cpu/tuning.h"

#include <unistd.h>

#include <mutex>

#include "kernels/cpu/targets.h"
#include "kernels/fma_peak.h"

namespace phasescope::kernels {
namespace {

std::mutex mutex;
std::optional<ForwardTuning> chosen;

// Bytes of one way of the first-level data cache; where the system does not say, what those of
// x86-64 with 64 sets of 64 bytes have.
std::int64_t l1_way() {
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL1_DCACHE_ASSOC)
  const long size = sysconf(_SC_LEVEL1_DCACHE_SIZE), ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
  if (size > 0 && ways > 0) return size / ways;
#endif
  return Processor{}.l1_way;
}

}  // namespace

Processor this_processor() {
  static const std::int64_t way = l1_way();
  if (current_target() != Target::avx3) return {.l1_way = way};
  static const Processor wide = {64, fma_vectors_a_cycle(), way};
  return wide;
}

// Measured on an Intel Xeon (family 6, model 207, AVX-512, 2 MB of second-level cache), plain, 128
// channels, speed beside neither, two interleaved runs: fetching ahead 1.02 at 8192 tokens (1.00 at
// 2048), where rows are 16 KB apart 1.03 to 1.10. Packed values with it there 1.11 to 1.17, at rows
// of 4 KB 1.09, at 2048 tokens with rows of 16 KB 1.02 to 1.03; at rows of 2 KB and less 0.98 to
// 1.01. Packed keys beside them 0.97 to 1.03, so that was left out.
//
// On an AMD EPYC (family 25, model 17, Zen 4; float32, plain), one thread of a busy machine:
// fetching ahead 1.04 to 1.08 at 8192 tokens, 1.00 to 1.04 at 2048, 0.98 to 1.02 at 512 and with
// rows of 16 KB; packed values 0.91 to 0.98 with rows of 16 KB, else 0.98 to 1.00. Two threads of a
// quiet one, three interleaved runs: fetching ahead 0.95 to 0.98 at 2048 tokens of 64 channels,
// 0.99 to 1.02 of 128, 1.00 to 1.05 at 6000. Nothing pays everywhere, so nothing is done there.
//
// What tells them apart is how fast a tile is computed, and so probably how often it waits for
// memory: the Intel one begins two multiply-adds of 64 bytes in a cycle, the AMD one one. The
// choice goes by that, not by who made the processor: others with two such units are taken to be
// like the Intel one, though none was measured. Rows are packed from the distance on at which
// they meet in one set of the first-level cache, 4 KB on both. The size of the second level is no
// part of it: what was measured above and below it came to the same choice on either.
ForwardTuning forward_tuning(const Processor& processor, std::int64_t row_bytes) {
  constexpr double kBytesOfTwo = 1.5 * 64;  // between one of 64 bytes and two
  const double bytes = static_cast<double>(processor.vector_bytes) * processor.vectors_a_cycle;
  if (bytes < kBytesOfTwo) return {};
  return {.fetches_ahead = true, .packs_values = row_bytes >= processor.l1_way};
}

ForwardTuning forward_tuning(std::int64_t row_bytes) {
  {
    const std::lock_guard lock(mutex);
    if (chosen) return *chosen;
  }
  return forward_tuning(this_processor(), row_bytes);
}

void set_forward_tuning(const std::optional<ForwardTuning>& tuning) {
  const std::lock_guard lock(mutex);
  chosen = tuning;
}

}  // namespace phasescope::kernels
