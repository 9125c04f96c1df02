#include "model/cuda_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "formats/error.h"
#include "model/fused_attention.h"
#include "model/probe_buffers.h"

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
    return allocated_.back();
  }

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
};

kernels::CudaVariant variant_of(const AttentionProgram& program, at::ScalarType type,
                                DeviceMemory& memory) {
  if (program.kind == Kind::table) {
    const at::Tensor& values = program.table.values;
    return kernels::TableVariant{.values = memory.floats(values),
                                 .head_stride = values.size(1),
                                 .length = values.size(1),
                                 .first_distance = program.table.first_distance};
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
  if (program.kind == Kind::fire) {
    const FireProgram& fire = program.fire;
    return kernels::FireVariant{.distance = memory.floats(fire.distance),
                                .length = fire.distance.size(0),
                                .factor = memory.floats(fire.factor),
                                .knots = memory.floats(fire.knots),
                                .segments = fire.slope.size(1),
                                .slope = memory.floats(fire.slope),
                                .intercept = memory.floats(fire.intercept),
                                .head_stride = fire.slope.size(1)};
  }
  if (program.kind == Kind::cape) {
    const CapeProgram& cape = program.cape;
    kernels::CapeVariant variant;
    variant.form = cape_form(cape.form);
    if (cape.values.defined()) {
      variant.values = memory.floats(cape.values);
      variant.head_stride = variant.length = cape.values.size(1);
    }
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
  inputs.type =
      type == at::kHalf ? kernels::CudaType::float16 : kernels::CudaType::bfloat16;
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
  return inputs;
}

// The probes of `host` in device memory.
void add_probes(const kernels::ForwardOutputs& host, const kernels::CudaAttention& inputs,
                DeviceMemory& memory, kernels::CudaForwardOutputs& outputs) {
  const kernels::AttentionShape& shape = inputs.shape;
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  kernels::RowProbes& row = outputs.rows = host.rows;
  for (float** probe : {&row.entropy, &row.max_score, &row.top1_mass, &row.first_key_weight,
                        &row.mean_distance, &row.window_mass[0], &row.window_mass[1],
                        &row.window_mass[2]}) {
    *probe = memory.mirror(*probe, rows);
  }
  row.max_key = memory.mirror(row.max_key, rows);
  if (host.buckets.count == 0) return;
  kernels::BucketProbes& buckets = outputs.buckets = host.buckets;
  const std::int64_t sums = shape.batch * shape.heads * buckets.count;
  buckets.edges = memory.copy(buckets.edges, buckets.count + 1);
  buckets.pairs = memory.mirror(buckets.pairs, sums);
  for (double** sum : {&buckets.weight, &buckets.score, &buckets.score_square}) {
    *sum = memory.mirror(*sum, sums);
  }
  outputs.workspace = memory.allocate(memory.cuda().bucket_workspace(inputs));
}

AttentionResult run_forward(const AttentionProgram& program, const at::Tensor& v,
                            const AttentionOptions& options) {
  const at::NoGradGuard no_grad;
  DeviceMemory memory;
  const kernels::CudaAttention inputs = inputs_of(program, v, memory);
  const kernels::AttentionShape& shape = inputs.shape;
  ProbeRequest request;
  if (options.probes != nullptr) request = *options.probes;
  request.entropy = request.entropy || options.want_entropy;
  ProbeBuffers probes(request, shape);
  AttentionResult result;
  kernels::CudaForwardOutputs outputs;
  outputs.out = memory.output(
      result.out, {shape.batch, shape.heads, shape.queries, shape.value_dim}, v.scalar_type());
  if (program.kind == Kind::tape) {
    outputs.out_state = memory.output(
        result.state,
        {shape.batch, shape.heads, shape.queries, program.tape.state.size(-1)}, v.scalar_type());
  }
  result.lse = at::empty({shape.batch, shape.heads, shape.queries}, at::kFloat);
  outputs.lse = memory.mirror(result.lse.mutable_data_ptr<float>(), result.lse.numel());
  add_probes(probes.outputs(), inputs, memory, outputs);
  if (const std::size_t bytes = memory.cuda().score_workspace(inputs); bytes > 0) {
    outputs.score_workspace = memory.allocate(bytes);
  }
  memory.cuda().forward(inputs, outputs);
  memory.finish();
  auto measured = std::make_shared<const ProbeResult>(probes.take(kernels::kCudaBackend));
  if (options.want_entropy) result.entropy = measured->entropy;
  if (options.probes != nullptr) result.probes = std::move(measured);
  return result;
}

GradientBuffers run_backward(const AttentionProgram& program, const at::Tensor& v,
                             const SavedResult& forward, const at::Tensor& d_out,
                             const at::Tensor& d_state) {
  const at::NoGradGuard no_grad;
  DeviceMemory memory;
  const at::ScalarType type = v.scalar_type();
  const kernels::CudaAttention inputs = inputs_of(program, v, memory);
  kernels::CudaSavedForward saved;
  saved.out = memory.input(forward.out, type);
  saved.lse = memory.floats(forward.lse);
  saved.d_out = memory.input(d_out.defined() ? d_out : at::zeros_like(forward.out), type);
  if (d_state.defined()) {
    saved.out_state = memory.input(forward.state, type);
    saved.d_out_state = memory.input(d_state, type);
  }
  GradientBuffers result;
  kernels::CudaGradients gradients;
  gradients.dq = memory.output(result.dq, program.q.sizes(), type);
  gradients.dk = memory.output(result.dk, program.k.sizes(), type);
  gradients.dv = memory.output(result.dv, v.sizes(), type);
  if (program.kind == Kind::tape) {
    const at::Tensor& state = program.tape.state;
    gradients.d_state = memory.output(
        result.state, {program.q.size(0), program.k.size(1), state.size(2), state.size(3)}, type);
  }
  // Of an array of a variant; null where it has none.
  const auto gradient = [&memory](at::Tensor& buffer, const at::Tensor& array) -> float* {
    if (!array.defined()) return nullptr;
    buffer = at::empty(array.sizes(), at::kFloat);
    return memory.mirror(buffer.mutable_data_ptr<float>(), buffer.numel());
  };
  if (program.kind == Kind::table) {
    gradients.d_table = gradient(result.values, program.table.values);
    gradients.d_table_stride = program.table.values.size(1);
  }
  if (program.kind == Kind::fire) {
    const FireProgram& fire = program.fire;
    gradients.fire = {.distance = gradient(result.distance, fire.distance),
                      .factor = gradient(result.factor, fire.factor),
                      .slope = gradient(result.slope, fire.slope),
                      .intercept = gradient(result.intercept, fire.intercept),
                      .head_stride = fire.slope.size(1)};
  }
  if (program.kind == Kind::cape) {
    const CapeProgram& cape = program.cape;
    gradients.cape = {.values = gradient(result.values, cape.values),
                      .head_stride = cape.values.defined() ? cape.values.size(1) : 0,
                      .w1 = gradient(result.w1, cape.w1),
                      .b1 = gradient(result.b1, cape.b1),
                      .w2 = gradient(result.w2, cape.w2),
                      .b2 = gradient(result.b2, cape.b2)};
  }
  gradients.workspace = memory.allocate(memory.cuda().backward_workspace(inputs));
  memory.cuda().backward(inputs, saved, gradients);
  memory.finish();
  return result;
}

}  // namespace

void use_cuda_kernels(const kernels::CudaKernels* kernels) { cuda_kernels = kernels; }

void require_cuda_kernels() {
  std::string reason = "This build has no CUDA kernels";
  const kernels::CudaKernels* kernels = cuda_kernels;
  if (kernels != nullptr && kernels->available(reason)) return;
  throw formats::Error("device_unavailable", reason, "backend", "Use fused or plain");
}

std::string cuda_obstacle(const AttentionProgram& program, const at::Tensor& v) {
  constexpr std::int64_t kLongestHead = 128;
  const at::ScalarType dtype = v.scalar_type();
  if (dtype != at::kBFloat16 && dtype != at::kHalf) {
    return std::string(at::toString(dtype)) + " has no form in the CUDA kernels";
  }
  if (std::string obstacle = fused_obstacle(program, v); !obstacle.empty()) return obstacle;
  const std::int64_t heads = program.q.size(1);
  if (program.kind == Kind::cape) {
    const std::int64_t units = program.cape.w1.size(0);
    if (units > kernels::kCudaHiddenUnits ||
        kernels::cuda_cape_bytes(heads, units) > kernels::kCudaSharedBytes) {
      return "a correction of " + std::to_string(heads) + " heads by " + std::to_string(units) +
             " hidden units has no form in the CUDA kernels";
    }
  }
  if (program.kind == Kind::fire && program.fire.slope.size(1) > kernels::kCudaSegments) {
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

}  // namespace phasescope::model
