#pragma once
// Validation at the public entries, of either processor; the kernels trust what passed it.

#include <limits>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// What an implementation takes, and how its sentences begin.
struct Limits {
  const char* name = "[attention] ";
  std::int64_t channels = kMaxChannels;            ///< of a head
  std::int64_t channel_step = 1;                   ///< a head_dim is a multiple of it
  std::int64_t positions = std::int64_t{1} << 24;  ///< queries, keys, and tokens between them
  std::int64_t segments = std::numeric_limits<std::int64_t>::max();  ///< of fire
  std::int64_t cape_units = 1024, cape_heads = std::numeric_limits<std::int64_t>::max();
  std::int64_t cape_pieces = kCapePieces;
  bool reads_arrays = true;  ///< pointers are memory that a check can read
};
/// Of the kernels on the CPU; up to 2^24 every integer is a float.
inline constexpr Limits kCpuLimits{};

/// Each throws std::invalid_argument with one sentence that names the field and the numbers.
void check_inputs(const AttentionInputs& inputs, const Limits& limits = kCpuLimits);
void check_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs,
                   const Limits& limits = kCpuLimits);
void check_backward(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients, const Limits& limits = kCpuLimits);
void check_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                  bool needs_lse, const Limits& limits = kCpuLimits);
void check_sums(const AttentionInputs& inputs, const ScoreSums& sums,
                const Limits& limits = kCpuLimits);
void check_map(const Region& region, const MapOutputs& outputs);

}  // namespace phasescope::kernels
