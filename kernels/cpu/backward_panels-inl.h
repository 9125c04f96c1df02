// The engine of the backward pass: panels of queries with the rows of all tensors that their pairs
// need, the weights of a tile and what reaches them, and sums over queries and over keys. Its
// users, BackwardBlocks with a head at a time and CapeBackward with all heads at once, make the
// scores, walk the keys, and carry the gradients of scores on from here. That CAPE came to stand on
// it, on AMD's family 25, was no gain and no loss, with the same bits.
#if defined(PHASESCOPE_CPU_BACKWARD_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_BACKWARD_PANELS_INL_H
#undef PHASESCOPE_CPU_BACKWARD_PANELS_INL_H
#else
#define PHASESCOPE_CPU_BACKWARD_PANELS_INL_H
#endif

#include <algorithm>
#include <limits>
#include <span>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// V: whose streams the scores and weights have; VariantDefaults where scores are no variant's.
template <class V>
class BackwardPanels {
 protected:
  /// Queries row .. row + queries - 1 of one head; rows that do not exist are 0.
  struct Run {
    std::int64_t batch, head, row, queries;
    float* q_lanes[2];      ///< (dim, kPanel), scaled like the forward pass has them
    float* dq_lanes[2];     ///< (dim, kPanel)
    float* d_out_lanes[2];  ///< (dim, kPanel)
    float* q_rows[2];       ///< (kPanel, padded dim), times the dot's scale
    float* d_out_rows[2];   ///< (kPanel, padded dim)
    float* lse;             ///< (2, kPanel), Log2Lse::high and low
    float* row_sum;         ///< (kPanel), sum d_out . out
  };

  /// Sums of dk and dv of a head of keys, (keys, padded dim) of each dot and of each value.
  struct KeySums {
    float* dk[2];
    float* dv[2];
  };

  /// Where a dot's dq is between ranges of keys, not yet times the dot's scale.
  struct Waiting {
    OutputTensor tensor;
    std::int64_t batch, head;
  };

  BackwardPanels(const AttentionInputs& inputs, const SavedForward& saved,
                 const Gradients& gradients)
      : inputs_(inputs),
        saved_(saved),
        gradients_(gradients),
        shape_(inputs.shape),
        visibility_(inputs),
        cap_(inputs.soft_cap * kLog2e),
        group_(shape_.heads / shape_.kv_heads),
        variant_(inputs) {
    for (int n = 0; n < V::kDots; ++n) dots_[n] = variant_.dot(n);
    for (int n = 0; n < V::kValues; ++n) values_[n] = variant_.value(n);
  }

  /// Where dq and dk go, once the variant has begun its gradients.
  void find_gradients() {
    for (int n = 0; n < V::kDots; ++n) {
      dq_[n] = variant_.dot_gradient_q(gradients_, n);
      dk_[n] = variant_.dot_gradient_k(gradients_, n);
    }
  }

  static std::int64_t padded(std::int64_t dim) { return round_up(dim, kLanes); }

  /// Whether the scores' own gradients are wanted by distance.
  bool sums_scores() const { return gradients_.scores.by_distance != nullptr; }
  /// Whether dq's own tensor can hold partial sums.
  bool holds_sums(int n) const { return dq_[n].storage == Storage::float32; }

  /// Channels of all streams.
  std::int64_t channels() const {
    std::int64_t sum = 0;
    for (int n = 0; n < V::kDots; ++n) sum += dots_[n].dim;
    for (int n = 0; n < V::kValues; ++n) sum += values_[n].dim;
    return sum;
  }
  /// Floats of one key's sums.
  std::int64_t row_floats() const {
    std::int64_t floats = 0;
    for (int n = 0; n < kKeyDots<V>; ++n) floats += padded(dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) floats += padded(values_[n].dim);
    return floats;
  }

  // ---- A run's memory and what it begins and ends with ----------------------------------------

  /// Floats of a run. either: its dq is wanted, or what its rows give to keys, never both.
  std::int64_t run_floats(bool either) const {
    std::int64_t floats = 3 + channels() + row_floats();  // lse, row_sum; lanes; rows
    for (int n = 0; n < V::kDots; ++n) floats += either ? 0 : dots_[n].dim;
    return floats * kPanel;
  }

  /// The memory of runs; the rows of each stand behind those of the one before.
  void place_runs(std::span<Run> runs, bool either, FloatParts& take) const {
    const auto place = [&](float*(Run::*part)[2], int n, std::int64_t rows) {
      for (Run& run : runs) (run.*part)[n] = take(rows * kPanel);
    };
    for (int n = 0; n < V::kDots; ++n) {
      place(&Run::q_lanes, n, dots_[n].dim);
      if (!either) place(&Run::dq_lanes, n, dots_[n].dim);
      if (n < kKeyDots<V>) place(&Run::q_rows, n, padded(dots_[n].dim));
      for (Run& run : runs) run.dq_lanes[n] = either ? run.q_rows[n] : run.dq_lanes[n];
    }
    for (int n = 0; n < V::kValues; ++n) {
      place(&Run::d_out_lanes, n, values_[n].dim);
      place(&Run::d_out_rows, n, padded(values_[n].dim));
    }
    for (Run& run : runs) run.lse = take(2 * kPanel);
    for (Run& run : runs) run.row_sum = take(kPanel);
  }

  /// What a run's pairs need, but its dq. unit: of the scores that the first dot gives. for_keys:
  /// whether q_rows are wanted. spare: for the rows of one tensor.
  void pack(const Run& run, float unit, bool for_keys, float* spare) const {
    for (int n = 0; n < V::kDots; ++n) {
      const DotStream& dot = dots_[n];
      pack_rows(run, dot.q, dot.dim, n == 0 ? dot.scale * unit : dot.scale, run.q_lanes[n],
                dot.scale, for_keys && n < kKeyDots<V> ? run.q_rows[n] : nullptr, spare);
    }
    for (int n = 0; n < V::kValues; ++n) {
      pack_rows(run, d_out(n), values_[n].dim, 1, run.d_out_lanes[n], 1, run.d_out_rows[n], spare,
                n == 0 && inputs_.gate.data);
    }
    pack_numbers(run, spare);
  }

  /// dq of a run before its first key: 0, or what an earlier range of keys left.
  void start_queries(const Run& run, int n, const Waiting* left) const {
    const std::int64_t dim = dots_[n].dim;
    if (!left) {
      std::fill_n(run.dq_lanes[n], dim * kPanel, 0.0f);
      return;
    }
    const void* first =
        run.queries > 0 ? row_pointer(left->tensor, left->batch, left->head, run.row) : nullptr;
    pack_panel(static_cast<const float*>(first), left->tensor.row, run.queries, dim, 1,
               run.dq_lanes[n]);
  }

  /// Writes dq of a run, or, where a later range of keys adds to it, leaves it there.
  void write_queries(const Run& run, int n, const Waiting* waits) const {
    if (run.queries == 0) return;
    float factor[kPanel];
    std::fill(factor, factor + kPanel, waits ? 1 : dots_[n].scale);
    const Waiting to = waits ? *waits : Waiting{dq_[n], run.batch, run.head};
    unpack_panel(run.dq_lanes[n], factor, run.queries, dots_[n].dim, to.tensor, to.batch, to.head,
                 run.row);
  }

  // ---- Pairs --------------------------------------------------------------------------------

  /// A tile's scores t (log2 units, not capped) to weights, rows `pitch` apart, and what reaches
  /// these in their place. v: rows of each value. slopes: rows of kPanel, of the cap; written where
  /// there is one.
  HWY_INLINE void weigh(const Run& run, const TilePlace& place, const FloatRows (&v)[2],
                        Vec (&t)[kTileKeys][kVecs], float* weights, std::int64_t pitch,
                        float* slopes) const {
    if (cap_ > 0) {
      cap_tile(cap_, t);
      cap_slopes(cap_, t, slopes);
    }
    if (is_masked(place)) mask_tile(place, t);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < kVecs; ++n) {
        store(weight_of(t[r][n], run.lse + n * kLanes), weights + r * pitch + n * kLanes);
        t[r][n] = zero();
      }
    }
    const float* rows[kTileKeys];
    for (int n = 0; n < V::kValues; ++n) {
      tile_rows(place, v[n], rows);
      dot_tile(rows, run.d_out_lanes[n], values_[n].dim, t);
    }
  }

  /// Adds to dq what `count` keys from k on give it; d_dot: rows `pitch` apart.
  void add_to_queries(const Run& run, int n, const float* k, std::int64_t k_row, const float* d_dot,
                      std::int64_t pitch, std::int64_t count) const {
    multiply_panel({k, 1, k_row, d_dot, pitch, run.dq_lanes[n], kPanel, count}, dots_[n].dim);
  }

  /// Adds to sums of `count` keys what `queries` rows (padded dim) give them; pairs: (count,
  /// pitch).
  static void add_to_keys(const float* pairs, std::int64_t pitch, const float* rows,
                          std::int64_t queries, std::int64_t dim, float* sums, std::int64_t count) {
    const std::int64_t width = padded(dim);
    multiply_wide({pairs, pitch, 1, rows, width, sums, width, queries}, count, width / kLanes);
  }

  // ---- Sums over queries ----------------------------------------------------------------------

  /// Of `keys` keys in the memory from `at`; row_floats() of each.
  KeySums key_sums(float* at, std::int64_t keys) const {
    FloatParts take{at};
    KeySums sums{};
    for (int n = 0; n < kKeyDots<V>; ++n) sums.dk[n] = take(keys * padded(dots_[n].dim));
    for (int n = 0; n < V::kValues; ++n) sums.dv[n] = take(keys * padded(values_[n].dim));
    return sums;
  }

  /// Adds the sums of other shares of the queries, `step` floats further each, to those of the
  /// first, in their order.
  static void add_shares(float* first, std::int64_t shares, std::int64_t step, std::int64_t size) {
    for (std::int64_t share = 1; share < shares; ++share) {
      const float* other = first + share * step;
      for (std::int64_t n = 0; n < size; ++n) first[n] += other[n];
    }
  }

  /// The sums of a range of keys of one head to its gradients.
  void write_keys(std::int64_t batch, std::int64_t head, const KeyRange& range,
                  const KeySums& sums) const {
    const auto write = [&](const float* rows, const OutputTensor& to, std::int64_t dim) {
      for (std::int64_t n = range.begin; n < range.end && to.data; ++n, rows += padded(dim)) {
        store_row(rows, dim, to, batch, head, n);
      }
    };
    const auto* tape = std::get_if<TapeGradients>(&gradients_.variant);
    const OutputTensor d_values[2] = {gradients_.dv, tape ? tape->d_state : OutputTensor{}};
    for (int n = 0; n < kKeyDots<V>; ++n) write(sums.dk[n], dk_[n], dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) write(sums.dv[n], d_values[n], values_[n].dim);
  }

  const AttentionInputs& inputs_;
  const SavedForward& saved_;
  const Gradients& gradients_;
  const AttentionShape& shape_;
  Visibility visibility_;
  float cap_;           ///< of scores, log2 units; 0: none
  std::int64_t group_;  ///< query heads of a key/value head
  V variant_;
  DotStream dots_[2];
  ValueStream values_[2];
  OutputTensor dq_[2], dk_[2];

 private:
  /// What comes in for a value stream; may have no data.
  InputTensor d_out(int n) const {
    if (n == 0) return saved_.d_out;
    const auto* tape = std::get_if<TapeGradients>(&gradients_.variant);
    return tape ? tape->d_out_state : InputTensor{};
  }

  /// A run of a tensor of queries: `lanes` (dim, kPanel) and `rows` (kPanel, padded dim; null: not
  /// wanted). What does not exist is 0, all of a tensor without data. gated: its rows are
  /// multiplied by the output's gates.
  void pack_rows(const Run& run, const InputTensor& tensor, std::int64_t dim, float lane_scale,
                 float* lanes, float row_scale, float* rows, float* spare,
                 bool gated = false) const {
    const std::int64_t count = tensor.data ? run.queries : 0, width = padded(dim);
    FloatRows from{nullptr, 0, 0};
    if (count > 0) {
      from = float_rows(tensor, run.batch, run.head, run.row, count, dim, spare);
      if (gated) from = gated_rows(inputs_, run.batch, run.head, count, dim, from, spare);
    }
    pack_panel(from.data, from.row, count, dim, lane_scale, lanes);
    if (!rows) return;
    std::fill_n(rows, kPanel * width, 0.0f);
    for (std::int64_t n = 0; n < count; ++n) {
      const float* row = from.data + n * from.row;
      for (std::int64_t d = 0; d < dim; ++d) rows[n * width + d] = row_scale * row[d];
    }
  }

  /// lse and sum d_out . out of a run, whose d_out_rows are there. Rows that see no key or do not
  /// exist have weights of 0 and no sum.
  void pack_numbers(const Run& run, float* spare) const {
    const InputTensor outs[2] = {saved_.out, saved_.out_state};
    const float* lse =
        saved_.lse + (run.batch * shape_.heads + run.head) * shape_.queries + run.row;
    const float* sink = sink_of(inputs_, run.head);
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const Log2Lse split = n < run.queries ? log2_lse(lse[n], sink) : Log2Lse{};
      run.lse[n] = split.high;
      run.lse[kPanel + n] = split.low;
      run.row_sum[n] = 0;
      if (n >= run.queries || lse[n] == -std::numeric_limits<float>::infinity()) continue;
      double sum = 0;
      for (int s = 0; s < V::kValues; ++s) {
        if (!d_out(s).data) continue;
        const std::int64_t dim = values_[s].dim;
        const FloatRows out = float_rows(outs[s], run.batch, run.head, run.row + n, 1, dim, spare);
        const float* row = run.d_out_rows[s] + n * padded(dim);
        for (std::int64_t d = 0; d < dim; ++d) sum += static_cast<double>(out.data[d]) * row[d];
      }
      run.row_sum[n] = static_cast<float>(sum);
    }
  }
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
