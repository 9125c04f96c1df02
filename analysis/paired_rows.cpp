#include "analysis/paired_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/tensors.h"

namespace phasescope::analysis {

void RowMean::add(const at::Tensor& rows) {
  const at::Tensor wide = rows.to(at::kDouble);
  texts_.push_back({wide.sum().item<double>(), static_cast<double>(wide.numel())});
  only_ = texts_.size() == 1 ? wide : at::Tensor();
}

Interval RowMean::interval(const Draws& draws) const {
  return texts_.size() == 1 ? rows_interval(to_vector<double>(only_))
                            : ratio_interval(texts_, draws);
}

Interval RowMean::share(const Draws& draws) const {
  return texts_.size() == 1 ? rows_share(to_vector<double>(only_)) : share_interval(texts_, draws);
}

RowBlocks::RowBlocks(std::int64_t longest, std::int64_t count)
    : longest_(longest), step_(std::max<std::int64_t>(1, (longest + count - 1) / count)) {
  means_.resize(static_cast<std::size_t>((longest + step_ - 1) / step_));
}

void RowBlocks::add(const at::Tensor& rows) {
  const std::int64_t there = rows.size(0);
  for (std::size_t n = 0; n < means_.size(); ++n) {
    const std::int64_t begin = static_cast<std::int64_t>(n) * step_;
    if (begin >= there) return;
    means_[n].add(rows.slice(0, begin, std::min(begin + step_, there)));
  }
}

std::vector<RowBlocks::Block> RowBlocks::blocks(const Draws& draws) const {
  std::vector<Block> out;
  for (std::size_t n = 0; n < means_.size(); ++n) {
    if (means_[n].texts() == 0) continue;
    const std::int64_t begin = static_cast<std::int64_t>(n) * step_;
    out.push_back({begin, std::min(begin + step_, longest_), means_[n].interval(draws)});
  }
  return out;
}

}  // namespace phasescope::analysis
