#pragma once
// What the CUDA kernels are compiled for (kernels/variants/scores.inc), for programs that link no
// CUDA too.

#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// The line of that list whose kernels a problem's scores run. Throws std::logic_error where it has
/// none.
inline const ScoreLine& cuda_score(const AttentionInputs& inputs) {
  const ScoreName score = score_of(inputs);
  const auto found = with_pass(score, &ScoreLine::on_cuda, "forward");
  if (found) return line_of(*found);
  throw std::logic_error("scores.inc has no kernel of " + std::string(line_of(score).name));
}
/// Its name.
inline std::string_view cuda_score_name(const AttentionInputs& inputs) {
  return cuda_score(inputs).name;
}
/// Whether it has what that list calls "wide", "hopper", "hopper_backward", "one_pass" or
/// "table_gradient".
inline bool cuda_score_has(const AttentionInputs& inputs, std::string_view what) {
  return has_word(cuda_score(inputs).on_cuda, what);
}

}  // namespace phasescope::kernels
