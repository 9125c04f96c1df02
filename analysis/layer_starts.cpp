#include "analysis/layer_starts.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/text_pass.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

model::PositionState started(const model::Decoder& decoder, std::int64_t layer,
                             const model::Positions& positions) {
  const at::ScalarType angles = at::promote_types(decoder.dtype(), at::kFloat);
  model::StartContext context = layer == decoder.config().layers
                                    ? start_context(decoder, positions.length, angles)
                                    : start_context_of(decoder, layer, positions.length, angles);
  context.positions = positions;
  model::PositionState state = encoding_of_state(decoder, layer).start(context);
  state.z = model::on_host(state.z), state.table = model::on_host(state.table);
  return state;
}

}  // namespace

const at::Tensor& ReadState::on_host() {
  if (!host.defined()) host = model::on_host(z);
  return host;
}

const model::Encoding& encoding_of_state(const model::Decoder& decoder, std::int64_t layer) {
  return layer < decoder.config().layers ? decoder.encoding_of(layer) : decoder.encoding();
}

void LayerStarts::begin(const model::PositionState& state) {
  if (!starts_.empty()) return;
  positions_ = state.positions;
  for (std::int64_t layer = 0; layer <= decoder_.config().layers; ++layer) {
    const model::Encoding* encoding = &encoding_of_state(decoder_, layer);
    if (starts_.contains(encoding)) continue;
    starts_[encoding] = started(decoder_, layer, positions_);
  }
}

at::Tensor LayerStarts::at(std::int64_t layer, const model::PositionState& state) const {
  const model::Encoding& encoding = encoding_of_state(decoder_, layer);
  // A configuration may draw places for each layer, whatever its encoding is.
  const bool same = positions_.ids.is_same(state.positions.ids);
  model::PositionState start =
      same ? starts_.at(&encoding) : started(decoder_, layer, state.positions);
  encoding.before_layer(std::min(layer, decoder_.config().layers - 1), start);
  return start.z;
}

}  // namespace phasescope::analysis
