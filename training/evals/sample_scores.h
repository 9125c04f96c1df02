#pragma once
// What a task's samples come to: their metric with its interval over the samples.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "tasks/task.h"

namespace phasescope::training {

// One sample's part.
struct SampleScore {
  std::int64_t correct = 0, counted = 0;  // answers that count
  double nats = 0;                        // of these
  std::int64_t yes = 0, found = 0;        // those whose target is 1, and of them the right ones
  double depth = 0;                       // where the answer stands in it, 0 to 1
  bool contained = false;                 // of a text that was written: the answer is in it
  bool exact() const { return correct == counted; }
};

// [correct, counted, nats, yes, found, depth, contained], and back; what was written by an older
// version has no last one. Throws what nlohmann::json throws.
nlohmann::json written(const SampleScore& score);
SampleScore score_of_row(const nlohmann::json& row);

// The metric of a task (TaskInfo::metric) over samples: "accuracy" is right answers among those
// that count, "exact_match" samples all of whose answers are right, "balanced_accuracy" the mean of
// the shares of right answers among targets 1 and among the others, "perplexity" that of the
// answers that count, "contained" samples whose answer stands in what was written. The interval is
// over samples, which are independent draws. Throws Error
// "internal" for another metric.
analysis::Interval metric_of(const std::string& metric, std::span<const SampleScore> samples,
                             const analysis::Draws& draws);

// The values that a metric can have: one of texts or of samples.
analysis::ValueRange range_of(const std::string& metric);
// Those of a difference of two.
analysis::ValueRange range_of_difference(const std::string& metric);

// What the metric is above that of `first`, sample by sample of the same samples: what is hard for
// one model is hard for the other. Of perplexity the difference of the losses, in nats an answer.
// Throws Error "internal" for another metric, or lists of other lengths.
analysis::Interval metric_difference(const std::string& metric, std::span<const SampleScore> first,
                                     std::span<const SampleScore> other,
                                     const analysis::Draws& draws);

// Samples all of whose answers are right.
double exact_share(std::span<const SampleScore> samples);

}  // namespace phasescope::training
