#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <variant>

#include "kernels/check.h"
#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels {
namespace {

constexpr Limits kCudaLimits{.name = "[cuda attention] ",
                             .channels = 256,
                             .channel_step = 8,
                             .positions = std::int64_t{1} << 29,  // 32-bit numbers
                             .segments = kCudaSegments,
                             .cape_units = kCudaHiddenUnits,
                             .cape_heads = kCudaCapeHeads,
                             .cape_pieces = std::numeric_limits<std::int64_t>::max(),
                             .reads_arrays = false};

// cp.async, ldmatrix and products of bfloat16 numbers came with it.
constexpr int kLeastCapability = 80;
// wgmma is an instruction of this one alone.
constexpr int kHopperCapability = 90;

void require(bool holds, const char* sentence) {
  if (!holds) throw std::invalid_argument(std::string(kCudaLimits.name) + sentence);
}

bool is_aligned(const void* data) {
  return data && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

template <typename Void>
void check_tensor(const Tensor4<Void>& t, const CudaAttention& a) {
  require(is_aligned(t.data) && t.batch % 8 == 0 && t.head % 8 == 0 && t.row % 8 == 0,
          "expected tensors on 16-byte boundaries with strides that are multiples of 8");
  require(t.storage == a.q.storage && t.storage != Storage::float32,
          "expected tensors of one 16-bit type");
}

void check_heads(const CudaAttention& a) {
  const CudaHeads heads = cuda_padded_heads(a.shape);
  require(heads.exist(), "expected a value_dim that is a multiple of 8 up to 256");
  require(!heads.wide() || cuda_has_wide_form(a),
          "expected heads of at most 128 channels for all but plain scores and added tables");
  require(!std::holds_alternative<CapeVariant>(a.variant) ||
              cuda::values_of(a.shape) == a.shape.head_dim,
          "expected value_dim equal to head_dim for cape");
}

/// Of wide heads, for some kernels of which (CudaHeads) not every device has room.
void require_room(const CudaAttention& a, bool beside_scores) {
  const CudaHeads heads = cuda_padded_heads(a.shape);
  const std::int64_t needed = heads.shared_bytes(beside_scores);
  if (!heads.wide() || needed <= kCudaSharedBytes) return;
  const std::int64_t most = cuda_shared_bytes();
  if (most >= needed) return;
  const std::string sentence = "expected a device whose blocks have " +
                               std::to_string(needed / 1024) +
                               " KiB of shared memory for gradients, content sums and more than 32 "
                               "top keys of heads and values padded to 256 channels, but this "
                               "one's have " +
                               std::to_string(most / 1024);
  require(false, sentence.c_str());
}

/// What the device asks for beside the limits; of sums of scores without v.
void check_device(const CudaAttention& a, bool with_values = true) {
  const AttentionShape& s = a.shape;
  require(s.batch < 65536 && s.heads < 65536, "expected fewer than 65536 heads and batch entries");
  require(s.keys >= 1, "expected at least one key");
  check_heads(a);
  require(!a.key_documents || is_aligned(a.document_workspace),
          "expected a workspace for the documents on a 16-byte boundary");
  if (s.queries > 0) check_tensor(a.q, a);
  check_tensor(a.k, a);
  if (with_values) check_tensor(a.v, a);
  require(!a.gate.data || a.gate.storage == a.q.storage, "expected gates in the tensors' type");
  if (const auto* tape = std::get_if<TapeVariant>(&a.variant)) {
    require(tape->state_dim % 8 == 0 && tape->state_dim <= cuda_padded_heads(s).channels,
            "expected a state_dim that is a multiple of 8 up to the padded head_dim");
    check_tensor(tape->state, a);
  }
  if (const auto* clamp = std::get_if<ClampVariant>(&a.variant)) {
    if (s.queries > 0) check_tensor(clamp->q, a);
    check_tensor(clamp->k, a);
  }
}

/// Of sums by distance, whose last launch has a block for each head of the batch.
void require_few_heads(const CudaAttention& a) {
  require(a.shape.batch * a.shape.heads < 65536,
          "expected fewer than 65536 heads in a batch for sums by distance");
}

bool is_wide(const CudaAttention& a) { return cuda_padded_heads(a.shape).wide(); }

struct Forward {
  const CudaAttention& attention;
  const CudaForwardOutputs& outputs;

  void operator()(const PlainVariant&) const {
    (attention.tokens.any() ? cuda::forward_plain_tokens
     : is_wide(attention)   ? cuda::forward_plain_wide
                            : cuda::forward_plain)(attention, outputs);
  }
  void operator()(const TableVariant& table) const {
    (table.multiplies         ? cuda::forward_table_multiplied
     : attention.tokens.any() ? cuda::forward_table_tokens
     : is_wide(attention)     ? cuda::forward_table_wide
                              : cuda::forward_table)(attention, outputs);
  }
  void operator()(const TapaVariant&) const { cuda::forward_tapa(attention, outputs); }
  void operator()(const TapeVariant&) const {
    check_tensor(outputs.out_state, attention);
    cuda::forward_tape(attention, outputs);
  }
  void operator()(const FireVariant&) const { cuda::forward_fire(attention, outputs); }
  void operator()(const QueryTableVariant&) const { cuda::forward_query_table(attention, outputs); }
  void operator()(const ClampVariant&) const { cuda::forward_clamp(attention, outputs); }
  void operator()(const CapeVariant&) const {
    require(is_aligned(outputs.score_workspace),
            "expected a workspace for cape's scores on a 16-byte boundary");
    cuda::forward_cape(attention, outputs);
  }
};

struct Backward {
  const CudaAttention& attention;
  const SavedForward& saved;
  const CudaGradients& gradients;

  void operator()(const PlainVariant&) const {
    (attention.tokens.any() ? cuda::backward_plain_tokens
     : is_wide(attention)   ? cuda::backward_plain_wide
                            : cuda::backward_plain)(attention, saved, gradients);
  }
  void operator()(const TableVariant& table) const {
    (table.multiplies         ? cuda::backward_table_multiplied
     : attention.tokens.any() ? cuda::backward_table_tokens
     : is_wide(attention)     ? cuda::backward_table_wide
                              : cuda::backward_table)(attention, saved, gradients);
  }
  void operator()(const TapaVariant&) const { cuda::backward_tapa(attention, saved, gradients); }
  void operator()(const TapeVariant&) const {
    if (const auto* tape = std::get_if<TapeGradients>(&gradients.variant)) {
      if (tape->d_out_state.data) {
        check_tensor(saved.out_state, attention);
        check_tensor(tape->d_out_state, attention);
      }
      if (tape->d_state.data) check_tensor(tape->d_state, attention);
    }
    cuda::backward_tape(attention, saved, gradients);
  }
  void operator()(const FireVariant&) const { cuda::backward_fire(attention, saved, gradients); }
  void operator()(const QueryTableVariant&) const {
    cuda::backward_query_table(attention, saved, gradients);
  }
  void operator()(const ClampVariant&) const {
    const auto* far = std::get_if<ClampGradients>(&gradients.variant);
    require(far, "expected memory for the gradients of the far q and k of clamped distances");
    if (attention.shape.queries > 0) check_tensor(far->dq, attention);
    check_tensor(far->dk, attention);
    cuda::backward_clamp(attention, saved, gradients);
  }
  void operator()(const CapeVariant& cape) const {
    require(cuda_cape_bytes(attention.shape.heads, cape.hidden) <= kCudaSharedBytes,
            "expected fewer heads or hidden units for cape's gradients, such as 64 and 32");
    cuda::backward_cape(attention, saved, gradients);
  }
};

struct SumScores {
  const CudaAttention& attention;
  const CudaScoreSums& sums;

  void operator()(const PlainVariant&) const {
    (attention.tokens.any() ? cuda::sums_plain_tokens
     : is_wide(attention)   ? cuda::sums_plain_wide
                            : cuda::sums_plain)(attention, sums);
  }
  void operator()(const TableVariant& table) const {
    (table.multiplies         ? cuda::sums_table_multiplied
     : attention.tokens.any() ? cuda::sums_table_tokens
     : is_wide(attention)     ? cuda::sums_table_wide
                              : cuda::sums_table)(attention, sums);
  }
  void operator()(const TapaVariant&) const { cuda::sums_tapa(attention, sums); }
  void operator()(const TapeVariant&) const { cuda::sums_plain(attention, sums); }
  void operator()(const FireVariant&) const { cuda::sums_fire(attention, sums); }
  void operator()(const QueryTableVariant&) const { cuda::sums_query_table(attention, sums); }
  void operator()(const ClampVariant&) const { cuda::sums_clamp(attention, sums); }
  void operator()(const CapeVariant&) const {
    require(is_aligned(sums.score_workspace),
            "expected a workspace for cape's scores on a 16-byte boundary");
    cuda::sums_cape(attention, sums);
  }
};

}  // namespace

cuda::OnePass cuda::one_pass(const CudaAttention& a) {
  const bool with_table = std::holds_alternative<TableVariant>(a.variant);
  const bool with_state = std::holds_alternative<TapeVariant>(a.variant);
  const bool has_form = with_table || with_state ||
                        std::holds_alternative<PlainVariant>(a.variant) ||
                        std::holds_alternative<TapaVariant>(a.variant);
  if (a.dq_bytes == 0 || a.tokens.any() || !has_form) return {};
  const int bytes = one_pass_bytes(cuda_padded_heads(a.shape).channels, with_state);
  if (bytes == 0 || cuda_shared_bytes() < bytes) return {};
  return one_pass_plan(a, with_table);
}

namespace {

bool has_strides(const InputTensor& t) { return t.batch > 0 && t.head > 0 && t.row > 0; }

}  // namespace

bool cuda_takes_hopper_form(const CudaAttention& a) {
  if (!a.hopper || !cuda_has_hopper_form(a) || cuda_capability() != kHopperCapability) return false;
  if (cuda::values_of(a.shape) != a.shape.head_dim) return false;
  if (!has_strides(a.q) || !has_strides(a.k) || !has_strides(a.v)) return false;
  const auto* tape = std::get_if<TapeVariant>(&a.variant);
  return !tape || (tape->state_dim > 0 && has_strides(tape->state));
}

bool cuda_takes_hopper_backward(const CudaAttention& a, const SavedForward& saved) {
  return cuda_has_hopper_backward(a) && cuda_takes_hopper_form(a) && has_strides(saved.d_out) &&
         cuda::one_pass(a).units > 0;
}

void cuda_attention_forward(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  const cuda::NvtxRange range("phasescope attention forward");
  if (attention.shape.queries == 0) return;
  check_forward(attention, outputs, kCudaLimits);
  check_device(attention);
  require_room(
      attention,
      cuda::wants_content(outputs.buckets) || cuda::wants_term(outputs.buckets) ||
          (wants_top_keys(outputs.rows) && outputs.rows.top_count > CudaHeads::kFewTopKeys));
  check_tensor(outputs.out, attention);
  if (attention.gate.data && outputs.ungated.data) check_tensor(outputs.ungated, attention);
  if (outputs.buckets.count > 0) {
    require(outputs.lse && is_aligned(outputs.workspace),
            "expected lse and a workspace on a 16-byte boundary for the distance buckets");
    require_few_heads(attention);
  }
  require(outputs.lse || !wants_top_keys(outputs.rows),
          "expected lse for the largest weights of a row");
  if (attention.key_documents) cuda::launch_documents(attention);
  std::visit(Forward{attention, outputs}, attention.variant);
}

std::size_t cuda_bucket_workspace(const CudaAttention& attention, const BucketProbes& buckets) {
  if (buckets.count == 0) return 0;
  const std::size_t bytes =
      24 + (cuda::wants_term(buckets) ? 16 : 0) + (cuda::wants_content(buckets) ? 16 : 0);
  return static_cast<std::size_t>(cuda::distance_sums(attention.shape)) * bytes;
}

std::size_t cuda_score_workspace(const CudaAttention& attention) {
  if (!std::holds_alternative<CapeVariant>(attention.variant)) return 0;
  return cuda::CapeMemory(attention, nullptr, false).bytes;
}

namespace {

/// Of the gradients but the gates'.
std::size_t gradient_workspace(const CudaAttention& attention) {
  if (std::holds_alternative<CapeVariant>(attention.variant)) {
    return cuda::CapeMemory(attention, nullptr, true).bytes;
  }
  const AttentionShape& s = attention.shape;
  std::int64_t floats = cuda::delta_size(s);
  if (const cuda::OnePass plan = cuda::one_pass(attention); plan.units > 0) {
    floats = cuda::sums_place(s, plan) + plan.floats;
    return static_cast<std::size_t>(floats) * sizeof(float) + plan.flags;
  }
  if (std::holds_alternative<TableVariant>(attention.variant)) {
    floats += cuda::table_blocks(attention).floats;
  } else if (std::holds_alternative<FireVariant>(attention.variant)) {
    floats += cuda::diagonals_size(s) + cuda::delta_size(s) + cuda::pieces_size(s);
  }
  return static_cast<std::size_t>(floats) * sizeof(float);
}
/// Behind which the gates' begins.
std::size_t gate_place(const CudaAttention& attention) {
  return (gradient_workspace(attention) + 15) / 16 * 16;
}

}  // namespace

bool cuda_adds_atomically(const CudaAttention& attention) {
  return attention.atomic_dq && cuda::one_pass(attention).units > 0;
}

std::size_t cuda_backward_workspace(const CudaAttention& attention) {
  if (!attention.gate.data) return gradient_workspace(attention);
  return gate_place(attention) + cuda::gate_bytes(attention.shape);
}

void cuda_attention_backward(const CudaAttention& attention, const SavedForward& given,
                             const CudaGradients& gradients) {
  const cuda::NvtxRange range("phasescope attention backward");
  check_backward(attention, given, gradients, kCudaLimits);
  check_device(attention);
  require_room(attention, true);
  if (attention.shape.queries > 0) {
    check_tensor(given.out, attention);
    check_tensor(given.d_out, attention);
    check_tensor(gradients.dq, attention);
  }
  check_tensor(gradients.dk, attention);
  check_tensor(gradients.dv, attention);
  require(cuda_backward_workspace(attention) == 0 || is_aligned(gradients.workspace),
          "expected a workspace on a 16-byte boundary");
  if (gradients.scores.by_distance && gradients.scores.length > 0) {
    require(is_aligned(gradients.distance_workspace),
            "expected a workspace for sums by distance on a 16-byte boundary");
    require_few_heads(attention);
  }
  if (attention.key_documents) cuda::launch_documents(attention);
  SavedForward saved = given;
  if (attention.gate.data && attention.shape.queries > 0) {
    saved.d_out =
        cuda::launch_gates(attention, given, gradients,
                           static_cast<char*>(gradients.workspace) + gate_place(attention));
  }
  std::visit(Backward{attention, saved, gradients}, attention.variant);
}

std::size_t cuda_sums_workspace(const CudaAttention& attention, const ScoreSums& sums) {
  const AttentionShape& s = attention.shape;
  const std::int64_t numbers = (sums.distance ? cuda::distance_sums(s) : 0) +
                               (sums.square ? s.batch * s.heads * s.queries : 0);
  return static_cast<std::size_t>(numbers) * sizeof(double);
}

void cuda_attention_score_sums(const CudaAttention& attention, const CudaScoreSums& sums) {
  const cuda::NvtxRange range("phasescope sums of scores");
  check_sums(attention, sums, kCudaLimits);
  check_device(attention, false);
  if (sums.distance) require_few_heads(attention);
  require(cuda_sums_workspace(attention, sums) == 0 || is_aligned(sums.workspace),
          "expected a workspace for the sums on a 16-byte boundary");
  if (attention.key_documents) cuda::launch_documents(attention);
  std::visit(SumScores{attention, sums}, attention.variant);
}

bool cuda_available(std::string& reason) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    reason = std::string("No CUDA device can be used here: ") + cudaGetErrorString(status);
    return false;
  }
  if (devices == 0) {
    reason = "This machine has no CUDA device";
    return false;
  }
  const int capability = cuda_capability();
  if (capability >= kLeastCapability) return true;
  reason = "The CUDA kernels need a device of compute capability 8.0 or more, and this one has " +
           std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  return false;
}

int cuda_capability() {
  int device = 0, major = 0, minor = 0;
  PHASESCOPE_CUDA(cudaGetDevice(&device));
  PHASESCOPE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PHASESCOPE_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

std::int64_t cuda_shared_bytes() {
  int device = 0, most = 0;
  PHASESCOPE_CUDA(cudaGetDevice(&device));
  PHASESCOPE_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return most;
}

}  // namespace phasescope::kernels
