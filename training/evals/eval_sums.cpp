#include "training/evals/eval_sums.h"

#include <algorithm>
#include <numeric>

namespace phasescope::training {

LossSums::LossSums(std::size_t texts, int64_t n, Per per)
    : per_(per), tokens_at_(static_cast<std::size_t>(n)), counted_(texts), by_position_(texts) {
  for (auto& row : by_position_) row.resize(static_cast<std::size_t>(n));
}

void LossSums::add(std::size_t text_index, const EvalText& text, const EvalWindow& window,
                   const double* losses, int64_t first_known) {
  for (int64_t i = first_known; i < window.length; ++i) {
    const double weight =
        per_ == Per::token ? 1 : text.bytes[static_cast<std::size_t>(window.begin + i)];
    TextSum& place = by_position_[text_index][static_cast<std::size_t>(i)];
    place.sum += losses[i];
    place.weight += weight;
    ++tokens_at_[static_cast<std::size_t>(i)];
    if (i < window.count_from) continue;
    counted_[text_index].sum += losses[i];
    counted_[text_index].weight += weight;
    ++tokens_;
  }
}

std::vector<TextSum> LossSums::between(int64_t begin, int64_t end) const {
  std::vector<TextSum> sums(by_position_.size());
  for (std::size_t t = 0; t < sums.size(); ++t) {
    for (int64_t i = begin; i < end; ++i) {
      sums[t].sum += by_position_[t][static_cast<std::size_t>(i)].sum;
      sums[t].weight += by_position_[t][static_cast<std::size_t>(i)].weight;
    }
  }
  return sums;
}

int64_t LossSums::tokens_between(int64_t begin, int64_t end) const {
  return std::accumulate(tokens_at_.begin() + begin, tokens_at_.begin() + end, int64_t{0});
}

int64_t LossSums::texts_read() const {
  return std::count_if(counted_.begin(), counted_.end(),
                       [](const TextSum& sum) { return sum.weight > 0; });
}

}  // namespace phasescope::training
