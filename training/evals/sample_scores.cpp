#include "training/evals/sample_scores.h"

#include <algorithm>
#include <cmath>

#include "formats/error.h"

namespace phasescope::training {
namespace {

using analysis::Interval;
using analysis::Part;

// Above it samples are put together to so many units, every n-th into one: still independent, and
// the draws of a bootstrap stay small. Shares of 0 and 1 get the interval of so many samples.
constexpr std::size_t kMostUnits = 4096;

template <class Part_>
std::vector<Part> parts_of(std::span<const SampleScore> samples, Part_ part) {
  std::vector<Part> parts(std::min(samples.size(), kMostUnits));
  for (std::size_t n = 0; n < samples.size(); ++n) {
    const Part one = part(samples[n]);
    Part& unit = parts[n % parts.size()];
    unit.sum += one.sum, unit.weight += one.weight;
  }
  return parts;
}

double share(double part, double whole) { return whole > 0 ? part / whole : std::nan(""); }

// (recall + share of right answers among the others) / 2. Each sample's part in its error is what
// its answers lie above both shares, so that the mean of these parts is the value itself.
Interval balanced_accuracy(std::span<const SampleScore> samples, const analysis::Draws& draws) {
  double yes = 0, found = 0, no = 0, right_no = 0;
  for (const SampleScore& one : samples) {
    yes += static_cast<double>(one.yes), found += static_cast<double>(one.found);
    no += static_cast<double>(one.counted - one.yes);
    right_no += static_cast<double>(one.correct - one.found);
  }
  const double recall = share(found, yes), others = share(right_no, no);
  const double value = (recall + others) / 2;
  const auto n = static_cast<double>(samples.size());
  std::vector<double> parts;
  for (const SampleScore& one : samples) {
    const double of_yes = static_cast<double>(one.found) - recall * static_cast<double>(one.yes);
    const double of_no = static_cast<double>(one.correct - one.found) -
                         others * static_cast<double>(one.counted - one.yes);
    parts.push_back(value + n * (of_yes / (2 * yes) + of_no / (2 * no)));
  }
  Interval interval = analysis::mean_interval(parts, draws);
  interval.mean = value;
  return interval;
}

}  // namespace

nlohmann::json written(const SampleScore& s) {
  return {s.correct, s.counted, s.nats, s.yes, s.found, s.depth};
}

SampleScore score_of_row(const nlohmann::json& row) {
  return {.correct = row.at(0).get<std::int64_t>(),
          .counted = row.at(1).get<std::int64_t>(),
          .nats = row.at(2).get<double>(),
          .yes = row.at(3).get<std::int64_t>(),
          .found = row.at(4).get<std::int64_t>(),
          .depth = row.at(5).get<double>()};
}

Interval metric_of(const std::string& metric, std::span<const SampleScore> samples,
                   const analysis::Draws& draws) {
  Interval interval;
  if (metric == "accuracy") {
    interval = analysis::share_interval(
        parts_of(samples,
                 [](const SampleScore& s) {
                   return Part{static_cast<double>(s.correct), static_cast<double>(s.counted)};
                 }),
        draws);
  } else if (metric == "exact_match") {
    interval = analysis::share_interval(parts_of(samples,
                                                 [](const SampleScore& s) {
                                                   return Part{s.exact() ? 1.0 : 0.0, 1};
                                                 }),
                                        draws);
  } else if (metric == "perplexity") {
    const auto parts = parts_of(samples, [](const SampleScore& s) {
      return Part{s.nats, static_cast<double>(s.counted)};
    });
    interval = analysis::transformed(analysis::ratio_interval(parts, draws),
                                     [](double nats) { return std::exp(nats); });
  } else if (metric == "balanced_accuracy") {
    interval = balanced_accuracy(samples, draws);
  } else {
    throw formats::internal_error("no such metric of samples: " + metric);
  }
  interval.n = static_cast<std::int64_t>(samples.size());
  return analysis::counted_in("samples", interval);
}

double exact_share(std::span<const SampleScore> samples) {
  const auto exact = std::ranges::count_if(samples, &SampleScore::exact);
  return samples.empty() ? 0 : static_cast<double>(exact) / static_cast<double>(samples.size());
}

}  // namespace phasescope::training
