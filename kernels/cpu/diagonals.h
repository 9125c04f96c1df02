#pragma once
// Tables by distance: padded copies for the kernels, and sums over diagonals on the way back.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/visibility.h"

namespace phasescope::kernels {

/// Distances a kernel can touch, masked lanes included: first .. last.
struct DistanceRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t size() const { return last - first + 1; }
};

/// Of a shape whose queries come in panels of `panel` lanes.
DistanceRange distance_range(const AttentionShape& shape, std::int64_t panel);

/// Those of `range` that `queries` queries from key index `query` and keys of a range can touch.
DistanceRange touched_distances(const DistanceRange& range, std::int64_t query,
                                std::int64_t queries, const KeyRange& keys);

/// The entry of a table for a distance, or -1 when it has none: see TableVariant.
std::int64_t table_index(std::int64_t distance, std::int64_t length, std::int64_t first_distance);

/// (heads, range) copy of a TableVariant's values, distances outside the table (masked ones) 0.
/// Biases are in log2 units and -inf is kMaskedScore; factors stay as they are.
FloatBuffer padded_table(const AttentionInputs& inputs, const DistanceRange& range);

/// Float64 sums by head, slot (a share of the work, added up in order) and distance.
class DiagonalSums {
 public:
  DiagonalSums() = default;
  DiagonalSums(const DistanceRange& range, std::int64_t heads, std::int64_t slots);

  bool wanted() const { return !sums_.empty(); }
  /// Adds the float sums of some distances and leaves 0 in their place. scratch: of the whole
  /// range.
  void take(std::int64_t head, std::int64_t slot, const DistanceRange& part, float* scratch);
  /// Adds what another has of a head in its one slot, whose range may reach past this one, and
  /// leaves 0 there.
  void take_all(std::int64_t head, std::int64_t slot, DiagonalSums& other);
  /// As many distances from another one on; all sums are 0.
  void move_to(std::int64_t first) { range_ = {first, first + range_.size() - 1}; }
  const DistanceRange& range() const { return range_; }
  /// Overwrites values[head][entry] with the sum over slots of all distances that read the entry.
  void write(float* values, std::int64_t head_stride, std::int64_t length,
             std::int64_t first_distance) const;
  /// Overwrites values (length) with the sum over heads and slots, from distance 0 up.
  void write_total(float* values, std::int64_t length) const;
  /// Overwrites values (texts, heads, length) with the sums of each text, whose slots stand
  /// together, by |distance|.
  void write_texts(double* values, std::int64_t texts, std::int64_t length) const;

 private:
  struct Slots {
    std::int64_t begin, end;
  };
  /// Adds one head's sums to the entries they belong to.
  void add_head(std::int64_t head, const Slots& slots, std::int64_t first_distance,
                std::vector<double>& entries) const;

  DistanceRange range_;
  std::int64_t heads_ = 0;
  std::int64_t slots_ = 0;
  std::vector<double> sums_;
};

}  // namespace phasescope::kernels
