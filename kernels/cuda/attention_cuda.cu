#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <variant>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels {
namespace {

void require(bool holds, const char* sentence) {
  if (!holds) throw std::invalid_argument(std::string("[cuda attention] ") + sentence);
}

bool is_aligned(const void* data) {
  return data && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

bool is_aligned(const CudaTensor& t) {
  return is_aligned(t.data) && t.batch % 8 == 0 && t.head % 8 == 0 && t.row % 8 == 0;
}

void check_alignment(const CudaTensor& t) {
  require(is_aligned(t),
          "expected tensors on 16-byte boundaries with strides that are multiples of 8");
}

/// The largest distance of an unmasked pair, below `least` where there is none; `least` gets the
/// smallest.
std::int64_t last_distance(const AttentionShape& s, std::int64_t& least) {
  least = s.query_offset - (s.keys - 1);
  if (s.causal && least < 0) least = 0;
  return s.query_offset + s.queries - 1;
}

struct CheckVariant {
  const CudaAttention& a;

  void operator()(const PlainVariant&) const {}

  void operator()(const TableVariant& table) const {
    std::int64_t least = 0;
    const std::int64_t last = last_distance(a.shape, least);
    if (last < least) return;
    require(table.values && table.length >= 1, "expected a table of biases");
    require(table.first_distance <= 0, "expected first_distance <= 0");
    const bool with_sign = table.first_distance != 0;
    const std::int64_t most = with_sign ? last : std::max(std::abs(last), std::abs(least));
    require(
        most < table.first_distance + table.length && (!with_sign || least >= table.first_distance),
        "expected a table that has every distance in use");
  }

  void operator()(const TapaVariant& tapa) const {
    require(tapa.content_dim >= 1 && tapa.content_dim < a.shape.head_dim,
            "expected tapa's content_dim inside head_dim");
    std::int64_t least = 0;
    const std::int64_t last = last_distance(a.shape, least);
    if (last < least) return;
    require(tapa.power && std::max(std::abs(last), std::abs(least)) < tapa.power_length,
            "expected tapa's powers for every distance in use");
  }

  void operator()(const CudaTapeVariant& tape) const {
    require(tape.state_dim >= 8 && tape.state_dim % 8 == 0 &&
                tape.state_dim <= (a.shape.head_dim <= 64 ? 64 : 128),
            "expected a state_dim that is a multiple of 8 up to the padded head_dim");
    check_alignment(tape.state);
  }

  void operator()(const FireVariant& fire) const {
    require(a.shape.causal, "expected a causal mask with fire");
    require(fire.segments >= 1 && fire.segments <= kCudaSegments && fire.slope && fire.intercept &&
                (fire.knots || fire.segments == 1),
            "expected 1 to 64 segments of fire with their knots, slopes and intercepts");
    std::int64_t least = 0;
    const std::int64_t last = last_distance(a.shape, least);
    if (last < least) return;
    require(fire.distance && last < fire.length && fire.factor,
            "expected fire's distances up to the largest in use, and its factors");
  }

  void operator()(const CapeVariant& cape) const {
    require(cape.hidden >= 1 && cape.hidden <= kCudaHiddenUnits,
            "expected cape's hidden width of 1 to 64");
    require(a.shape.heads <= kCudaCapeHeads, "expected at most 198 heads with cape");
    require(cape.w1 && cape.b1 && cape.w2 && cape.b2, "expected cape's four weights");
    if (cape.form == CapeForm::content) return;
    if (cape.fire) {
      (*this)(*cape.fire);
      return;
    }
    std::int64_t least = 0;
    const std::int64_t last = last_distance(a.shape, least);
    if (last < least) return;
    require(cape.values && std::max<std::int64_t>(last, 0) < cape.length,
            "expected cape's table of biases to have every distance in use");
  }
};

void check(const CudaAttention& a) {
  const AttentionShape& s = a.shape;
  constexpr std::int64_t kLongest = std::int64_t{1} << 29;  // positions are 32-bit numbers
  require(s.batch >= 1 && s.heads >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0,
          "expected kv_heads to divide heads, all at least 1");
  require(s.batch < 65536 && s.heads < 65536, "expected fewer than 65536 heads and batch entries");
  require(s.head_dim % 8 == 0 && s.head_dim >= 8 && s.head_dim <= 128,
          "expected a head_dim that is a multiple of 8 up to 128");
  require(s.value_dim == 0 || s.value_dim == s.head_dim, "expected value_dim equal to head_dim");
  require(s.keys >= 1, "expected at least one key");
  require(s.queries <= kLongest && s.keys <= kLongest && std::abs(s.query_offset) <= kLongest,
          "expected at most 2^29 queries and keys, and no larger query_offset");
  require(s.window >= 0, "expected a window of at least 0");
  require(!a.query_documents == !a.key_documents,
          "expected the documents of both queries and keys, or of neither");
  require(!a.key_documents || is_aligned(a.document_workspace),
          "expected a workspace for the documents on a 16-byte boundary");
  require(a.soft_cap >= 0 && std::isfinite(a.soft_cap), "expected a finite soft_cap of at least 0");
  for (const CudaTensor* t : {&a.q, &a.k, &a.v}) check_alignment(*t);
  std::visit(CheckVariant{a}, a.variant);
}

struct Forward {
  const CudaAttention& attention;
  const CudaForwardOutputs& outputs;

  void operator()(const PlainVariant&) const { cuda::forward_plain(attention, outputs); }
  void operator()(const TableVariant& table) const {
    (table.multiplies ? cuda::forward_table_multiplied : cuda::forward_table)(attention, outputs);
  }
  void operator()(const TapaVariant&) const { cuda::forward_tapa(attention, outputs); }
  void operator()(const CudaTapeVariant&) const {
    check_alignment(outputs.out_state);
    cuda::forward_tape(attention, outputs);
  }
  void operator()(const FireVariant&) const { cuda::forward_fire(attention, outputs); }
  void operator()(const CapeVariant&) const {
    require(is_aligned(outputs.score_workspace),
            "expected a workspace for cape's scores on a 16-byte boundary");
    cuda::forward_cape(attention, outputs);
  }
};

struct Backward {
  const CudaAttention& attention;
  const CudaSavedForward& saved;
  const CudaGradients& gradients;

  void operator()(const PlainVariant&) const { cuda::backward_plain(attention, saved, gradients); }
  void operator()(const TableVariant& table) const {
    (table.multiplies ? cuda::backward_table_multiplied : cuda::backward_table)(attention, saved,
                                                                                gradients);
  }
  void operator()(const TapaVariant&) const { cuda::backward_tapa(attention, saved, gradients); }
  void operator()(const CudaTapeVariant&) const {
    if (saved.d_out_state.data) {
      check_alignment(saved.out_state);
      check_alignment(saved.d_out_state);
    }
    if (gradients.d_state.data) check_alignment(gradients.d_state);
    cuda::backward_tape(attention, saved, gradients);
  }
  void operator()(const FireVariant&) const { cuda::backward_fire(attention, saved, gradients); }
  void operator()(const CapeVariant& cape) const {
    require(cuda_cape_bytes(attention.shape.heads, cape.hidden) <= kCudaSharedBytes,
            "expected fewer heads or hidden units for cape's gradients, such as 64 and 32");
    cuda::backward_cape(attention, saved, gradients);
  }
};

}  // namespace

void cuda_attention_forward(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  const cuda::NvtxRange range("phasescope attention forward");
  if (attention.shape.queries == 0) return;
  check(attention);
  check_alignment(outputs.out);
  if (outputs.buckets.count > 0) {
    require(outputs.lse && is_aligned(outputs.workspace) && outputs.buckets.edges,
            "expected edges, lse and a workspace on a 16-byte boundary for the distance buckets");
    require(attention.shape.batch * attention.shape.heads < 65536,
            "expected fewer than 65536 heads in a batch for the distance buckets");
  }
  if (cuda::wants_top_keys(outputs.rows)) {
    const std::int64_t count = outputs.rows.top_count;
    require(outputs.lse && count >= 1 && count <= kMaxTopKeys,
            "expected lse for the largest weights of a row, and 1 to 64 of them");
  }
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

std::size_t cuda_backward_workspace(const CudaAttention& attention) {
  if (std::holds_alternative<CapeVariant>(attention.variant)) {
    return cuda::CapeMemory(attention, nullptr, true).bytes;
  }
  const AttentionShape& s = attention.shape;
  std::int64_t floats = cuda::delta_size(s) + cuda::diagonals_size(s);
  if (std::holds_alternative<FireVariant>(attention.variant)) {
    floats += cuda::delta_size(s) + cuda::pieces_size(s);
  }
  return static_cast<std::size_t>(floats) * sizeof(float);
}

void cuda_attention_backward(const CudaAttention& attention, const CudaSavedForward& saved,
                             const CudaGradients& gradients) {
  const cuda::NvtxRange range("phasescope attention backward");
  check(attention);
  if (attention.shape.queries > 0) {
    for (const CudaTensor* t : {&saved.out, &saved.d_out, &gradients.dq}) check_alignment(*t);
    require(saved.lse, "expected the forward pass's lse");
  }
  check_alignment(gradients.dk);
  check_alignment(gradients.dv);
  require(is_aligned(gradients.workspace), "expected a workspace on a 16-byte boundary");
  if (attention.key_documents) cuda::launch_documents(attention);
  std::visit(Backward{attention, saved, gradients}, attention.variant);
}

bool cuda_available(std::string& reason) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    reason = std::string("No CUDA device can be used here: ") + cudaGetErrorString(status);
    return false;
  }
  if (devices == 0) reason = "This machine has no CUDA device";
  return devices > 0;
}

}  // namespace phasescope::kernels
