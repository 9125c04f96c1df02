#include "model/attention/cuda_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "formats/error.h"
#include "kernels/cuda/verified.h"
#include "model/attention/device_memory.h"
#include "model/attention/fused_attention.h"
#include "model/attention/kernel_variant.h"
#include "model/attention/probe_buffers.h"
#include "model/attention/relative_keys.h"
#include "model/checkpoints/tensor_io.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

std::atomic<const kernels::CudaKernels*> cuda_kernels = nullptr;

kernels::CudaAttention inputs_of(const AttentionProgram& program, const at::Tensor& v,
                                 DeviceMemory& memory) {
  kernels::CudaAttention inputs;
  fill_inputs(program, v, memory, inputs);
  inputs.stream = memory.stream();
  if (inputs.key_documents != nullptr) {
    inputs.document_workspace = memory.allocate(kernels::cuda_document_bytes(inputs.shape));
  }
  return inputs;
}

// The probes of `host` in device memory.
void add_probes(const kernels::ForwardOutputs& host, const kernels::CudaAttention& inputs,
                DeviceMemory& memory, kernels::CudaForwardOutputs& outputs) {
  const kernels::AttentionShape& shape = inputs.shape;
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  kernels::RowProbes& row = outputs.rows = host.rows;
  for (float** probe :
       {&row.entropy, &row.max_score, &row.top1_mass, &row.first_key_weight, &row.mean_distance,
        &row.sink_weight, &row.window_mass[0], &row.window_mass[1], &row.window_mass[2]}) {
    *probe = memory.mirror(*probe, rows);
  }
  row.max_key = memory.mirror(row.max_key, rows);
  row.top_key = memory.mirror(row.top_key, rows * row.top_count);
  row.top_weight = memory.mirror(row.top_weight, rows * row.top_count);
  if (host.buckets.count == 0) return;
  kernels::BucketProbes& buckets = outputs.buckets = host.buckets;
  const std::int64_t sums = shape.batch * shape.heads * buckets.count;
  buckets.edges = memory.integers({buckets.edges, buckets.edges + buckets.count + 1});
  buckets.pairs = memory.mirror(buckets.pairs, sums);
  for (double** sum : {&buckets.weight, &buckets.score, &buckets.score_square, &buckets.content,
                       &buckets.content_square, &buckets.term, &buckets.term_square}) {
    *sum = memory.mirror(*sum, sums);
  }
  outputs.workspace = memory.allocate(memory.cuda().bucket_workspace(inputs, buckets));
}

}  // namespace

// What both passes have: operands that were copied to the device, results that come back from it.
class CudaPass {
 public:
  explicit CudaPass(const at::Tensor& v)
      : guard(v.device()), memory(*cuda_kernels.load(), v.scalar_type(), v.device()) {}
  virtual ~CudaPass() = default;
  virtual void enqueue() const = 0;

  c10::DeviceGuard guard;  // kernels run on the current device
  DeviceMemory memory;
  std::size_t operand_bytes = 0;  // of `memory`
};

namespace {

class ForwardPass final : public CudaPass {
 public:
  ForwardPass(const AttentionProgram& program, const at::Tensor& v, const ProbeRequest& request,
              Backend backend, bool wants_ungated = false)
      : CudaPass(v),
        inputs_(inputs_of(program, v, memory)),
        probes_(request, inputs_.shape, v.device()),
        ran_(ran_on_cuda(program, v, backend)) {
    inputs_.hopper = cuda_form_of(program, v, backend).hopper;
    operand_bytes = memory.bytes();
    const kernels::AttentionShape& shape = inputs_.shape;
    outputs_.out =
        memory.output(result_.out, {shape.batch, shape.heads, shape.queries, shape.value_dim});
    if (const auto* tape = program.as<TapeProgram>()) {
      outputs_.out_state = memory.output(
          result_.state, {shape.batch, shape.heads, shape.queries, tape->state.size(-1)});
    }
    if (wants_ungated && program.gate.defined()) {
      outputs_.ungated = memory.output(result_.ungated,
                                       {shape.batch, shape.heads, shape.queries, shape.value_dim});
    }
    result_.lse = at::empty({shape.batch, shape.heads, shape.queries}, memory.options(at::kFloat));
    outputs_.lse = memory.mirror(result_.lse.mutable_data_ptr<float>(), result_.lse.numel());
    add_probes(probes_.outputs(), inputs_, memory, outputs_);
    inputs_.cape_bytes = std::min(inputs_.cape_bytes, room_beside(probes_.outputs().buckets));
    if (const std::size_t bytes = memory.cuda().score_workspace(inputs_); bytes > 0) {
      outputs_.score_workspace = memory.allocate(bytes);
    }
  }

  void enqueue() const override { memory.cuda().forward(inputs_, outputs_); }

  AttentionResult finish(const AttentionOptions& options) {
    memory.finish();
    auto measured = std::make_shared<const ProbeResult>(probes_.take(ran_));
    if (options.want_entropy) result_.entropy = measured->entropy;
    if (options.probes != nullptr) result_.probes = std::move(measured);
    return std::move(result_);
  }

 private:
  // What is left of 250 MB, all that a pass may hold besides inputs and outputs; 16 MiB at least,
  // below which CAPE's strips would become very many.
  std::size_t room_beside(const kernels::BucketProbes& buckets) const {
    constexpr std::size_t kAll = 250'000'000, kLeast = std::size_t{16} << 20;
    const std::size_t taken = memory.cuda().bucket_workspace(inputs_, buckets);
    return std::max(kAll - std::min(kAll, taken), kLeast);
  }

  kernels::CudaAttention inputs_;
  ProbeBuffers probes_;
  Ran ran_;
  AttentionResult result_;
  kernels::CudaForwardOutputs outputs_;
};

AttentionResult run_forward(const AttentionProgram& program, const at::Tensor& v,
                            const AttentionOptions& options) {
  const at::NoGradGuard no_grad;
  ProbeRequest request;
  if (options.probes != nullptr) request = in_one_pass(program, *options.probes);
  request.entropy = request.entropy || options.want_entropy;
  ForwardPass pass(program, v, request, options.backend, options.want_ungated);
  pass.enqueue();
  return pass.finish(options);
}

class BackwardPass final : public CudaPass {
 public:
  BackwardPass(const AttentionProgram& program, const at::Tensor& v, const SavedResult& forward,
               const at::Tensor& d_out, const at::Tensor& d_state, const AttentionOptions& options)
      : CudaPass(v), inputs_(inputs_of(program, v, memory)), result_{program, v} {
    // In the form that the forward pass has taken, where there is one. Both say how large the
    // workspace is.
    inputs_.hopper = cuda_form_of(program, v, options.backend).hopper;
    inputs_.atomic_dq = options.atomic_dq;
    saved_.out = memory.tokens(forward.out);
    saved_.lse = memory.floats(forward.lse);
    saved_.d_out = memory.tokens(d_out.defined() ? d_out : at::zeros_like(forward.out));
    kernels::InputTensor d_out_state;
    if (d_state.defined()) {
      saved_.out_state = memory.tokens(forward.state);
      d_out_state = memory.tokens(d_state);
    }
    operand_bytes = memory.bytes();
    const DeviceGradientMemory buffers{memory};
    add_gradients(result_.program, result_.v, d_out_state, buffers, gradients_);
    gradients_.workspace = memory.allocate(memory.cuda().backward_workspace(inputs_));
    if (gradients_.scores.by_distance != nullptr) {
      gradients_.distance_workspace = memory.allocate(kernels::cuda_distance_bytes(inputs_.shape));
    }
  }

  void enqueue() const override { memory.cuda().backward(inputs_, saved_, gradients_); }

  ProgramGradients finish() {
    memory.finish();
    return std::move(result_);
  }

 private:
  kernels::CudaAttention inputs_;
  kernels::SavedForward saved_;
  ProgramGradients result_;
  kernels::CudaGradients gradients_;
};

ProgramGradients run_backward(const AttentionProgram& program, const at::Tensor& v,
                              const SavedResult& forward, const at::Tensor& d_out,
                              const at::Tensor& d_state, const AttentionOptions& options) {
  const at::NoGradGuard no_grad;
  BackwardPass pass(program, v, forward, d_out, d_state, options);
  pass.enqueue();
  return pass.finish();
}

}  // namespace

void cuda_score_sums(const AttentionProgram& given, const at::Tensor& v,
                     const kernels::ScoreSums& sums) {
  const at::NoGradGuard no_grad;
  const AttentionProgram program = in_device_form(given);
  const c10::DeviceGuard guard(v.device());
  DeviceMemory memory(*cuda_kernels.load(), v.scalar_type(), v.device());
  const kernels::CudaAttention inputs = inputs_of(program, v, memory);
  const kernels::AttentionShape& shape = inputs.shape;
  const std::int64_t heads = shape.batch * shape.heads, rows = heads * shape.queries;
  kernels::CudaScoreSums there{sums};
  there.shift = memory.given(sums.shift, rows);
  there.row = memory.mirror(sums.row, rows);
  there.pairs = memory.mirror(sums.pairs, rows);
  there.column = memory.mirror(sums.column, heads * shape.keys);
  there.distance = memory.mirror(sums.distance, heads * sums.length);
  there.square = memory.mirror(sums.square, heads);
  there.workspace = memory.allocate(memory.cuda().sums_workspace(inputs, sums));
  there.score_workspace = memory.allocate(memory.cuda().score_workspace(inputs));
  memory.cuda().score_sums(inputs, there);
  memory.finish();
}

at::Tensor cuda_region(const AttentionProgram& given, const at::Tensor& v, kernels::Region region,
                       const at::Tensor& lse) {
  const at::NoGradGuard no_grad;
  const AttentionProgram program = in_device_form(given);
  const c10::DeviceGuard guard(v.device());
  DeviceMemory memory(*cuda_kernels.load(), v.scalar_type(), v.device());
  const kernels::CudaAttention inputs = inputs_of(program, v, memory);
  const at::Tensor result =
      at::empty({inputs.shape.batch, region.head_count, region.row_end - region.row_begin,
                 region.col_end - region.col_begin},
                memory.options(at::kFloat));
  kernels::CudaRegion there;
  const bool of_weights = lse.defined();
  at::Tensor known = of_weights ? lse.contiguous() : at::Tensor();
  if (of_weights) there.lse = memory.floats(known);
  there.score_workspace = memory.allocate(memory.cuda().score_workspace(inputs));
  for (region.batch = 0; region.batch < inputs.shape.batch; ++region.batch) {
    const at::Tensor one = result[region.batch];
    float* to = memory.mirror(static_cast<float*>(one.mutable_data_ptr()), one.numel());
    (of_weights ? there.weights : there.scores) = to;
    there.region = region;
    memory.cuda().region(inputs, there);
  }
  memory.finish();
  return result;
}

void use_cuda_kernels(const kernels::CudaKernels* kernels) { cuda_kernels = kernels; }

void require_cuda_kernels() {
  std::string reason = "this build has no CUDA kernels";
  const kernels::CudaKernels* kernels = cuda_kernels;
  if (kernels != nullptr && kernels->available(reason)) return;
  throw formats::Error("device_unavailable", reason, "backend", "use fused or plain");
}

namespace {

// In place of memory, where a problem's sizes and its score are asked for: what there is has an
// address, where nothing is.
struct NoMemory {
  static const float* floats(const at::Tensor&) { return &nothing<float>; }
  static const double* doubles(const at::Tensor&) { return &nothing<double>; }
  static kernels::InputTensor tokens(const at::Tensor&) { return {.data = &nothing<float>}; }
  static const std::int64_t* integers(const std::vector<std::int64_t>&) {
    return &nothing<std::int64_t>;
  }

  template <typename T>
  static constexpr T nothing = 0;
};

// A program's score and sizes.
kernels::CudaAttention form_of(const AttentionProgram& program, const at::Tensor& v) {
  NoMemory memory;
  kernels::CudaAttention inputs;
  inputs.shape = shape_of(program, v);
  inputs.variant = std::visit(VariantOf<NoMemory>{program, memory}, program.variant);
  if (const auto* relative = std::get_if<kernels::RelativeKeysVariant>(&inputs.variant)) {
    // in_device_form() without its products, whose address is not looked at.
    inputs.variant = kernels::QueryTableVariant{relative->keys, relative->length};
  }
  inputs.tokens = token_terms_of(program, memory);
  return inputs;
}

}  // namespace

std::string cuda_kernel_of(const AttentionProgram& program, const at::Tensor& v) {
  const kernels::CudaAttention form = form_of(program, v);
  const bool wide = kernels::cuda_padded_heads(form.shape).wide();
  return std::string(kernels::cuda_score_name(form)) + (wide ? "_wide" : "");
}

bool is_verified_on_cuda(const AttentionProgram& program, const at::Tensor& v) {
  const kernels::CudaKernels* kernels = cuda_kernels;
  const std::vector<kernels::VerifiedKernel>& list = kernels::verified_kernels();
  return kernels != nullptr && !list.empty() &&
         kernels::is_verified(list, cuda_kernel_of(program, v), kernels->capability());
}

CudaForm cuda_form_of(const AttentionProgram& program, const at::Tensor& v, Backend backend,
                      const std::vector<kernels::VerifiedKernel>& list, int capability) {
  const std::string kernel = cuda_kernel_of(program, v), in_hopper_form = "hopper_" + kernel;
  const bool passed = kernels::is_verified(list, kernel, capability);
  const bool hopper_passed = passed && kernels::is_verified(list, in_hopper_form, capability);
  const bool has_form = capability == 90 && kernels::cuda_has_hopper_form(form_of(program, v));
  if (hopper_passed) return {true, true};
  const bool by_name = backend == Backend::cuda_unverified || !passed;
  return {by_name && has_form, passed && !(by_name && has_form)};
}

CudaForm cuda_form_of(const AttentionProgram& program, const at::Tensor& v, Backend backend) {
  const kernels::CudaKernels* kernels = cuda_kernels;
  if (kernels == nullptr) return {};
  return cuda_form_of(program, v, backend, kernels::verified_kernels(), kernels->capability());
}

bool wants_gradients(const AttentionProgram& program, const at::Tensor& v) {
  if (!at::GradMode::is_enabled()) return false;
  bool wanted = v.requires_grad();
  for_each_operand(program, [&](const at::Tensor& x) { wanted = wanted || x.requires_grad(); });
  return wanted;
}

namespace {

std::string words_of_heads(std::int64_t width, std::int64_t values) {
  const std::string other = values == width ? "" : " with values of " + std::to_string(values);
  return "heads of " + std::to_string(width) + " channels" + other;
}

// Whether these are among what takes blocks of more shared memory (CudaHeads::shared_bytes).
bool lie_beside_scores(const AttentionProgram& program, const ProbeRequest* probes) {
  if (probes == nullptr) return false;
  const ProbeRequest request = in_one_pass(program, *probes);
  return request.content || request.term || request.top_keys > kernels::CudaHeads::kFewTopKeys;
}

}  // namespace

std::string cuda_obstacle(const AttentionProgram& program, const at::Tensor& v, bool gradients,
                          const ProbeRequest* probes) {
  const at::ScalarType dtype = v.scalar_type();
  if (dtype != at::kBFloat16 && dtype != at::kHalf) {
    return name_of_dtype(dtype) +
           " has no form in the CUDA kernels: with the dtype bf16 or f16 they run";
  }
  if (!in_host_memory(v.device()) && !v.is_cuda()) {
    return "the CUDA kernels read tensors of a CUDA device";
  }
  for (std::string obstacle : {kernel_obstacle(program, v), device_form_obstacle(program)}) {
    if (!obstacle.empty()) return obstacle;
  }
  const std::int64_t heads = program.q.size(1);
  if (const auto* cape = program.as<CapeProgram>()) {
    const std::int64_t units = cape->w1.size(0);
    const bool fits = heads <= kernels::kCudaCapeHeads && units <= kernels::kCudaHiddenUnits;
    if (!fits ||
        (gradients && kernels::cuda_cape_bytes(heads, units) > kernels::kCudaSharedBytes)) {
      return (fits ? "the gradient of a correction of " : "a correction of ") +
             std::to_string(heads) + " heads by " + std::to_string(units) +
             " hidden units has no form in the CUDA kernels";
    }
  }
  const FireProgram* fire = program.fire();
  if (fire != nullptr && fire->slope.size(1) > kernels::kCudaSegments) {
    return "a network of more than 63 knots has no form in the CUDA kernels";
  }
  const kernels::CudaHeads padded = kernels::cuda_padded_heads(program.q.size(-1), v.size(-1));
  if (!padded.exist() || (padded.wide() && !kernels::cuda_has_wide_form(form_of(program, v))) ||
      (program.is<CapeProgram>() && v.size(-1) != program.q.size(-1))) {
    return words_of_heads(program.q.size(-1), v.size(-1)) + " have no form in the CUDA kernels";
  }
  const std::int64_t bytes = padded.shared_bytes(gradients || lie_beside_scores(program, probes));
  if (padded.wide() && bytes > cuda_kernels.load()->shared_bytes()) {
    return (gradients ? "gradients" : "content sums and more than 32 top keys") +
           (" of " + words_of_heads(program.q.size(-1), v.size(-1))) + " need blocks with " +
           std::to_string(bytes / 1024) + " KiB of shared memory";
  }
  if (const auto* tape = program.as<TapeProgram>()) {
    const std::int64_t state = tape->state.size(-1);
    if (state % 8 != 0 || state > padded.channels) {
      return "a position state of " + std::to_string(state) +
             " numbers a head has no form in the CUDA kernels";
    }
  }
  return {};
}

AttentionResult cuda_attention(const AttentionProgram& program, const at::Tensor& v,
                               const AttentionOptions& options) {
  return run_passes({&run_forward, &run_backward}, in_device_form(program), v, options);
}

std::string words_of_atomic_dq(const AttentionProgram& program, const at::Tensor& v) {
  const c10::DeviceGuard guard(v.device());
  kernels::CudaAttention form = form_of(program, v);
  form.atomic_dq = true;
  return cuda_kernels.load()->adds_atomically(form) ? " with atomic dq" : "";
}

CudaCall::CudaCall(std::unique_ptr<CudaPass> pass) : pass_(std::move(pass)) {}
CudaCall::CudaCall(CudaCall&&) noexcept = default;
CudaCall::~CudaCall() = default;

CudaCall::CudaCall(const AttentionProgram& program, const at::Tensor& v,
                   const ProbeRequest* probes) {
  const at::NoGradGuard no_grad;
  pass_ = std::make_unique<ForwardPass>(in_device_form(program), v,
                                        probes != nullptr ? *probes : ProbeRequest{},
                                        Backend::cuda_unverified);
}

CudaCall CudaCall::backward(const AttentionProgram& given, const at::Tensor& v, bool atomic_dq) {
  const at::NoGradGuard no_grad;
  const AttentionProgram program = in_device_form(given);
  const AttentionOptions options{
      .backend = Backend::cuda_unverified, .atomic_dq = atomic_dq, .want_ungated = true};
  const AttentionResult forward = run_forward(program, v, options);
  const at::Tensor d_state = forward.state.defined() ? at::ones_like(forward.state) : at::Tensor();
  return CudaCall(std::make_unique<BackwardPass>(
      program, v,
      SavedResult{forward.ungated.defined() ? forward.ungated : forward.out, forward.lse,
                  forward.state},
      at::ones_like(forward.out), d_state, options));
}

void CudaCall::enqueue() const { pass_->enqueue(); }
void CudaCall::wait() const { pass_->memory.cuda().wait(); }
std::size_t CudaCall::bytes() const { return pass_->memory.bytes() - pass_->operand_bytes; }

std::string cuda_device_name() { return cuda_kernels.load()->device_name(); }

}  // namespace phasescope::model
