#include "analysis/metrics/registry.h"

#include <algorithm>

#include "analysis/metrics/repeated.h"
#include "analysis/metrics/rows.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

constexpr MetricSource kText = MetricSource::text;
constexpr MetricSource kRepeated = MetricSource::repeated;

bool starts_with_key(const std::string& name, const std::string& key) {
  return name == key || name.starts_with(key + "_");
}

}  // namespace

const std::vector<HeadMetric>& head_metrics() {
  static const std::vector<HeadMetric> list = {
      {{"entropy", "Entropy", "mean over q >= 1 of -sum_k A ln A, nats",
        "row 0 has one key and is left out"},
       kText,
       mean_entropy},
      {{"entropy_normalised", "Entropy, normalised",
        "mean over q >= 1 of (-sum_k A ln A) / ln(q + 1)",
        "1 for uniform rows; a causal row q has q + 1 keys"},
       kText,
       mean_normalised_entropy,
       true},
      {{"sink", "Sink", "mean_q A[q, 0]", "a head counts as a sink above 0.3 (arXiv 2410.10781)"},
       kText,
       sink},
      {{"previous_token", "Previous token", "mean over q >= 1 of A[q, q-1]", ""},
       kText,
       previous_token,
       true},
      {{"duplicate_token", "Duplicate token", "mean over q = S..2S-1 of A[q, q-S]",
        "on S random tokens written twice"},
       kRepeated,
       duplicate_token,
       true},
      {{"induction", "Induction", "mean over q = S..2S-1 of A[q, q-S+1]",
        "on S random tokens written twice; the pair (S-1, 0) is left out"},
       kRepeated,
       induction,
       true},
      {{"mean_distance", "Mean distance", "sum A (q-k) / sum A", "in tokens"},
       kText,
       mean_distance,
       true},
      {{"mean_distance_without_first", "Mean distance without key 0",
        "sum over k >= 1 of A (q-k) / sum over k >= 1 of A", "in tokens"},
       kText,
       mean_distance_without_first,
       true},
      {{"window_mass_16", "Weight on the last 16 keys", "mean_q sum over k > q-16 of A[q, k]", ""},
       kText,
       window_mass<0>,
       true},
      {{"window_mass_64", "Weight on the last 64 keys", "mean_q sum over k > q-64 of A[q, k]", ""},
       kText,
       window_mass<1>,
       true},
      {{"window_mass_256", "Weight on the last 256 keys", "mean_q sum over k > q-256 of A[q, k]",
        ""},
       kText,
       window_mass<2>,
       true},
      {{"top1_mass", "Largest weight", "mean_q max_k A[q, k]", ""}, kText, top1_mass},
      {{"effective_keys", "Effective keys", "mean_q exp(-sum_k A ln A)", ""},
       kText,
       effective_keys},
  };
  return list;
}

const std::vector<protocol::MetricInfo>& extra_metrics() {
  static const std::vector<protocol::MetricInfo> list = {
      {"distance_profile", "Weight by distance", "P(d) = mean over valid q of A[q, q-d], with n(d)",
       "counts fall with d"},
      {"js_divergence", "Divergence of two heads",
       "mean_q of the Jensen-Shannon divergence of the rows of two heads, nats; a head's number is "
       "its mean over all other heads of the model",
       "0 for equal rows, ln 2 for rows without a common key; of the first text alone"},
      {"induction_loss", "Induction loss", "cross-entropy on the second copy of S random tokens",
       "nats a token; of the model, not of a head"},
      {"sink_rate", "Sink rate", "share of heads whose sink is above 0.3",
       "arXiv 2410.10781; of the model, not of a head"},
  };
  return list;
}

std::vector<HeadMetric> select_metrics(const std::vector<std::string>& keys) {
  if (keys.empty()) return head_metrics();
  std::vector<HeadMetric> chosen;
  for (const std::string& key : keys) {
    const std::size_t before = chosen.size();
    for (const HeadMetric& metric : head_metrics()) {
      const bool exact = metric.info.key == key;
      const bool part = starts_with_key(metric.info.key, key) && key == "window_mass";
      if (exact || part) chosen.push_back(metric);
    }
    const auto is_key = [&key](const protocol::MetricInfo& info) { return info.key == key; };
    if (chosen.size() == before && std::ranges::none_of(extra_metrics(), is_key)) {
      std::string known;
      for (const HeadMetric& metric : head_metrics()) known += metric.info.key + " ";
      for (const protocol::MetricInfo& info : extra_metrics()) known += info.key + " ";
      throw formats::bad_usage("there is no metric \"" + key + "\"", "metrics",
                               "known: " + known.substr(0, known.size() - 1));
    }
  }
  return chosen;
}

bool asks_for(const std::vector<std::string>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace phasescope::analysis
