#include "training/blind_guesser.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace phasescope::training {
namespace {

constexpr std::uint64_t kDrawn = 1000;  // of each length
// Added to each symbol's count: what was never seen has a chance all the same.
constexpr double kUnseen = 0.5;

using Counts = std::vector<std::vector<double>>;  // by place, by symbol

Counts counts_of(const tasks::Task& task, const tasks::Ids& length, std::uint64_t seed) {
  Counts counts;
  const auto symbols = static_cast<std::size_t>(task.info().output_symbols);
  for (std::uint64_t n = 0; n < kDrawn; ++n) {
    const tasks::Sample sample = task.draw(seed, length, n);
    for (std::size_t place = 0; place < sample.target.size(); ++place) {
      if (place >= sample.counts.size() || sample.counts[place] == 0) continue;
      if (counts.size() <= place) counts.resize(place + 1, std::vector<double>(symbols, kUnseen));
      const auto symbol = static_cast<std::size_t>(sample.target[place]);
      if (symbol >= counts[place].size()) counts[place].resize(symbol + 1, kUnseen);
      ++counts[place][symbol];
    }
  }
  return counts;
}

}  // namespace

std::optional<BlindGuess> blind_guess(const tasks::Task& task,
                                      std::span<const tasks::Sample> tested, std::uint64_t seed) {
  const tasks::TaskInfo& info = task.info();
  if (info.form == tasks::Form::text || !info.needs_files.empty()) return std::nullopt;
  std::map<tasks::Ids, Counts> known;
  BlindGuess guess;
  std::int64_t counted = 0;
  for (const tasks::Sample& sample : tested) {
    const auto [entry, fresh] = known.try_emplace(sample.length);
    if (fresh) entry->second = counts_of(task, sample.length, seed);
    for (std::size_t place = 0; place < sample.target.size(); ++place) {
      const bool counts = place < sample.counts.size() && sample.counts[place] != 0;
      if (!counts || place >= entry->second.size()) continue;
      const std::vector<double>& seen = entry->second[place];
      const auto symbol = static_cast<std::size_t>(sample.target[place]);
      double sum = 0;
      for (const double one : seen) sum += one;
      const double share = (symbol < seen.size() ? seen[symbol] : kUnseen) / sum;
      guess.bits -= std::log2(share);
      guess.right +=
          std::ranges::max_element(seen) - seen.begin() == std::ptrdiff_t(symbol) ? 1 : 0;
      ++counted;
    }
  }
  if (counted == 0) return std::nullopt;
  guess.bits /= static_cast<double>(counted), guess.right /= static_cast<double>(counted);
  return guess;
}

}  // namespace phasescope::training
