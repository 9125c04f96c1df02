#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/encoding.h"

namespace phasescope::model {

// RoPE's options: base, layout, shift, and its scalings to longer texts.
std::vector<OptionInfo> rope_options();

// Frequencies of a rope with its scaling: none; linear (position interpolation); ntk, dynamic (the
// base grows); yarn (a blend by plane). Definitions as Hugging Face's configs of those names have
// them (encodings are listed with their papers).
class RopeScaling {
 public:
  RopeScaling(const Json& options, const ModelConfig& model);

  // (d/2) of `dtype`, for reading `length` tokens.
  at::Tensor frequencies(std::int64_t length, at::ScalarType dtype) const;
  // Both q and k are multiplied by it (yarn; 1 otherwise).
  double magnitude() const;

 private:
  double grown_base(std::int64_t length) const;
  at::Tensor yarn_frequencies(at::ScalarType dtype) const;

  std::int64_t head_dim_;
  std::int64_t trained_;
  std::string kind_;
  double base_, factor_, beta_fast_, beta_slow_, attention_factor_;
  bool truncate_;
};

}  // namespace phasescope::model
