#include "training/evals/eval_differences.h"

#include <algorithm>
#include <optional>

namespace phasescope::training {
namespace {

// Place of each of the other's texts, where the other has it; of two of one name in their order.
std::vector<std::optional<std::size_t>> places_in(const std::vector<std::string>& others,
                                                  const std::vector<std::string>& texts) {
  std::multimap<std::string, std::size_t> left;
  for (std::size_t n = 0; n < others.size(); ++n) left.emplace(others[n], n);
  std::vector<std::optional<std::size_t>> places;
  for (const std::string& text : texts) {
    const auto found = left.lower_bound(text);
    if (found == left.end() || found->first != text) {
      places.emplace_back();
      continue;
    }
    places.emplace_back(found->second);
    left.erase(found);
  }
  return places;
}

// What one text gives: the difference of the means, and the weight that both have in it.
TextSum difference_of(const TextSum& first, const TextSum& other) {
  const double weight = 0.5 * (first.weight + other.weight);
  return {(other.sum / other.weight - first.sum / first.weight) * weight, weight};
}

}  // namespace

std::vector<protocol::EvalDifference> differences_of(const TextLosses& first,
                                                     const TextLosses& other,
                                                     const analysis::Draws& draws) {
  std::vector<protocol::EvalDifference> all;
  if (first.per != other.per) return all;
  const auto places = places_in(other.texts, first.texts);
  for (const auto& [length, sums] : first.sums) {
    const auto others = other.sums.find(length);
    if (others == other.sums.end()) continue;
    std::vector<TextSum> differences;
    bool same_tokens = true;
    for (std::size_t t = 0; t < sums.size(); ++t) {
      if (!places[t]) continue;
      const TextSum &a = sums[t], &b = others->second[*places[t]];
      if (a.weight == 0 || b.weight == 0) continue;
      same_tokens = same_tokens && a.weight == b.weight;
      differences.push_back(difference_of(a, b));
    }
    if (differences.empty() || (first.per == Per::token && !same_tokens)) continue;
    all.push_back({.model = other.model,
                   .against = first.model,
                   .per = first.per == Per::byte ? "byte" : "token",
                   .length = length,
                   .difference = analysis::ratio_interval(differences, draws)});
  }
  return all;
}

}  // namespace phasescope::training
