#include "model/attention.h"

#include <ATen/ATen.h>

#include "kernels/attention.h"
#include "model/fused_attention.h"
#include "model/plain_attention.h"

namespace phasescope::model {

std::string fused_kernel_name() {
  return std::string("fused cpu ") + kernels::attention_target();
}

std::string fused_obstacle(const AttentionProgram& program, const at::Tensor& v) {
  if (v.scalar_type() != at::kFloat) {
    return std::string(at::toString(v.scalar_type())) + " has no fused form";
  }
  if (!v.device().is_cpu()) return "the fused form runs on the CPU";
  if (!program.positions.consecutive()) return "given position ids have no fused form";
  if (program.mask.defined()) return "a given mask has no fused form";
  return {};
}

AttentionResult attention(const AttentionProgram& program, const at::Tensor& v,
                          const AttentionOptions& options) {
  if (options.backend == Backend::plain) return plain_attention(program, v, options);
  const std::string obstacle = fused_obstacle(program, v);
  if (obstacle.empty()) return fused_attention(program, v, options);
  AttentionResult result = plain_attention(program, v, options);
  result.kernel = "plain (" + obstacle + ")";
  return result;
}

}  // namespace phasescope::model
