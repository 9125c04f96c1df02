#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "tests/kernels/cuda_emulation/emulator.h"

namespace phasescope::kernels::emulation {

void WarpProducts::begin(Product product) {
  if (!fenced_) emulation::fail("multiplies without a fence since the last group");
  for (float* sums : product.sums) {
    auto [at, is_new] = kept_.try_emplace(sums);
    ++at->second.products;
    if (!is_new) continue;
    std::copy_n(sums, kSums, at->second.sums);
    std::fill_n(sums, kSums, std::numeric_limits<float>::quiet_NaN());
  }
  open_.push_back(std::move(product));
}
void WarpProducts::commit() {
  groups_.push_back(std::move(open_));
  open_.clear();
  fenced_ = false;
}
void WarpProducts::wait(std::size_t pending) {
  if (!open_.empty()) emulation::fail("waits for products that it has not committed");
  for (; groups_.size() > pending; groups_.erase(groups_.begin())) {
    for (const Product& product : groups_.front()) {
      std::vector<float*> sums;
      for (float* one : product.sums) sums.push_back(kept_.at(one).sums);
      product.multiply(sums);
      for (float* one : product.sums) {
        const auto at = kept_.find(one);
        if (--at->second.products > 0) continue;
        std::copy_n(at->second.sums, kSums, one);
        kept_.erase(at);
      }
    }
  }
}

}  // namespace phasescope::kernels::emulation
