#include "analysis/metrics/registry.h"

#include <algorithm>
#include <iterator>

#include "analysis/metrics/repeated.h"
#include "analysis/metrics/rows.h"
#include "formats/error.h"
#include "formats/near_names.h"

namespace phasescope::analysis {
namespace {

constexpr MetricSource kText = MetricSource::text;
constexpr MetricSource kRepeated = MetricSource::repeated;

bool starts_with_key(const std::string& name, const std::string& key) {
  return name == key || name.starts_with(key + "_");
}

std::vector<HeadMetric> metrics_before_windows() {
  return {
      {{"entropy", "Entropy", "mean over q of -sum_k A ln A, nats",
        "a causal row 0 has one key and is left out", "nats"},
       kText,
       kFromZero,
       mean_entropy},
      {{"entropy_normalised", "Entropy, normalised",
        "mean over q >= 1 of (-sum_k A ln A) / ln(q + 1)",
        "1 for uniform rows; a causal row q has q + 1 keys; row 1 of a head with a learned sink is "
        "divided by 2/e, the most that it can have"},
       kText,
       kShare,
       mean_normalised_entropy,
       true},
      {{"sink", "Sink", "mean_q A[q, 0]", "a head counts as a sink above 0.3 (arXiv 2410.10781)"},
       kText,
       kShare,
       sink},
      {{"learned_sink", "Learned sink", "mean_q of the weight on the head's learned sink",
        "the weights of a row's keys sum to 1 less it"},
       kText,
       kShare,
       learned_sink,
       false,
       true},
      {{"previous_token", "Previous token", "mean over q >= 1 of A[q, q-1]", ""},
       kText,
       kShare,
       previous_token,
       true},
      {{"duplicate_token", "Duplicate token", "mean over q = S..2S-1 of A[q, q-S]",
        "on S random tokens written twice"},
       kRepeated,
       kShare,
       duplicate_token,
       true},
      {{"induction", "Induction", "mean over q = S..2S-1 of A[q, q-S+1]",
        "on S random tokens written twice; the pair (S-1, 0) is left out"},
       kRepeated,
       kShare,
       induction,
       true},
      {{"mean_distance", "Mean distance", "sum A (q-k) / sum A", "in tokens", "tokens"},
       kText,
       kFromZero,
       mean_distance,
       true},
      {{"mean_distance_without_first", "Mean distance without key 0",
        "sum over k >= 1 of A (q-k) / sum over k >= 1 of A", "in tokens", "tokens"},
       kText,
       kFromZero,
       mean_distance_without_first,
       true},
  };
}

HeadMetric window_metric(std::int64_t window, std::size_t number) {
  const std::string keys = std::to_string(window);
  return {{"window_mass_" + keys, "Weight on the last " + keys + " keys",
           "mean_q sum over k > q-" + keys + " of A[q, k]", ""},
          kText,
          kShare,
          [number](const MetricInput& input) { return window_mass(input, number); },
          true};
}

std::vector<HeadMetric> metrics_after_windows() {
  return {
      {{"top1_mass", "Largest weight", "mean_q max_k A[q, k]", ""}, kText, kShare, top1_mass},
      {{"effective_keys", "Effective keys", "mean_q exp(-sum_k A ln A)", "", "keys"},
       kText,
       kFromOne,
       effective_keys},
  };
}

}  // namespace

std::vector<HeadMetric> head_metrics(std::span<const std::int64_t> windows) {
  std::vector<HeadMetric> list = metrics_before_windows();
  for (std::size_t n = 0; n < windows.size(); ++n) list.push_back(window_metric(windows[n], n));
  std::ranges::move(metrics_after_windows(), std::back_inserter(list));
  return list;
}

const std::vector<protocol::MetricInfo>& extra_metrics() {
  static const std::vector<protocol::MetricInfo> list = {
      {"distance_profile", "Weight by distance", "P(d) = mean over valid q of A[q, q-d], with n(d)",
       "counts fall with d"},
      {"js_divergence", "Divergence of two heads",
       "mean_q of the Jensen-Shannon divergence of the rows of two heads, nats; a head's number is "
       "its mean over all other heads of the model",
       "0 for equal rows, ln 2 for rows without a common key", "nats"},
      {"induction_loss", "Induction loss", "cross-entropy on the second copy of S random tokens",
       "nats a token; of the model, not of a head", "nats a token"},
      {"sink_rate", "Sink rate", "share of heads whose sink is above 0.3",
       "arXiv 2410.10781; of the model, not of a head"},
  };
  return list;
}

std::vector<HeadMetric> select_metrics(const std::vector<std::string>& keys,
                                       std::span<const std::int64_t> windows) {
  const std::vector<HeadMetric> all = head_metrics(windows);
  if (keys.empty()) return all;
  std::vector<HeadMetric> chosen;
  const auto is_chosen = [&chosen](const HeadMetric& metric) {
    return std::ranges::any_of(
        chosen, [&](const HeadMetric& one) { return one.info.key == metric.info.key; });
  };
  for (const std::string& key : keys) {
    bool found = false;
    for (const HeadMetric& metric : all) {
      const bool exact = metric.info.key == key;
      const bool part = starts_with_key(metric.info.key, key) && key == "window_mass";
      if (!exact && !part) continue;
      found = true;
      if (!is_chosen(metric)) chosen.push_back(metric);
    }
    const auto is_key = [&key](const protocol::MetricInfo& info) { return info.key == key; };
    if (!found && std::ranges::none_of(extra_metrics(), is_key)) {
      std::vector<std::string> known;
      for (const HeadMetric& metric : all) known.push_back(metric.info.key);
      for (const protocol::MetricInfo& info : extra_metrics()) known.push_back(info.key);
      throw formats::bad_usage("there is no metric \"" + key + "\"", "metrics",
                               formats::hint_of_names({key}, known));
    }
  }
  return chosen;
}

bool asks_for(const std::vector<std::string>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace phasescope::analysis
