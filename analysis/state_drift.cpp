#include "analysis/state_drift.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

// Sums of squares by token, in float64 without a copy of the state in it.
at::Tensor squares(const at::Tensor& state) {
  return state.square().sum({0, 1, 3, 4}, /*keepdim=*/false, at::kDouble);
}

double numbers_of_token(const at::Tensor& state) {
  return static_cast<double>(state.numel()) / static_cast<double>(state.size(2));
}

}  // namespace

Interval interval_of_drift(const at::Tensor& moved, const at::Tensor& first) {
  const at::Tensor of_moved = squares(moved), of_first = squares(first);
  // The initial state of one head is that of all.
  const double times = numbers_of_token(moved) / numbers_of_token(first);
  const auto sums = to_vector<double>(of_moved);
  const auto weights = to_vector<double>((of_first * times).expand_as(of_moved));
  const auto tokens = static_cast<std::int64_t>(sums.size());
  const std::int64_t length = tokens / kBlocks;
  std::vector<Part> blocks(static_cast<std::size_t>(kBlocks));
  Part all;
  for (std::int64_t n = 0; n < tokens; ++n) {
    const auto token = static_cast<std::size_t>(n);
    all.sum += sums[token], all.weight += weights[token];
    if (length == 0 || n / length >= kBlocks) continue;  // the rest is of no block
    Part& block = blocks[static_cast<std::size_t>(n / length)];
    block.sum += sums[token], block.weight += weights[token];
  }
  const auto root = [](double ratio) { return ratio < 0 ? 0 : std::sqrt(ratio); };
  return transformed(blocks_interval(all.sum / all.weight, blocks, tokens), root);
}

}  // namespace phasescope::analysis
