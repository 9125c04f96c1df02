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
  if (program.key_mask.defined()) return "padded texts have no fused form";
  if (program.kind == AttentionProgram::Kind::term) {
    return "a term that is no table of distances has no fused form";
  }
  if (program.kind == AttentionProgram::Kind::tape && program.tape.state.size(-1) > 512) {
    return "a position state of more than 512 numbers a head has no fused form";
  }
  if (program.gain != 1.0) return "a gain by layer has no fused form";
  if (program.token_bias.defined()) return "a bias rounded by token has no fused form";
  const bool takes_window = program.kind == AttentionProgram::Kind::plain ||
                            program.kind == AttentionProgram::Kind::table;
  if (program.window > 0 && !takes_window) {
    return std::string("a window has no fused form with ") + name_of(program.kind);
  }
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
