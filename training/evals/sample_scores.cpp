#include "training/evals/sample_scores.h"

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "protocol/json_form.h"

namespace phasescope::training {
namespace {

using analysis::Interval;
using analysis::Part;

// Above it samples are put together to so many units, every n-th into one: still independent, and
// the draws of a bootstrap stay small. Shares of 0 and 1 get the interval of so many samples.
constexpr std::size_t kMostUnits = 4096;

// `part` of each index.
template <class PartOf>
std::vector<Part> parts_of(std::size_t samples, PartOf part) {
  std::vector<Part> parts(std::min(samples, kMostUnits));
  for (std::size_t n = 0; n < samples; ++n) {
    const Part one = part(n);
    Part& unit = parts[n % parts.size()];
    unit.sum += one.sum, unit.weight += one.weight;
  }
  return parts;
}

// What a ratio of sums is made of: right answers, right samples, nats.
Part part_of(const std::string& metric, const SampleScore& one) {
  const auto counted = static_cast<double>(one.counted);
  if (metric == "accuracy") return {static_cast<double>(one.correct), counted};
  if (metric == "exact_match") return {one.exact() ? 1.0 : 0.0, 1};
  if (metric == "perplexity") return {one.nats, counted};
  if (metric == "contained") return {one.contained ? 1.0 : 0.0, 1};
  throw formats::internal_error("no such metric of samples: " + metric);
}

double share(double part, double whole) { return whole > 0 ? part / whole : std::nan(""); }

// (recall + share of right answers among the others) / 2. Each sample's part in its error is what
// its answers lie above both shares, so that the mean of these parts is the value itself.
struct Balanced {
  double value = 0;
  std::vector<double> parts;
};

Balanced balanced_accuracy(std::span<const SampleScore> samples) {
  double yes = 0, found = 0, no = 0, right_no = 0;
  for (const SampleScore& one : samples) {
    yes += static_cast<double>(one.yes), found += static_cast<double>(one.found);
    no += static_cast<double>(one.counted - one.yes);
    right_no += static_cast<double>(one.correct - one.found);
  }
  const double recall = share(found, yes), others = share(right_no, no);
  Balanced balanced{.value = (recall + others) / 2, .parts = {}};
  const auto n = static_cast<double>(samples.size());
  for (const SampleScore& one : samples) {
    const double of_yes = static_cast<double>(one.found) - recall * static_cast<double>(one.yes);
    const double of_no = static_cast<double>(one.correct - one.found) -
                         others * static_cast<double>(one.counted - one.yes);
    balanced.parts.push_back(balanced.value + n * (of_yes / (2 * yes) + of_no / (2 * no)));
  }
  return balanced;
}

Interval mean_of_parts(const std::vector<double>& parts, double value,
                       const analysis::Draws& draws) {
  Interval interval = analysis::mean_interval(parts, draws);
  interval.mean = value;
  return interval;
}

}  // namespace

nlohmann::json written(const SampleScore& s) {
  return {s.correct, s.counted,  protocol::detail::write_double(s.nats), s.yes, s.found,
          s.depth,   s.contained};
}

SampleScore score_of_row(const nlohmann::json& row) {
  return {.correct = row.at(0).get<std::int64_t>(),
          .counted = row.at(1).get<std::int64_t>(),
          .nats = protocol::detail::read_double(row.at(2)),
          .yes = row.at(3).get<std::int64_t>(),
          .found = row.at(4).get<std::int64_t>(),
          .depth = row.at(5).get<double>(),
          .contained = row.size() > 6 && row.at(6).get<bool>()};
}

analysis::ValueRange range_of(const std::string& metric) {
  if (metric == "perplexity") return analysis::kFromOne;
  return metric.starts_with("bits") ? analysis::kFromZero : analysis::kShare;
}

analysis::ValueRange range_of_difference(const std::string& metric) {
  // That of perplexities is told in nats an answer.
  return std::isfinite(range_of(metric).high) ? analysis::kDifference : analysis::ValueRange{};
}

Interval metric_of(const std::string& metric, std::span<const SampleScore> samples,
                   const analysis::Draws& draws) {
  Interval interval;
  if (metric == "balanced_accuracy") {
    const Balanced balanced = balanced_accuracy(samples);
    // Samples that are all right, or all wrong, have no spread; how many they are says what is
    // left.
    const bool extreme = balanced.value <= 0 || balanced.value >= 1;
    const auto whole = [&](std::size_t) { return Part{balanced.value, 1}; };
    interval =
        extreme ? analysis::share_interval(parts_of(samples.size(), whole), draws)
                : bounded(range_of(metric), mean_of_parts(balanced.parts, balanced.value, draws));
  } else {
    const auto parts =
        parts_of(samples.size(), [&](std::size_t n) { return part_of(metric, samples[n]); });
    interval = metric == "perplexity"
                   ? analysis::transformed(
                         bounded(analysis::kFromZero, analysis::ratio_interval(parts, draws)),
                         [](double nats) { return std::exp(nats); })
                   : analysis::share_interval(parts, draws);
  }
  interval.n = static_cast<std::int64_t>(samples.size());
  return analysis::counted_in("samples", interval);
}

Interval metric_difference(const std::string& metric, std::span<const SampleScore> first,
                           std::span<const SampleScore> other, const analysis::Draws& draws) {
  if (first.size() != other.size()) {
    throw formats::internal_error("samples that are not the same cannot be paired");
  }
  Interval interval;
  if (metric == "balanced_accuracy") {
    const Balanced a = balanced_accuracy(first);
    Balanced b = balanced_accuracy(other);
    for (std::size_t n = 0; n < b.parts.size(); ++n) b.parts[n] -= a.parts[n];
    interval = mean_of_parts(b.parts, b.value - a.value, draws);
  } else {
    interval = analysis::ratio_interval(parts_of(first.size(),
                                                 [&](std::size_t n) {
                                                   const Part a = part_of(metric, first[n]),
                                                              b = part_of(metric, other[n]);
                                                   return Part{b.sum - a.sum, a.weight};
                                                 }),
                                        draws);
  }
  interval = bounded(range_of_difference(metric), interval);
  interval.n = static_cast<std::int64_t>(first.size());
  return analysis::counted_in("samples", interval);
}

double exact_share(std::span<const SampleScore> samples) {
  const auto exact = std::ranges::count_if(samples, &SampleScore::exact);
  return samples.empty() ? 0 : static_cast<double>(exact) / static_cast<double>(samples.size());
}

}  // namespace phasescope::training
