#pragma once
// Which keys a query sees: causality, window and padding of one call.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Keys [begin, end).
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Visibility {
 public:
  explicit Visibility(const AttentionInputs& inputs);

  /// The keys that some query of first .. last of a batch entry may see; what lies outside, none
  /// does. Neither end moves back from one query to the next.
  KeyRange keys(std::int64_t batch, std::int64_t first, std::int64_t last) const;

  /// Distances from which on nothing is seen; beyond every distance where there is no window.
  std::int64_t window() const { return window_; }
  /// (keys) of a batch entry, 0 for padding; null where all keys are real.
  const std::uint8_t* mask(std::int64_t batch) const {
    return mask_ ? mask_ + batch * shape_.keys : nullptr;
  }
  /// Number of pairs of one head of a batch entry at a distance that no mask hides.
  std::int64_t pairs(std::int64_t batch, std::int64_t distance) const;

 private:
  static constexpr std::int64_t kNoWindow = std::int64_t{1} << 40;

  const AttentionShape& shape_;
  std::int64_t window_;
  const std::uint8_t* mask_;
  std::vector<KeyRange> real_;        ///< of each batch entry: first real key to last
  std::vector<std::int64_t> before_;  ///< (B, keys + 1): real keys before each, with a mask alone
};

}  // namespace phasescope::kernels
