#include "analysis/head_grid.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "analysis/model_sides.h"

namespace phasescope::analysis {
namespace {

at::Tensor cells_of(const HeadGrid& grid) {
  std::vector<std::int64_t> cells;
  for (const LayerHead& one : grid.present()) cells.push_back(grid.cell_of(one));
  return at::tensor(cells, at::kLong);
}

bool is_whole(const HeadGrid& grid) { return std::ssize(grid.present()) == grid.cells(); }

}  // namespace

HeadGrid::HeadGrid(const model::ModelConfig& config)
    : layers_(config.layers), heads_(config.heads) {
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    for (std::int64_t head = 0; head < heads_; ++head) {
      if (has_head(config, layer, head)) present_.push_back({layer, head});
    }
  }
}

bool HeadGrid::has(LayerHead one) const { return std::ranges::binary_search(present_, one); }

std::size_t HeadGrid::index_of(LayerHead one) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(present_, one) - present_.begin());
}

at::Tensor on_grid(const at::Tensor& matrix, const HeadGrid& rows, const HeadGrid& columns) {
  if (is_whole(rows) && is_whole(columns)) return matrix;
  at::Tensor all = at::full({rows.cells(), columns.cells()}, std::nan(""), matrix.options());
  all.index_put_({cells_of(rows).unsqueeze(1), cells_of(columns)}, matrix);
  return all;
}

}  // namespace phasescope::analysis
