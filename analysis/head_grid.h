#pragma once
// The heads of a stack of layers that have maps, and where they stand among layers x heads.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "analysis/head_bias.h"
#include "model/config.h"

namespace phasescope::analysis {

// Layers with a state in place of attention have none, and some may have fewer than others.
class HeadGrid {
 public:
  explicit HeadGrid(const model::ModelConfig& config);

  const std::vector<LayerHead>& present() const { return present_; }  // ascending
  bool has(LayerHead one) const;
  // The number of one that is there among those that are; of any one among layers x heads.
  std::size_t index_of(LayerHead one) const;
  std::int64_t cell_of(LayerHead one) const { return one.layer * heads_ + one.head; }
  std::int64_t cells() const { return layers_ * heads_; }
  std::int64_t heads() const { return heads_; }  // the most that a layer has

 private:
  std::int64_t layers_, heads_;
  std::vector<LayerHead> present_;
};

// A matrix (rows' present heads, columns' present heads) as (rows' cells, columns' cells), NaN for
// heads that are not there; the matrix itself where all are.
at::Tensor on_grid(const at::Tensor& matrix, const HeadGrid& rows, const HeadGrid& columns);

}  // namespace phasescope::analysis
