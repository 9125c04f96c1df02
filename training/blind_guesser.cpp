#include "training/blind_guesser.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "training/task_data.h"

namespace phasescope::training {
namespace {

constexpr std::uint64_t kDrawn = 1000;  // of each length
// Added to each symbol's count: what was never seen has a chance all the same.
constexpr double kUnseen = 0.5;

using Counts = std::vector<std::vector<double>>;  // by place, by symbol

// Calls each(place, symbol) for the answers that count. A text's answer begins at place 0 wherever
// it stands in the text.
template <class Each>
void for_each_answer(const tasks::Task& task, const tasks::Sample& sample, const Each& each) {
  const bool text = task.info().form == tasks::Form::text;
  std::size_t counted = 0;
  for (std::size_t place = 0; place < std::min(sample.target.size(), sample.counts.size());
       ++place) {
    if (sample.counts[place] == 0) continue;
    each(text ? counted : place, static_cast<std::size_t>(sample.target[place]));
    ++counted;
  }
}

Counts counts_of(const tasks::Task& task, const tasks::Ids& length, std::uint64_t seed,
                 const formats::Tokenizer* tokenizer) {
  Counts counts;
  const bool text = task.info().form == tasks::Form::text;
  const auto symbols = text ? 0 : static_cast<std::size_t>(task.info().output_symbols);
  for (std::uint64_t n = 0; n < kDrawn; ++n) {
    tasks::Sample sample = task.draw(seed, length, n);
    // The answer's ids follow from the last word before it, whatever the length.
    if (text) sample.prompt.erase(0, sample.prompt.find_last_of(" \n") + 1);
    sample = as_ids(task, std::move(sample), tokenizer);
    for_each_answer(task, sample, [&](std::size_t place, std::size_t symbol) {
      if (counts.size() <= place) counts.resize(place + 1, std::vector<double>(symbols, kUnseen));
      if (symbol >= counts[place].size()) counts[place].resize(symbol + 1, kUnseen);
      ++counts[place][symbol];
    });
  }
  return counts;
}

}  // namespace

std::optional<BlindGuess> blind_guess(const tasks::Task& task,
                                      std::span<const tasks::Sample> tested, std::uint64_t seed,
                                      const formats::Tokenizer* tokenizer) {
  const tasks::TaskInfo& info = task.info();
  const bool text = info.form == tasks::Form::text;
  if ((text && tokenizer == nullptr) || !info.needs_files.empty()) return std::nullopt;
  std::map<tasks::Ids, Counts> known;
  BlindGuess guess;
  std::int64_t counted = 0;
  for (const tasks::Sample& sample : tested) {
    const auto [entry, fresh] = known.try_emplace(sample.length);
    if (fresh) entry->second = counts_of(task, sample.length, seed, tokenizer);
    for_each_answer(task, sample, [&](std::size_t place, std::size_t symbol) {
      if (place >= entry->second.size()) return;
      const std::vector<double>& seen = entry->second[place];
      double sum = 0;
      for (const double one : seen) sum += one;
      const double share = (symbol < seen.size() ? seen[symbol] : kUnseen) / sum;
      guess.bits -= std::log2(share);
      guess.right +=
          std::ranges::max_element(seen) - seen.begin() == std::ptrdiff_t(symbol) ? 1 : 0;
      ++counted;
    });
  }
  if (counted == 0) return std::nullopt;
  guess.bits /= static_cast<double>(counted), guess.right /= static_cast<double>(counted);
  return guess;
}

}  // namespace phasescope::training
