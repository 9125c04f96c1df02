#pragma once
// One query of each head, as in generation with a key/value cache: the heads that share keys become
// the queries of their key/value head, and lie in the lanes that one query alone would leave empty.
//
// Measured (Zen, AVX-512, one thread, 32 heads of 8 key/value heads, D 128, 4096 keys), as shares
// of the time that one head after the other takes: plain 0.32; a table, also beside numbers of
// tokens, 0.36, and 0.33 since these are laid out without room for lanes that no head has.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Whether a forward pass can go so: one query, heads that share keys, nothing but an added or
/// multiplied table and numbers of tokens in the scores, and no probe that asks for keys or
/// distances.
bool fits_lanes(const AttentionInputs& inputs, const ForwardOutputs& outputs);

/// The inputs of such a pass as forward_lanes() takes them: (B, kv_heads, heads of a group, d), and
/// of the keys those that the query may see. Without distances: tables and numbers of tokens are
/// read from `given`, and sinks are one a row.
struct LaneInputs : AttentionInputs {
  /// given: fits_lanes(), and outlives this.
  explicit LaneInputs(const AttentionInputs& given);
  LaneInputs(const LaneInputs&) = delete;
  LaneInputs& operator=(const LaneInputs&) = delete;

  /// Where results go, in the same shape.
  ForwardOutputs outputs(const ForwardOutputs& outputs) const;

  const AttentionInputs& given;
  std::int64_t first_key = 0;  ///< the key of `given` that is key 0 here

 private:
  void hide_keys();

  std::vector<std::uint8_t> real_;  ///< (B, keys), where some are hidden
};

}  // namespace phasescope::kernels
