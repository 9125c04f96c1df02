#pragma once
// What CAPE over FIRE needs outside the inner loops. The biases B of a pair are piecewise linear in
// one number u, so all that is made of them is too, with the same knots: the first layer's part
// w1_B B + b1, and what is added to the content score besides the network's output, B (residual
// forms) + b2. Hidden units and heads are the rows of one list of pieces.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals.h"

namespace phasescope::kernels {

class CapePieces {
 public:
  /// `panel`: lanes of queries that one look reads.
  CapePieces(const AttentionInputs& inputs, const DistanceRange& range, std::int64_t panel);

  const FireVariant& fire() const { return fire_; }
  /// Hidden units, then heads.
  std::int64_t rows() const { return rows_; }
  /// (rows) of a segment, natural units.
  const float* slopes(std::int64_t segment) const { return slope_.data() + segment * rows_; }
  const float* intercepts(std::int64_t segment) const {
    return intercept_.data() + segment * rows_;
  }
  /// Of the pairs at a distance and beyond, one entry each.
  const float* distance(std::int64_t distance) const {
    return distance_.data() + (distance - range_.first);
  }
  /// Of a query row and those after it.
  const float* factor(std::int64_t row) const { return factor_.data() + row; }

 private:
  void fill(const CapeVariant& cape, std::int64_t heads);

  const FireVariant& fire_;
  DistanceRange range_;
  std::int64_t rows_;
  FloatBuffer distance_, factor_, slope_, intercept_;
};

/// Sums of one item of the backward pass, in float64: of d row and of d row * u by row and segment,
/// and what reaches u, times the query's factor by distance and times the distance by query.
struct CapePieceSums {
  CapePieceSums() = default;
  CapePieceSums(const CapePieces& pieces, const DistanceRange& range, std::int64_t queries);
  void add(const CapePieceSums& other);

  std::vector<double> d_rows;  ///< (rows, segments, 2)
  std::vector<double> d_distance, d_factor;
};

/// Turns the sums of all items into the gradients of FIRE's arrays, and adds what reaches w1_B, b1
/// and b2 to theirs.
void add_piece_gradients(const AttentionInputs& inputs, const DistanceRange& range,
                         const CapePieceSums& sums, const FireGradients& gradients,
                         std::vector<double>& d_w1, std::vector<double>& d_b1,
                         std::vector<double>& d_b2);

}  // namespace phasescope::kernels
