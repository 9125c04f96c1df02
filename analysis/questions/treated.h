#pragma once
// Losses of a text where some heads are treated: shown other distances, or blind to some keys.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/texts.h"
#include "model/attention/moved_scores.h"
#include "model/checkpoints/open_model.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// What is done to a layer's program before it runs.
using Treatment = std::function<void(const model::LayerInput&, model::AttentionProgram&)>;

struct TreatedPass {
  model::Backend backend = model::Backend::plain;
  model::AllRan* kernels = nullptr;
  protocol::Progress* progress = nullptr;  // told of each layer, and asked whether to go on
  std::string doing = {};                  // what it is told
  model::Observer* observer = nullptr;
};

// The loss of each of the N - 1 rows of a text in bits, with a treatment or without any.
std::vector<double> treated_losses(const model::Model& model, const std::vector<std::int64_t>& ids,
                                   const Treatment& treatment, const TreatedPass& pass);
// The same where a hook treats them; null: nothing does.
std::vector<double> losses_under(const model::Model& model, const std::vector<std::int64_t>& ids,
                                 model::AttentionHook* hook, const TreatedPass& pass);

// Whether what the planes of q and k turn by is in their product, whatever a reading adds to it by
// distance or reads at a limit.
bool turns_planes(const model::AttentionProgram& program);

// Throws Error "not_applicable" where a model cannot be shown another distance, and says why.
void require_other_distances(const model::Model& model);

}  // namespace phasescope::analysis
