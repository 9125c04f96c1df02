#pragma once
// What layers' position states begin with, to see which of them have moved from there.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "model/decoder.h"

namespace phasescope::analysis {

// A state's z, copied to the host once where someone reads its numbers.
struct ReadState {
  at::Tensor z;
  at::Tensor host = {};

  const at::Tensor& on_host();
};

// The encoding of a layer, and that of the state behind the last one: the model's own.
const model::Encoding& encoding_of_state(const model::Decoder& decoder, std::int64_t layer);

// What the encodings of a model begin with at a text's positions, on the host. All are made with
// the first state, before any layer runs: some draw, and a device copies what they have drawn.
class LayerStarts {
 public:
  explicit LayerStarts(const model::Decoder& decoder) : decoder_(decoder) {}

  // `state`: the first one that is seen; nothing is done for later ones.
  void begin(const model::PositionState& state);
  // The z that the encoding of a layer begins with where a state of it stands.
  at::Tensor at(std::int64_t layer, const model::PositionState& state) const;

 private:
  const model::Decoder& decoder_;
  model::Positions positions_;
  std::map<const model::Encoding*, model::PositionState> starts_;
};

}  // namespace phasescope::analysis
