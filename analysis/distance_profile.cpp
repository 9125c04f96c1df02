#include "analysis/distance_profile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "analysis/content_attention.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

// Adds to `probe` what a pass over the scores could not find beside them: the content score is the
// score, or q and k were rotated and a pass over the content scores alone sums these. Then no terms
// are squared.
void complete_parts(const model::LayerAttention& attention, const model::ProbeRequest& request,
                    model::ProbeResult& probe, model::AllRan* kernels) {
  if (probe.bucket_content.defined()) return;
  if (!request.content) {
    probe.bucket_content = probe.bucket_score;
    probe.bucket_content_square = probe.bucket_score_square;
    probe.bucket_term = probe.bucket_term_square = at::zeros_like(probe.bucket_score);
    return;
  }
  model::ProbeRequest again;
  again.bucket_edges = request.bucket_edges;
  const model::ProbeResult content = content_attention(attention).probe(again);
  if (kernels != nullptr) kernels->insert(content.ran);
  probe.bucket_content = content.bucket_score;
  probe.bucket_content_square = content.bucket_score_square;
  probe.bucket_term = probe.bucket_score - content.bucket_score;
}

// Adds the sums of row q's first `keys` keys; `bucket` maps a distance to its bucket.
template <class T>
void add_row(ProfileSums& out, const std::vector<std::size_t>& bucket, std::int64_t q,
             std::int64_t keys, const T* score, const T* content, const T* weight) {
  for (std::int64_t k = 0; k < keys; ++k) {
    if (score[k] == -std::numeric_limits<T>::infinity()) continue;  // masked; a NaN is not
    const std::size_t b = bucket[static_cast<std::size_t>(std::abs(q - k))];
    const double s = score[k], c = content[k], t = s - c;
    ++out.sums.pairs[b];
    out.sums.score[b] += s;
    out.sums.score_square[b] += s * s;
    out.sums.weight[b] += weight[k];
    out.weight_square[b] += double{weight[k]} * double{weight[k]};
    out.content[b] += c;
    out.content_square[b] += c * c;
    out.term[b] += t;
    out.term_square[b] += t * t;
  }
}

std::vector<std::size_t> bucket_table(const std::vector<std::int64_t>& edges) {
  std::vector<std::size_t> table;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    table.insert(table.end(), static_cast<std::size_t>(edges[b + 1] - edges[b]), b);
  }
  return table;
}

// One entry a head; the three are (H, rows, keys) of T, of queries from `begin` on.
template <class T>
std::vector<ProfileSums> sums_of_rows(const at::Tensor& score, const at::Tensor& content,
                                      const at::Tensor& weight,
                                      const std::vector<std::int64_t>& edges, std::int64_t begin) {
  const std::int64_t rows = score.size(1), keys = score.size(2);
  const std::vector<std::size_t> bucket = bucket_table(edges);
  std::vector<ProfileSums> heads(static_cast<std::size_t>(score.size(0)), ProfileSums(edges));
  at::parallel_for(0, score.size(0), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t h = first; h < last; ++h) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = (h * rows + row) * keys;
        add_row(heads[static_cast<std::size_t>(h)], bucket, begin + row, keys,
                score.const_data_ptr<T>() + at, content.const_data_ptr<T>() + at,
                weight.const_data_ptr<T>() + at);
      }
    }
  });
  return heads;
}

double deviation(double mean_square, double mean) {
  return std::sqrt(std::max(0.0, mean_square - mean * mean));
}

const std::vector<double>& scores(const ProfileSums& sums) { return sums.sums.score; }
const std::vector<double>& weights(const ProfileSums& sums) { return sums.sums.weight; }
const std::vector<double>& contents(const ProfileSums& sums) { return sums.content; }
const std::vector<double>& terms(const ProfileSums& sums) { return sums.term; }

}  // namespace

ProfileSums::ProfileSums(const std::vector<std::int64_t>& edges)
    : sums(edges),
      content(edges.size() - 1),
      content_square(content),
      term(content),
      term_square(content),
      weight_square(content) {}

void ProfileSums::add(const ProfileSums& other) {
  sums.add(other.sums);
  for (std::size_t b = 0; b < content.size(); ++b) {
    content[b] += other.content[b];
    content_square[b] += other.content_square[b];
    term[b] += other.term[b];
  }
  if (other.term_square.empty()) term_square.clear();  // a sum over some pairs alone says nothing
  for (std::size_t b = 0; b < term_square.size(); ++b) term_square[b] += other.term_square[b];
  if (other.weight_square.empty()) weight_square.clear();
  for (std::size_t b = 0; b < weight_square.size(); ++b) weight_square[b] += other.weight_square[b];
}

std::vector<ProfileSums> probe_profile(const model::LayerAttention& attention,
                                       const std::vector<std::int64_t>& edges,
                                       model::AllRan* kernels) {
  model::ProbeRequest request;
  request.bucket_edges = edges;
  request.content = request.term = !content_is_score(attention.program());
  model::ProbeResult probe = attention.probe(request);
  if (kernels != nullptr) kernels->insert(probe.ran);
  complete_parts(attention, request, probe, kernels);
  std::vector<ProfileSums> heads;
  for (std::int64_t head = 0; head < attention.heads(); ++head) {
    ProfileSums& profile = heads.emplace_back(edges);
    profile.sums.pairs = to_vector<std::int64_t>(probe.bucket_pairs[0][head]);
    profile.sums.weight = to_vector<double>(probe.bucket_weight[0][head]);
    profile.sums.score = to_vector<double>(probe.bucket_score[0][head]);
    profile.sums.score_square = to_vector<double>(probe.bucket_score_square[0][head]);
    profile.content = to_vector<double>(probe.bucket_content[0][head]);
    profile.content_square = to_vector<double>(probe.bucket_content_square[0][head]);
    profile.term = to_vector<double>(probe.bucket_term[0][head]);
    profile.term_square.clear(), profile.weight_square.clear();
    if (probe.bucket_term_square.defined()) {
      profile.term_square = to_vector<double>(probe.bucket_term_square[0][head]);
    }
  }
  return heads;
}

std::vector<ProfileSums> row_profile(const model::LayerAttention& attention,
                                     const std::vector<std::int64_t>& edges, std::int64_t begin,
                                     std::int64_t end) {
  const at::NoGradGuard no_gradients;
  const std::int64_t keys = attention.program().causal ? end : attention.keys();
  const model::Region region{attention.whole().heads, {begin, end}, {0, keys}};
  const model::ScoreParts parts = attention.scores(region);
  const auto type = parts.score.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor score = parts.score[0].to(type).contiguous();
  const at::Tensor content = parts.content[0].to(type).contiguous();
  at::Tensor weight = at::softmax(score, -1);
  if (const at::Tensor sinks = attention.sink_weights(); sinks.defined()) {
    weight = weight * (1 - sinks[0].slice(1, begin, end)).unsqueeze(-1).to(type);
  }
  return type == at::kDouble ? sums_of_rows<double>(score, content, weight, edges, begin)
                             : sums_of_rows<float>(score, content, weight, edges, begin);
}

ProfileGroup::ProfileGroup(std::vector<std::int64_t> edges) : total_(edges) {}

void ProfileGroup::add(std::int64_t cluster, const ProfileSums& sums) {
  total_.add(sums);
  if (cluster < 0) return;
  while (static_cast<std::int64_t>(clusters_.size()) <= cluster) {
    clusters_.emplace_back(total_.sums.edges);
  }
  clusters_[static_cast<std::size_t>(cluster)].add(sums);
}

Interval ProfileGroup::band(std::size_t bucket, Sums sums, const Sampled& sampled,
                            const Draws& draws) const {
  std::vector<Part> parts;
  for (const ProfileSums& cluster : clusters_) {
    parts.push_back({sums(cluster)[bucket], static_cast<double>(cluster.sums.pairs[bucket])});
  }
  if (!sampled.blocks) return ratio_interval(parts, draws);
  const double whole = sums(total_)[bucket] / static_cast<double>(total_.sums.pairs[bucket]);
  return blocks_interval(whole, parts, sampled.rows);
}

std::vector<protocol::DistancePoint> ProfileGroup::points(const Sampled& sampled,
                                                          const Draws& draws) const {
  const DistanceSums& sums = total_.sums;
  std::vector<protocol::DistancePoint> points;
  for (std::size_t b = 0; b < sums.size(); ++b) {
    if (sums.pairs[b] == 0) continue;
    const auto n = static_cast<double>(sums.pairs[b]);
    protocol::DistancePoint& point = points.emplace_back();
    point.distance = sums.edges[b], point.distance_end = sums.edges[b + 1];
    point.count = sums.pairs[b];
    const auto mean = [&](Sums of, double& value, protocol::IntervalEnd& low,
                          protocol::IntervalEnd& high, const ValueRange& range = {}) {
      const Interval interval = bounded(range, band(b, of, sampled, draws));
      value = of(total_)[b] / n, low = interval.low, high = interval.high;
      point.n = interval.n;
    };
    mean(&scores, point.score_mean, point.score_low, point.score_high);
    mean(&weights, point.weight_mean, point.weight_low, point.weight_high, kShare);
    mean(&contents, point.content_mean, point.content_low, point.content_high);
    mean(&terms, point.positional_mean, point.positional_low, point.positional_high);
    // One pair says nothing of how far others would lie from it.
    const auto spread = [&](const std::vector<double>& squares, double of) {
      return point.count < 2 ? std::numeric_limits<double>::quiet_NaN()
                             : deviation(squares[b] / n, of);
    };
    point.score_sd = spread(sums.score_square, point.score_mean);
    point.content_sd = spread(total_.content_square, point.content_mean);
    if (!total_.weight_square.empty()) {
      point.weight_sd = spread(total_.weight_square, point.weight_mean);
    }
    if (!total_.term_square.empty()) {
      point.positional_sd = spread(total_.term_square, point.positional_mean);
    }
  }
  return points;
}

}  // namespace phasescope::analysis
