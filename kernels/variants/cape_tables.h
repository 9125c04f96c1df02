#pragma once
// What CAPE needs outside the inner loops. The part of the first layer that reads the bias depends
// on distance alone: a table of hidden vectors, w1_B B(lambda) + b1. Likewise what is added to the
// content score besides the network's output: B(lambda) (residual forms) + b2.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/variants/cape_pieces.h"

namespace phasescope::kernels {

/// Weight n of hidden unit d for head h's content score and for its bias lie at
/// w1[d * width + h] and w1[d * width + bias_column + h].
struct CapeLayout {
  std::int64_t width = 0;
  std::int64_t bias_column = 0;
  bool reads_bias = false;
  bool adds_bias = false;
};
CapeLayout cape_layout(const CapeVariant& cape, std::int64_t heads);

class CapeTables {
 public:
  /// Tables for every distance of the range; lambda = max(distance, 0).
  CapeTables(const AttentionInputs& inputs, const DistanceRange& range);

  /// (hidden, range) from distance 0: w1_B B + b1.
  const float* hidden(std::int64_t unit) const {
    return hidden_.data() + unit * range_.size() - range_.first;
  }
  /// (heads, range) from distance 0: B (residual forms) + b2.
  const float* base(std::int64_t head) const {
    return base_.data() + head * range_.size() - range_.first;
  }
  const DistanceRange& range() const { return range_; }

 private:
  DistanceRange range_;
  FloatBuffer hidden_;
  FloatBuffer base_;
};

/// Whether the biases come from FIRE, not from a table by distance.
bool is_on_fire(const CapeVariant& cape);

/// Sums of one item of the backward pass, in float64: d w1_A (hidden, heads), d w2 (heads, hidden)
/// and, by distance, d hidden (before the rectifier) and d score; over FIRE those by its pieces.
struct CapeSums {
  CapeSums() = default;
  /// pieces: of CAPE over FIRE, null over a table.
  CapeSums(const AttentionInputs& inputs, const DistanceRange& range, const CapePieces* pieces);
  /// Moves one row (of the hidden units, then of the heads) of another's sums by distance here,
  /// where its range may be a part of this one or reach beyond it with nothing but 0.
  void take_row(CapeSums& other, std::int64_t row);
  /// Adds the others.
  void add_rest(const CapeSums& other);

  DistanceRange range;  ///< of the sums by distance
  std::vector<double> d_w1, d_w2;
  std::vector<double> d_hidden, d_score;
  CapePieceSums d_pieces;
};

/// Turns the sums of all items into the gradients of the table or FIRE and of the network.
void write_cape_gradients(const AttentionInputs& inputs, const DistanceRange& range,
                          const CapeSums& sums, const CapeGradients& gradients);

}  // namespace phasescope::kernels
