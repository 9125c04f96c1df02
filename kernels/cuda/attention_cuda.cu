#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
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

/// Of a variant's arrays, or of its gradients': the tensors that are there.
struct CheckTensors {
  const CudaAttention& attention;

  template <typename Number>
  void operator()(Number*, std::int64_t) const {}
  template <typename Void>
  void operator()(const Tensor4<Void>& tensor, const TensorSize& size) const {
    if (tensor.data && size.rows > 0) check_tensor(tensor, attention);
  }
};

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
  }
  std::visit([&](const auto& own) { own.arrays(own, s, CheckTensors{a}); }, a.variant);
}

/// Of sums by distance, whose last launch has a block for each head of the batch.
void require_few_heads(const CudaAttention& a) {
  require(a.shape.batch * a.shape.heads < 65536,
          "expected fewer than 65536 heads in a batch for sums by distance");
}

/// What launches the passes of a score; null where it has none of its own.
struct Launchers {
  cuda::ForwardLauncher* forward;
  cuda::BackwardLauncher* backward;
  cuda::SumsLauncher* sums;  // and regions, of the same files
  cuda::RegionLauncher* region;
};
/// In the order of ScoreName: of heads of usual size, and of wide ones.
constexpr Launchers kLaunchers[] = {
#define PHASESCOPE_SCORE(name, score, headers, on_cpu, on_cuda) \
  {PHASESCOPE_PASS(on_cuda, "forward", cuda::forward_##name),   \
   PHASESCOPE_PASS(on_cuda, "backward", cuda::backward_##name), \
   PHASESCOPE_PASS(on_cuda, "sums", cuda::sums_##name),         \
   PHASESCOPE_PASS(on_cuda, "sums", cuda::region_##name)},
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE
};
constexpr Launchers kWideLaunchers[] = {
#define PHASESCOPE_SCORE(name, score, headers, on_cpu, on_cuda)    \
  {PHASESCOPE_PASS(on_cuda, "wide", cuda::forward_##name##_wide),  \
   PHASESCOPE_PASS(on_cuda, "wide", cuda::backward_##name##_wide), \
   PHASESCOPE_PASS(on_cuda, "wide", cuda::sums_##name##_wide),     \
   PHASESCOPE_PASS(on_cuda, "wide", cuda::region_##name##_wide)},
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE
};

/// A pass by its name in that list. check_heads() was called.
template <class Launcher>
Launcher* launcher_of(const CudaAttention& a, const char* name, Launcher* Launchers::*pass) {
  const auto score = with_pass(score_of(a), &ScoreLine::on_cuda, name);
  if (!score) throw std::logic_error(std::string("scores.inc names no pass ") + name);
  const auto n = static_cast<std::size_t>(*score);
  return (cuda_padded_heads(a.shape).wide() ? kWideLaunchers[n] : kLaunchers[n]).*pass;
}

/// What single variants ask for besides.
void check_scores_room(const CudaAttention& a, const void* workspace) {
  require(!std::holds_alternative<CapeVariant>(a.variant) || is_aligned(workspace),
          "expected a workspace for cape's scores on a 16-byte boundary");
}
void check_own_gradients(const CudaAttention& a, const CudaGradients& gradients) {
  if (const auto* cape = std::get_if<CapeVariant>(&a.variant)) {
    require(cuda_cape_bytes(a.shape.heads, cape->hidden) <= kCudaSharedBytes,
            "expected fewer heads or hidden units for cape's gradients, such as 64 and 32");
  }
  if (std::holds_alternative<ClampVariant>(a.variant)) {
    const auto* far = std::get_if<ClampGradients>(&gradients.variant);
    require(far && far->dk.data && (far->dq.data || a.shape.queries == 0),
            "expected memory for the gradients of the far q and k of clamped distances");
  }
}

}  // namespace

cuda::OnePass cuda::one_pass(const CudaAttention& a) {
  if (a.dq_bytes == 0 || !cuda_score_has(a, "one_pass")) return {};
  const bool with_state = std::holds_alternative<TapeVariant>(a.variant);
  const int bytes = one_pass_bytes(cuda_padded_heads(a.shape).channels, with_state);
  if (bytes == 0 || cuda_shared_bytes() < bytes) return {};
  return one_pass_plan(a, cuda_score_has(a, "table_gradient"));
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
  check_scores_room(attention, outputs.score_workspace);
  check_tensor(outputs.out, attention);
  if (outputs.out_state.data) check_tensor(outputs.out_state, attention);
  if (attention.gate.data && outputs.ungated.data) check_tensor(outputs.ungated, attention);
  if (outputs.buckets.count > 0) {
    require(outputs.lse && is_aligned(outputs.workspace),
            "expected lse and a workspace on a 16-byte boundary for the distance buckets");
    require_few_heads(attention);
  }
  require(outputs.lse || !wants_top_keys(outputs.rows),
          "expected lse for the largest weights of a row");
  if (attention.key_documents) cuda::launch_documents(attention);
  launcher_of(attention, "forward", &Launchers::forward)(attention, outputs);
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
  if (cuda_score_has(attention, "table_gradient")) {
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
  check_own_gradients(attention, gradients);
  if (given.out_state.data) check_tensor(given.out_state, attention);
  std::visit(
      [&]<class Own>(const Own& own) {
        if constexpr (!std::is_same_v<Own, std::monostate>) {
          const auto& of = std::get<typename Own::Of>(attention.variant);
          Own::arrays(own, of, attention.shape, CheckTensors{attention});
        }
      },
      gradients.variant);
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
  launcher_of(attention, "backward", &Launchers::backward)(attention, saved, gradients);
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
  check_scores_room(attention, sums.score_workspace);
  launcher_of(attention, "sums", &Launchers::sums)(attention, sums);
}

void cuda_attention_region(const CudaAttention& attention, const CudaRegion& wanted) {
  const cuda::NvtxRange range("phasescope region of scores");
  const Region& region = wanted.region;
  check_region(attention, wanted.lse, region, wanted.weights != nullptr, kCudaLimits);
  check_device(attention, false);
  check_scores_room(attention, wanted.score_workspace);
  const bool empty = region.head_count == 0 || region.row_begin == region.row_end ||
                     region.col_begin == region.col_end;
  if (empty || !(wanted.scores || wanted.weights)) return;
  if (attention.key_documents) cuda::launch_documents(attention);
  launcher_of(attention, "sums", &Launchers::region)(attention, wanted);
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
