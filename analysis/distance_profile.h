#pragma once
// Sums of scores and weights by distance, for groups of heads and clusters of pairs (texts, or
// blocks of queries of one text).
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/head_reading.h"
#include "analysis/intervals/intervals.h"
#include "analysis/text_pass.h"
#include "protocol/messages/distance.h"

namespace phasescope::analysis {

// Sums over the pairs of one head and cluster, by bucket: of content scores and positional terms
// (score - content score) too, and of their squares. term_square is empty where q and k are rotated
// and a pass of the kernel sees no content score beside a score.
struct ProfileSums {
  DistanceSums sums;
  std::vector<double> content, content_square, term, term_square;
  std::vector<double> weight_square;  // empty where a pass of the kernel summed the weights

  ProfileSums() = default;
  explicit ProfileSums(const std::vector<std::int64_t>& edges);
  void add(const ProfileSums& other);
};

// All pairs of a layer that a query sees, one entry a head, at distances |i - j|, by probes of the
// streaming kernel: one pass, and where q and k are rotated another for the content scores.
// `kernels` gathers what ran these; null for nobody.
std::vector<ProfileSums> probe_profile(const model::LayerAttention& attention,
                                       const std::vector<std::int64_t>& edges,
                                       model::AllRan* kernels = nullptr);

// The pairs of queries [begin, end), one entry a head, from explicit rows.
std::vector<ProfileSums> row_profile(const model::LayerAttention& attention,
                                     const std::vector<std::int64_t>& edges, std::int64_t begin,
                                     std::int64_t end);

// One group of heads over clusters: totals, and each cluster's sums for the bands.
class ProfileGroup {
 public:
  explicit ProfileGroup(std::vector<std::int64_t> edges);
  // Every head of the group and cluster, one cluster after another; -1: of no cluster.
  void add(std::int64_t cluster, const ProfileSums& sums);
  // Bands over texts by ratio_interval(), or over blocks of one text by blocks_interval().
  std::vector<protocol::DistancePoint> points(const Sampled& sampled, const Draws& draws) const;

 private:
  using Sums = const std::vector<double>& (*)(const ProfileSums&);
  Interval band(std::size_t bucket, Sums sums, const Sampled& sampled, const Draws& draws) const;

  ProfileSums total_;
  std::vector<ProfileSums> clusters_;
};

}  // namespace phasescope::analysis
