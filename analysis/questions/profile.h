#pragma once
// The positional and the semantic score of a head (arXiv 2609.39929), for every encoding whose
// score can be read at other distances: s(t), t = 0..W-1, of a pair whose content is held.
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/texts.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/profile.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// The score of d(t): 1 - erfc(sign(d(0)) m / sqrt(2 v)) / 2, m the mean and v the variance of all
// t, and the share of t at which d has the sign it has at 0. `mass`: what rounding is measured by.
struct SemanticScore {
  bool tie = false, valid = true;
  double gaussian = 0, share = 0;
};
SemanticScore semantic_score(const std::vector<double>& difference, double mass);

struct ProfileOptions {
  model::Backend backend = model::Backend::fused;
  std::int64_t window = 0;  // 0: the trained length
  std::int64_t samples = 256;
  std::vector<std::int64_t> layers, heads;
  std::uint64_t seed = 0;
};

// Pairs and triplets are drawn for each text, the same ones for all heads and models. One forward
// pass a text. Throws Error "not_applicable" where the model cannot be shown another distance.
protocol::ProfileResult analyse_profile(const std::shared_ptr<const model::Model>& model,
                                        const Texts& texts, const ProfileOptions& options,
                                        protocol::Progress& progress);

}  // namespace phasescope::analysis
