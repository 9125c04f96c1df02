#include "model/attention/attention.h"

#include <ATen/ATen.h>

#include <utility>

#include "formats/error.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_cuda.h"
#include "model/attention/cuda_attention.h"
#include "model/attention/fused_attention.h"
#include "model/attention/plain_attention.h"
#include "model/checkpoints/tensor_io.h"
#include "model/host_memory.h"

namespace phasescope::model {

std::string fused_kernel_name() { return std::string("fused cpu ") + kernels::attention_target(); }

Ran ran_fused(const at::Tensor& v) {
  return {.implementation = fused_kernel_name(), .dtype = name_of_dtype(v.scalar_type())};
}

Ran ran_on_cuda(const AttentionProgram& program, const at::Tensor& v) {
  return ran_on_cuda(program, v, Backend::fused);
}

Ran ran_on_cuda(const AttentionProgram& program, const at::Tensor& v, Backend backend) {
  return {.implementation = cuda_form_of(program, v, backend).verified
                                ? kernels::kVerifiedCudaBackend
                                : kernels::kCudaBackend,
          .device = "cuda",
          .dtype = name_of_dtype(v.scalar_type())};
}

Ran ran_plain(const at::Tensor& v, std::string reason) {
  return {.implementation = "plain",
          .device = at::DeviceTypeName(v.device().type(), true),
          .reason = std::move(reason),
          .dtype = name_of_dtype(v.scalar_type())};
}

namespace {

// Whether some query may see padding alone.
bool may_lose_rows(const AttentionProgram& program) {
  if (!program.key_mask.defined()) return false;
  if (program.window > 0 || program.documents.defined()) return true;
  if (program.loses_rows) return *program.loses_rows;
  const at::Tensor sees = program.causal ? program.key_mask.select(1, 0) : program.key_mask.any(1);
  return !sees.all().item<bool>();
}

}  // namespace

std::string fused_obstacle(const AttentionProgram& program, const at::Tensor& v) {
  if (!in_host_memory(v.device()) && !v.is_meta()) return "the fused form runs on the CPU";
  return kernel_obstacle(program, v);
}

std::string kernel_obstacle(const AttentionProgram& program, const at::Tensor& v) {
  const at::ScalarType dtype = v.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf) {
    return std::string(at::toString(dtype)) + " has no fused form";
  }
  // Rotations have been applied by now; other kinds read distances from the tokens' places.
  const auto* tape = program.as<TapeProgram>();
  const bool reads_distances = tape == nullptr && !program.is<PlainProgram>();
  if (reads_distances && !program.positions.consecutive()) {
    return std::string("given position ids have no fused form with ") + program.name();
  }
  if (program.mask.defined()) return "a given mask has no fused form";
  if (program.edit) return "scores that are changed before softmax have no fused form";
  if (program.padding_added && may_lose_rows(program)) {
    return "rows that see nothing but padding have no fused form where padding is added";
  }
  if (const auto* term = program.as<TermProgram>()) {
    return std::string(term->no_table) + " has no fused form";
  }
  const FireProgram* fire = program.fire();
  if (fire != nullptr && !program.causal) {
    return "fire past its threshold has no fused form without a causal mask";
  }
  const auto* cape = program.as<CapeProgram>();
  if (cape != nullptr && cape->w1.size(0) > 1024) {
    return "a correction of more than 1024 hidden units has no fused form";
  }
  if (cape != nullptr && fire != nullptr) {
    const std::int64_t units = cape->w1.size(0), pieces = fire->slope.size(1);
    if ((units + program.q.size(1)) * pieces > kernels::kCapePieces) {
      return "a correction of " + std::to_string(units) + " hidden units of a bias of " +
             std::to_string(pieces) + " pieces has no fused form";
    }
  }
  if (program.q.size(-1) > kernels::kMaxChannels || v.size(-1) > kernels::kMaxChannels) {
    return "a head of more than " + std::to_string(kernels::kMaxChannels) +
           " channels has no fused form";
  }
  if (tape != nullptr && tape->state.size(-1) > kernels::kMaxChannels) {
    return "a position state of more than " + std::to_string(kernels::kMaxChannels) +
           " numbers a head has no fused form";
  }
  const auto* relative = program.as<RelativeKeysProgram>();
  if (relative != nullptr && relative->keys.size(1) > kernels::kMaxChannels) {
    return "relative keys of more than " + std::to_string(kernels::kMaxChannels) +
           " channels have no fused form";
  }
  if (program.gain != 1.0) return "a gain by layer has no fused form";
  const auto* table = program.as<TableProgram>();
  const bool adds = table != nullptr && !table->multiplies;
  if (program.tokens.defined() && !adds && relative == nullptr && !program.is<PlainProgram>()) {
    return std::string("numbers of tokens in the scores have no fused form with ") + program.name();
  }
  return {};
}

void check_probes(const ProbeRequest& request) {
  if (request.windows.size() > static_cast<std::size_t>(kernels::kMaxWindows)) {
    throw formats::bad_usage("at most " + std::to_string(kernels::kMaxWindows) +
                             " windows can be measured in one pass");
  }
  if (request.top_keys < 0 || request.top_keys > kernels::kMaxTopKeys) {
    throw formats::bad_usage("between 1 and " + std::to_string(kernels::kMaxTopKeys) +
                                 " largest keys of a row can be kept, not " +
                                 std::to_string(request.top_keys),
                             "top");
  }
}

Backend backend_named(const std::string& name) {
  if (name.empty() || name == "auto" || name == "fused") return Backend::fused;
  if (name == "plain") return Backend::plain;
  if (name != kernels::kCudaBackend) {
    throw formats::bad_usage(
        "there is no backend \"" + name + "\"; use fused, plain or " + kernels::kCudaBackend,
        "backend");
  }
  require_cuda_kernels();
  return Backend::cuda_unverified;
}

namespace {

AttentionResult run_attention(const AttentionProgram& program, const at::Tensor& v,
                              const AttentionOptions& options) {
  if (options.backend == Backend::plain) return plain_attention(program, v, options);
  const bool cuda = options.backend == Backend::cuda_unverified ||
                    (v.is_cuda() && is_verified_on_cuda(program, v));
  const std::string obstacle =
      cuda ? cuda_obstacle(program, v, wants_gradients(program, v), options.probes)
           : fused_obstacle(program, v);
  if (obstacle.empty()) {
    AttentionResult result =
        cuda ? cuda_attention(program, v, options) : fused_attention(program, v, options);
    result.ran = cuda ? ran_on_cuda(program, v, options.backend) : ran_fused(v);
    if (cuda && options.atomic_dq && wants_gradients(program, v)) {
      result.ran.implementation += words_of_atomic_dq(program, v);
    }
    return result;
  }
  AttentionResult result = plain_attention(program, v, options);
  result.ran = ran_plain(v, obstacle);
  return result;
}

}  // namespace

AttentionResult attention(const AttentionProgram& program, const at::Tensor& v,
                          const AttentionOptions& options) {
  if (options.probes != nullptr) check_probes(*options.probes);
  AttentionResult result = run_attention(program, v, options);
  if (options.kernels != nullptr) options.kernels->insert(result.ran);
  return result;
}

}  // namespace phasescope::model
