#pragma once
// Distance bias: mean score and weight by distance, near-far histograms, RoPE's intrinsic bias.
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/head_bias.h"
#include "analysis/near_far.h"
#include "analysis/text_pass.h"
#include "protocol/messages/distance.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

struct DistanceOptions {
  std::optional<std::pair<std::int64_t, std::int64_t>> near, far;  // default_near_far otherwise
  std::int64_t pairs = 10000;
  bool leave_out_first = false;  // key 0 ([BOS]) is no key of the histogram
  bool per_head = false;
  bool profile = true, histogram = true, intrinsic = true;
  // For models that rotate: the heads that head_bias is told of, L/2 H0 where empty, with the bases
  // and factors of their sweep.
  std::vector<LayerHead> heads;
  std::vector<std::int64_t> bases, factors;
  std::uint64_t seed = 0;
};

// The samples of every histogram of a model, so that those of several can have the same bins.
struct NearFarValues {
  struct Group {
    std::vector<double> scores, weights;
  };
  Group all;
  std::vector<Group> layers, heads;  // as DistanceModel has them
};

// One pass a text. Profiles hold all pairs that a query sees, at distances |i - j|: in a model that
// sees both ways keys on both sides count, in profiles and in histograms (NearFarSpec::both_sides).
// Bands and intervals of the histograms are those of analysis/intervals/ over texts, for a single
// text over 8 blocks of its queries; `bands` and the intervals say which. RoPE's intrinsic bias is
// at the angles of the longest text: where a scaling has others for shorter ones, these are left
// out, and `note` says so. Histograms hold `pairs` samples each: sample s of a layer is of head s
// mod heads, of the model of layer (s / heads) mod layers; samples of which a layer's window hides
// a key are left out of it. The intrinsic bias is one of causal pairs. Throws Error "bad_input"
// where the intervals do not fit the texts, "bad_usage" for a head that is not there. `values`:
// what the histograms are of; null for nobody.
protocol::DistanceModel analyse_distance(const std::vector<std::shared_ptr<TextPass>>& passes,
                                         const DistanceOptions& options,
                                         protocol::Progress& progress,
                                         NearFarValues* values = nullptr);

// Gives the histograms of all models, of their whole and of layers and heads of one number, the
// same bins: from the smallest to the largest value of all, as narrow as the narrowest model's 60
// are, 240 at most. `values` of each model, in their order.
void share_bins(std::span<protocol::DistanceModel> models, std::span<const NearFarValues> values);

}  // namespace phasescope::analysis
