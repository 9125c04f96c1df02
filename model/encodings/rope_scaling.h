#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/encoding.h"

namespace phasescope::model {

// Beyond it an angle has lost more than half of a float64's digits.
inline constexpr std::int64_t kFarthestShift = std::int64_t{1} << 31;
// "shift", where position ids start: no farther from 0 than that.
OptionInfo shift_option();

// RoPE's options: base, layout, shift, and its scalings to longer texts.
std::vector<OptionInfo> rope_options();

// A sentence for each scaling that `options` ask for and that changes nothing: a factor of 1,
// longrope without lists.
std::vector<std::string> idle_scalings(const Json& options);

// Yarn with its ramp linear in the number of turns over the trained length (arXiv 2309.00071, Eq.
// 17-23): planes of `fast` turns and more keep their frequency, those of `slow` and fewer are
// divided by the factor. `plain` and the result (planes).
at::Tensor yarn_by_turns(const at::Tensor& plain, double factor, std::int64_t trained, double fast,
                         double slow);

// Frequencies of a rope with its scaling: none; linear (position interpolation); ntk, dynamic (the
// base grows); yarn, llama3 (a blend by plane); longrope (a factor a plane). Definitions as Hugging
// Face's configs of those names have them (encodings are listed with their papers). Throws Error
// "bad_input" where options do not fit the head.
class RopeScaling {
 public:
  RopeScaling(const Json& options, const ModelConfig& model);

  // (planes) of these options, for reading `length` tokens; 0 for planes that do not turn.
  at::Tensor frequencies(std::int64_t length, const at::TensorOptions& options) const;
  // Both q and k are multiplied by it (yarn, longrope; 1 otherwise).
  double magnitude() const;

 private:
  at::Tensor of_all_planes(std::int64_t length, const at::TensorOptions& options) const;
  double grown_base(std::int64_t length) const;
  at::Tensor yarn_frequencies(const at::TensorOptions& options) const;
  at::Tensor llama3_frequencies(const at::TensorOptions& options) const;
  at::Tensor longrope_frequencies(std::int64_t length, const at::TensorOptions& options) const;

  std::int64_t turned_;  // channels of a head
  std::int64_t trained_;
  std::string kind_;
  double base_, factor_, beta_fast_, beta_slow_, attention_factor_, low_freq_factor_,
      high_freq_factor_, turning_;
  bool truncate_, by_turns_;
  std::vector<double> short_factor_, long_factor_;
};

}  // namespace phasescope::model
