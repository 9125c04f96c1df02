#include "broken_encodings.h"

#include <ATen/ATen.h>

namespace phasescope::analysis::testing {

void ChangedState::after_mlp(const model::Parameters& layer, const model::MlpContext& context,
                             model::PositionState& state) const {
  inner_->after_mlp(layer, context, state);
  state.z = change_(state.z);
}

model::PositionState TurnedBack::start(const model::StartContext& context) const {
  model::PositionState state = inner_->start(context);
  at::Tensor z = state.z.clone();
  z.select(-2, 1).neg_();
  state.z = z;
  return state;
}

at::Tensor planes_mixed(const at::Tensor& z) { return z + 0.3 * z.roll(1, -1); }

at::Tensor scaled_by_index(const at::Tensor& z) {
  const at::Tensor index = at::arange(z.size(2), z.options()).view({-1, 1, 1});
  return z * (1 + 0.1 * index);
}

}  // namespace phasescope::analysis::testing
