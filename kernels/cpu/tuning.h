#pragma once
// What of the forward pass depends on the processor and on how its inputs lie in memory, beside the
// instruction set. No choice changes a bit of any result.

#include <cstdint>
#include <optional>

namespace phasescope::kernels {

struct ForwardTuning {
  /// While a block of keys is computed, the next one's keys and values are sent for.
  bool fetches_ahead = false;
  /// Values of a block are copied in strips of a register tile's channels.
  bool packs_values = false;
};

/// What the choice goes by.
struct Processor {
  std::int64_t vector_bytes = 0;  ///< of the instruction set in use
  double vectors_a_cycle = 0;     ///< fma_vectors_a_cycle(); 0: not measured
  std::int64_t l1_way = 4096;     ///< bytes: lines of a first-level cache so far apart share a set
};
/// The one at hand, measured once for each instruction set. Only one with vectors of 64 bytes is
/// asked for its multiply-adds: no other has as many as the choice wants.
Processor this_processor();

/// By a processor, for values whose rows are row_bytes apart; 0: of 16 bits.
ForwardTuning forward_tuning(const Processor& processor, std::int64_t row_bytes);
/// By the one at hand.
ForwardTuning forward_tuning(std::int64_t row_bytes);

/// For tests and benchmarks: what forward_tuning() says from now on; nothing: what it says by
/// itself.
void set_forward_tuning(const std::optional<ForwardTuning>& tuning);

}  // namespace phasescope::kernels
