#pragma once
// Pairs of tokens drawn at chosen distances from every text, and each layer's attention at them.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/text_pass.h"
#include "analysis/theory/check.h"
#include "model/attention/token_pairs.h"

namespace phasescope::analysis {

// Pairs of one text: the same number at each distance, distances one after another.
struct DrawnPairs {
  std::int64_t text = 0;
  std::int64_t a_distance = 0;  // how many
  model::TokenPairs pairs;      // of head 0

  // (P) int64 on the host.
  const at::Tensor& queries() const { return pairs.here().query; }
  const at::Tensor& keys() const { return pairs.here().key; }
};
using PairVisitor =
    std::function<void(const DrawnPairs& pairs, const model::LayerAttention& attention)>;

// Fewest texts for errors clustered by text.
inline constexpr std::int64_t kFewestClusters = 8;

// Up to `count` distances from 1, spread evenly (or in the logarithm), that at least
// kFewestClusters texts reach; empty where so many texts are not there.
std::vector<std::int64_t> reached_distances(const Texts& texts, int count, bool logarithmic);

// Texts too short for the largest distance are left out. `model`: whose passes are looked at, the
// context's or that in float64. About `pairs` pairs of each layer in all.
void visit_pairs(const CheckContext& context, const std::shared_ptr<const model::Model>& model,
                 const std::vector<std::int64_t>& distances, std::int64_t pairs,
                 const PairVisitor& visitor);

}  // namespace phasescope::analysis
