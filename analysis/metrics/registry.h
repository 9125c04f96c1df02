#pragma once
// The statistics of a head, each with its formula. To add one: a function of MetricInput, a line in
// head_metrics() (registry.cpp), a test with an answer known by construction.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/head_reading.h"
#include "analysis/intervals/intervals.h"
#include "protocol/messages/heads.h"

namespace phasescope::analysis {

// A head's reading of a text, and of `period` seeded random tokens written twice (the input of
// duplicate_token and induction).
struct MetricInput {
  const HeadReading* text = nullptr;
  const HeadReading* repeated = nullptr;
  std::int64_t period = 0;
};

enum class MetricSource { text, repeated };

struct HeadMetric {
  protocol::MetricInfo info;
  MetricSource source = MetricSource::text;
  ValueRange range;  // the values that it can have
  // NaN where the text is too short for the statistic.
  std::function<double(const MetricInput& input)> value;
  bool causal_alone = false;  // says nothing of a model that sees both ways, where it is left out
  bool sinks_alone = false;   // of heads with a learned sink; left out where the model has none
};

// Every statistic with one number a head, in the order of docs/equations.md, with the weight on the
// last keys of each of these windows.
std::vector<HeadMetric> head_metrics(std::span<const std::int64_t> windows = kWindows);

// Statistics that are no single number a head: what `heads` gives beside its rows.
const std::vector<protocol::MetricInfo>& extra_metrics();

// The metrics asked for by key; a key that is the first part of several ("window_mass") stands for
// all of them, an empty list for all. Throws Error "bad_usage" naming a key that does not exist.
std::vector<HeadMetric> select_metrics(const std::vector<std::string>& keys,
                                       std::span<const std::int64_t> windows = kWindows);

// Whether a key of extra_metrics() was asked for by name.
bool asks_for(const std::vector<std::string>& keys, std::string_view key);

}  // namespace phasescope::analysis
