#include "model/attention/cuda_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "formats/error.h"
#include "model/attention/fused_attention.h"
#include "model/attention/probe_buffers.h"

namespace phasescope::model {
namespace {

using Kind = AttentionProgram::Kind;

std::atomic<const kernels::CudaKernels*> cuda_kernels = nullptr;

// Device memory of one call. What is to come back is written into the host's memory by finish().
class DeviceMemory {
 public:
  DeviceMemory() : cuda_(*cuda_kernels.load()) {}
  ~DeviceMemory() {
    for (void* data : allocated_) cuda_.release(data);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  const kernels::CudaKernels& cuda() const { return cuda_; }

  void* allocate(std::size_t bytes) {
    allocated_.push_back(nullptr);  // room first: what was allocated must not be lost
    allocated_.back() = cuda_.allocate(bytes);
    bytes_ += bytes;
    return allocated_.back();
  }
  // Of all that was allocated.
  std::size_t bytes() const { return bytes_; }

  template <typename T>
  const T* copy(const T* host, std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    void* data = allocate(bytes);
    cuda_.upload(data, host, bytes);
    return static_cast<const T*>(data);
  }

  // A copy of the host's array that comes back into it; null for null.
  template <typename T>
  T* mirror(T* host, std::int64_t count) {
    if (host == nullptr) return nullptr;
    T* data = const_cast<T*>(copy<T>(host, count));
    returning_.push_back({host, data, static_cast<std::size_t>(count) * sizeof(T)});
    return data;
  }

  const float* floats(const at::Tensor& tensor) {
    const at::Tensor values = tensor.to(at::kFloat).contiguous();
    return copy(values.const_data_ptr<float>(), values.numel());
  }

  // A (B, H, N, d) tensor of a 16-bit type.
  kernels::CudaTensor input(const at::Tensor& tensor, at::ScalarType type) {
    const at::Tensor values = tensor.to(type).contiguous();
    const auto* bits = static_cast<const std::uint16_t*>(values.const_data_ptr());
    return {const_cast<std::uint16_t*>(copy(bits, values.numel())), values.stride(0),
            values.stride(1), values.stride(2)};
  }

  // One to write to, made beside it on the host as (B, N, H, d), so that joining the heads is free.
  kernels::CudaTensor output(at::Tensor& host, at::IntArrayRef sizes, at::ScalarType type) {
    host = at::empty({sizes[0], sizes[2], sizes[1], sizes[3]}, type).transpose(1, 2);
    const std::size_t bytes = static_cast<std::size_t>(host.numel()) * sizeof(std::uint16_t);
    void* data = allocate(bytes);
    returning_.push_back({host.mutable_data_ptr(), data, bytes});
    return {data, host.stride(0), host.stride(1), host.stride(2)};
  }

  // Waits for the kernels and brings back what they made.
  void finish() {
    for (const Returning& one : returning_) cuda_.download(one.host, one.device, one.bytes);
  }

 private:
  struct Returning {
    void* host;
    const void* device;
    std::size_t bytes;
  };

  const kernels::CudaKernels& cuda_;
  std::vector<void*> allocated_;
  std::vector<Returning> returning_;
  std::size_t bytes_ = 0;
};

kernels::FireVariant fire_variant(const FireProgram& fire, DeviceMemory& memory) {
  return {.distance = memory.floats(fire.distance),
          .length = fire.distance.size(0),
          .factor = memory.floats(fire.factor),
          .knots = memory.floats(fire.knots),
          .segments = fire.slope.size(1),
          .slope = memory.floats(fire.slope),
          .intercept = memory.floats(fire.intercept),
          .head_stride = fire.slope.size(1)};
}

kernels::CudaVariant variant_of(const AttentionProgram& program, at::ScalarType type,
                                DeviceMemory& memory) {
  if (program.kind == Kind::table) {
    const at::Tensor& values = program.table.values;
    return kernels::TableVariant{.values = memory.floats(values),
                                 .head_stride = values.size(1),
                                 .length = values.size(1),
                                 .first_distance = program.table.first_distance,
                                 .multiplies = program.table.multiplies};
  }
  if (program.kind == Kind::tapa) {
    kernels::TapaVariant tapa = tapa_variant(program.tapa);
    tapa.power = memory.floats(program.tapa.power);
    return tapa;
  }
  if (program.kind == Kind::tape) {
    const at::Tensor state =
        program.tape.state.expand({program.q.size(0), program.k.size(1), -1, -1});
    return kernels::CudaTapeVariant{memory.input(state, type), state.size(-1)};
  }
  if (program.kind == Kind::fire) return fire_variant(program.fire, memory);
  if (program.kind == Kind::cape) {
    const CapeProgram& cape = program.cape;
    kernels::CapeVariant variant;
    variant.form = cape_form(cape.form);
    if (cape.values.defined()) {
      variant.values = memory.floats(cape.values);
      variant.head_stride = variant.length = cape.values.size(1);
    }
    if (program.fire.slope.defined()) variant.fire = fire_variant(program.fire, memory);
    variant.hidden = cape.w1.size(0);
    variant.w1 = memory.floats(cape.w1);
    variant.b1 = memory.floats(cape.b1);
    variant.w2 = memory.floats(cape.w2);
    variant.b2 = memory.floats(cape.b2);
    return variant;
  }
  return kernels::PlainVariant{};
}

kernels::CudaAttention inputs_of(const AttentionProgram& program, const at::Tensor& v,
                                 DeviceMemory& memory) {
  const at::ScalarType type = v.scalar_type();
  kernels::CudaAttention inputs;
  inputs.shape = shape_of(program, v);
  inputs.type = type == at::kHalf ? kernels::CudaType::float16 : kernels::CudaType::bfloat16;
  inputs.q = memory.input(program.q, type);
  inputs.k = memory.input(program.k, type);
  inputs.v = memory.input(v, type);
  inputs.scale = static_cast<float>(program.scale);
  inputs.soft_cap = static_cast<float>(program.soft_cap);
  inputs.variant = variant_of(program, type, memory);
  if (program.key_mask.defined()) {
    const at::Tensor mask =
        program.key_mask.expand({inputs.shape.batch, inputs.shape.keys}).contiguous();
    inputs.key_mask = memory.copy(
        reinterpret_cast<const std::uint8_t*>(mask.const_data_ptr<bool>()), mask.numel());
  }
  if (program.documents.defined()) {
    const at::Tensor documents = numbered_documents(program);
    inputs.query_documents = inputs.key_documents =
        memory.copy(documents.const_data_ptr<std::int32_t>(), documents.numel());
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
        &row.window_mass[0], &row.window_mass[1], &row.window_mass[2]}) {
    *probe = memory.mirror(*probe, rows);
  }
  row.max_key = memory.mirror(row.max_key, rows);
  row.top_key = memory.mirror(row.top_key, rows * row.top_count);
  row.top_weight = memory.mirror(row.top_weight, rows * row.top_count);
  if (host.buckets.count == 0) return;
  kernels::BucketProbes& buckets = outputs.buckets = host.buckets;
  const std::int64_t sums = shape.batch * shape.heads * buckets.count;
  buckets.edges = memory.copy(buckets.edges, buckets.count + 1);
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
  virtual ~CudaPass() = default;
  virtual void enqueue() const = 0;

  DeviceMemory memory;
  std::size_t operand_bytes = 0;  // of `memory`
};

namespace {

class ForwardPass final : public CudaPass {
 public:
  ForwardPass(const AttentionProgram& program, const at::Tensor& v, const ProbeRequest& request)
      : inputs_(inputs_of(program, v, memory)),
        probes_(request, inputs_.shape),
        ran_(ran_on_cuda(v)) {
    operand_bytes = memory.bytes();
    const kernels::AttentionShape& shape = inputs_.shape;
    outputs_.out = memory.output(
        result_.out, {shape.batch, shape.heads, shape.queries, shape.value_dim}, v.scalar_type());
    if (program.kind == Kind::tape) {
      outputs_.out_state = memory.output(
          result_.state, {shape.batch, shape.heads, shape.queries, program.tape.state.size(-1)},
          v.scalar_type());
    }
    result_.lse = at::empty({shape.batch, shape.heads, shape.queries}, at::kFloat);
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
  ForwardPass pass(program, v, request);
  pass.enqueue();
  return pass.finish(options);
}

class BackwardPass final : public CudaPass {
 public:
  BackwardPass(const AttentionProgram& program, const at::Tensor& v, const SavedResult& forward,
               const at::Tensor& d_out, const at::Tensor& d_state)
      : inputs_(inputs_of(program, v, memory)) {
    const at::ScalarType type = v.scalar_type();
    saved_.out = memory.input(forward.out, type);
    saved_.lse = memory.floats(forward.lse);
    saved_.d_out = memory.input(d_out.defined() ? d_out : at::zeros_like(forward.out), type);
    if (d_state.defined()) {
      saved_.out_state = memory.input(forward.state, type);
      saved_.d_out_state = memory.input(d_state, type);
    }
    operand_bytes = memory.bytes();
    gradients_.dq = memory.output(result_.dq, program.q.sizes(), type);
    gradients_.dk = memory.output(result_.dk, program.k.sizes(), type);
    gradients_.dv = memory.output(result_.dv, v.sizes(), type);
    add_variant(program, type);
    gradients_.workspace = memory.allocate(memory.cuda().backward_workspace(inputs_));
  }

  void enqueue() const override { memory.cuda().backward(inputs_, saved_, gradients_); }

  GradientBuffers finish() {
    memory.finish();
    return std::move(result_);
  }

 private:
  // Of an array of a variant; null where it has none.
  float* gradient(at::Tensor& buffer, const at::Tensor& array) {
    if (!array.defined()) return nullptr;
    buffer = at::empty(array.sizes(), at::kFloat);
    return memory.mirror(buffer.mutable_data_ptr<float>(), buffer.numel());
  }

  kernels::FireGradients fire_gradients(const FireProgram& fire) {
    return {.distance = gradient(result_.distance, fire.distance),
            .factor = gradient(result_.factor, fire.factor),
            .slope = gradient(result_.slope, fire.slope),
            .intercept = gradient(result_.intercept, fire.intercept),
            .head_stride = fire.slope.size(1)};
  }

  void add_variant(const AttentionProgram& program, at::ScalarType type) {
    if (program.kind == Kind::tape) {
      const at::Tensor& state = program.tape.state;
      gradients_.d_state =
          memory.output(result_.state,
                        {program.q.size(0), program.k.size(1), state.size(2), state.size(3)}, type);
    }
    if (program.kind == Kind::table) {
      gradients_.d_table = gradient(result_.values, program.table.values);
      gradients_.d_table_stride = program.table.values.size(1);
    }
    if (program.kind == Kind::fire) gradients_.fire = fire_gradients(program.fire);
    if (program.kind == Kind::cape) {
      const CapeProgram& cape = program.cape;
      gradients_.cape = {.values = gradient(result_.values, cape.values),
                         .head_stride = cape.values.defined() ? cape.values.size(1) : 0,
                         .w1 = gradient(result_.w1, cape.w1),
                         .b1 = gradient(result_.b1, cape.b1),
                         .w2 = gradient(result_.w2, cape.w2),
                         .b2 = gradient(result_.b2, cape.b2)};
      if (program.fire.slope.defined()) gradients_.cape.fire = fire_gradients(program.fire);
    }
  }

  kernels::CudaAttention inputs_;
  kernels::CudaSavedForward saved_;
  GradientBuffers result_;
  kernels::CudaGradients gradients_;
};

GradientBuffers run_backward(const AttentionProgram& program, const at::Tensor& v,
                             const SavedResult& forward, const at::Tensor& d_out,
                             const at::Tensor& d_state) {
  const at::NoGradGuard no_grad;
  BackwardPass pass(program, v, forward, d_out, d_state);
  pass.enqueue();
  return pass.finish();
}

}  // namespace

void use_cuda_kernels(const kernels::CudaKernels* kernels) { cuda_kernels = kernels; }

void require_cuda_kernels() {
  std::string reason = "this build has no CUDA kernels";
  const kernels::CudaKernels* kernels = cuda_kernels;
  if (kernels != nullptr && kernels->available(reason)) return;
  throw formats::Error("device_unavailable", reason, "backend", "use fused or plain");
}

bool wants_gradients(const AttentionProgram& program, const at::Tensor& v) {
  if (!at::GradMode::is_enabled()) return false;
  const CapeProgram& cape = program.cape;
  const FireProgram& fire = program.fire;
  for (const at::Tensor* tensor :
       {&program.q, &program.k, &v, &program.table.values, &program.tape.state, &cape.values,
        &cape.w1, &cape.b1, &cape.w2, &cape.b2, &fire.distance, &fire.factor, &fire.slope,
        &fire.intercept}) {
    if (tensor->defined() && tensor->requires_grad()) return true;
  }
  return false;
}

std::string cuda_obstacle(const AttentionProgram& program, const at::Tensor& v, bool gradients) {
  constexpr std::int64_t kLongestHead = 128;
  const at::ScalarType dtype = v.scalar_type();
  if (dtype != at::kBFloat16 && dtype != at::kHalf) {
    return std::string(at::toString(dtype)) + " has no form in the CUDA kernels";
  }
  if (std::string obstacle = fused_obstacle(program, v); !obstacle.empty()) return obstacle;
  const std::int64_t heads = program.q.size(1);
  if (program.kind == Kind::cape) {
    const std::int64_t units = program.cape.w1.size(0);
    const bool fits = heads <= kernels::kCudaCapeHeads && units <= kernels::kCudaHiddenUnits;
    if (!fits ||
        (gradients && kernels::cuda_cape_bytes(heads, units) > kernels::kCudaSharedBytes)) {
      return (fits ? "the gradient of a correction of " : "a correction of ") +
             std::to_string(heads) + " heads by " + std::to_string(units) +
             " hidden units has no form in the CUDA kernels";
    }
  }
  if (program.fire.slope.defined() && program.fire.slope.size(1) > kernels::kCudaSegments) {
    return "a network of more than 63 knots has no form in the CUDA kernels";
  }
  const std::int64_t width = program.q.size(-1);
  if (width % 8 != 0 || width > kLongestHead || v.size(-1) != width) {
    return "heads of " + std::to_string(width) + " channels have no form in the CUDA kernels";
  }
  if (program.kind == Kind::tape) {
    const std::int64_t state = program.tape.state.size(-1);
    if (state % 8 != 0 || state > (width <= 64 ? 64 : kLongestHead)) {
      return "a position state of " + std::to_string(state) +
             " numbers a head has no form in the CUDA kernels";
    }
  }
  return {};
}

AttentionResult cuda_attention(const AttentionProgram& program, const at::Tensor& v,
                               const AttentionOptions& options) {
  return run_passes({&run_forward, &run_backward}, program, v, options);
}

CudaCall::CudaCall(std::unique_ptr<CudaPass> pass) : pass_(std::move(pass)) {}
CudaCall::CudaCall(CudaCall&&) noexcept = default;
CudaCall::~CudaCall() = default;

CudaCall::CudaCall(const AttentionProgram& program, const at::Tensor& v,
                   const ProbeRequest* probes) {
  const at::NoGradGuard no_grad;
  pass_ = std::make_unique<ForwardPass>(program, v, probes != nullptr ? *probes : ProbeRequest{});
}

CudaCall CudaCall::backward(const AttentionProgram& program, const at::Tensor& v) {
  const at::NoGradGuard no_grad;
  const AttentionResult forward = run_forward(program, v, {});
  const at::Tensor d_state = forward.state.defined() ? at::ones_like(forward.state) : at::Tensor();
  return CudaCall(std::make_unique<BackwardPass>(
      program, v, SavedResult{forward.out, forward.lse, forward.state}, at::ones_like(forward.out),
      d_state));
}

void CudaCall::enqueue() const { pass_->enqueue(); }
void CudaCall::wait() const { pass_->memory.cuda().wait(); }
std::size_t CudaCall::bytes() const { return pass_->memory.bytes() - pass_->operand_bytes; }

std::string cuda_device_name() { return cuda_kernels.load()->device_name(); }

}  // namespace phasescope::model
