#pragma once
// The streaming attention on CUDA, Ampere form: forward and backward in bfloat16 and float16 with
// float32 sums; of some variants the forward pass in Hopper form too. The device code has been
// compiled for sm_80 and sm_90a and run by the emulation of tests/kernels/cuda_emulation, never on
// a device, so it is reached by the backend's name `cuda-unverified` alone.
//
// Words, masks, variants and probes are those of kernels/attention.h; pointers are device memory.

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/attention.h"
#include "kernels/cuda/cuda_scores.h"

namespace phasescope::kernels {

/// Name under which a user chooses this backend, and that of what ran where the kernel is one of
/// verified.h.
inline constexpr const char* kCudaBackend = "cuda-unverified";
inline constexpr const char* kVerifiedCudaBackend = "cuda";

/// At most so many segments of FIRE (an MLP of one unit less), and hidden units of CAPE.
inline constexpr std::int64_t kCudaSegments = 64, kCudaHiddenUnits = 64;

/// Of CAPE's gradients: hidden units as their arrays have them, an odd number of fours, so that
/// rows of weights begin in other banks of shared memory.
constexpr std::int64_t cuda_cape_units(std::int64_t hidden) { return ((hidden + 3) / 4 * 4) | 4; }
/// Bytes of a block's shared memory that CAPE's gradients take, and what the least of devices of
/// compute capability 8.0 and more have.
constexpr std::int64_t cuda_cape_bytes(std::int64_t heads, std::int64_t hidden) {
  const std::int64_t units = cuda_cape_units(hidden);
  return 4 * (72 * (heads + units) + 130 * (heads + hidden) + 2 * heads * units + 384);
}
inline constexpr std::int64_t kCudaSharedBytes = 99 * 1024;
/// What those of compute capability 8.0, 8.7 and from 9.0 on have.
inline constexpr std::int64_t kCudaLargeSharedBytes = 163 * 1024;
/// At most so many heads of CAPE; no form has been tried with more.
inline constexpr std::int64_t kCudaCapeHeads = 198;

/// Channels of q and k and of v and out, as the kernels pad them.
struct CudaHeads {
  std::int64_t channels = 0, values = 0;

  /// None: there is no form of such heads.
  constexpr bool exist() const { return channels > 0; }
  /// Plain scores and added tables alone have a form of these.
  constexpr bool wide() const { return channels > 128; }
  /// Bytes of a block's shared memory that the kernels of these take at most. beside_scores: those
  /// of gradients, of sums of content scores by distance, and of more than kFewTopKeys top keys.
  constexpr std::int64_t shared_bytes(bool beside_scores) const {
    return beside_scores && channels > 192 ? kCudaLargeSharedBytes : kCudaSharedBytes;
  }
  static constexpr std::int64_t kFewTopKeys = 32;
};
/// Of q and k of head_dim channels and v of value_dim (0: as many): the one list of the sizes of
/// heads that there are kernels for.
constexpr CudaHeads cuda_padded_heads(std::int64_t head_dim, std::int64_t value_dim) {
  const std::int64_t values = value_dim > 0 ? value_dim : head_dim;
  if (head_dim <= 0 || head_dim % 8 != 0 || values % 8 != 0) return {};
  for (const CudaHeads heads : {CudaHeads{64, 64}, {128, 128}, {192, 128}, {256, 256}}) {
    if (head_dim <= heads.channels && values <= heads.values) return heads;
  }
  return {};
}
constexpr CudaHeads cuda_padded_heads(const AttentionShape& s) {
  return cuda_padded_heads(s.head_dim, s.value_dim);
}
/// Whether a score has a form of wide heads.
inline bool cuda_has_wide_form(const AttentionInputs& inputs) {
  return cuda_score_has(inputs, "wide");
}
/// Whether it has a forward pass in Hopper form, and a backward pass; of heads that are not wide.
inline bool cuda_has_hopper_form(const AttentionInputs& inputs) {
  return cuda_score_has(inputs, "hopper") && !cuda_padded_heads(inputs.shape).wide();
}
inline bool cuda_has_hopper_backward(const AttentionInputs& inputs) {
  return cuda_score_has(inputs, "hopper_backward") && cuda_has_hopper_form(inputs);
}

/// Bytes of the workspace that documents take: 8 for every 64 queries and every 64 keys.
constexpr std::size_t cuda_document_bytes(const AttentionShape& s) {
  return static_cast<std::size_t>(s.batch * ((s.queries + 63) / 64 + (s.keys + 63) / 64) * 8);
}

/// Bytes that sums over pairs by distance take: 8 for every distance, about twice.
constexpr std::size_t cuda_distance_bytes(const AttentionShape& s) {
  return static_cast<std::size_t>(s.batch * s.heads * ((s.queries + 63) / 64 + (s.keys + 63) / 64) *
                                  128 * 8);
}

/// What forward and backward read, in device memory, and what a device needs beside it. q, k, v, a
/// state, far q and k, results and gradients of tokens are stored in one 16-bit type, on 16-byte
/// boundaries with strides that are multiples of 8; all other arrays are float32 but biases of
/// tokens. head_dim and value_dim are such that cuda_padded_heads() has them, and
/// cuda_has_wide_form() where they are wide; CAPE's value_dim is its head_dim; state_dim is a
/// multiple of 8 and at most the padded channels. CAPE's forward pass takes up to
/// kCudaHiddenUnits, its backward pass what fits kCudaSharedBytes.
struct CudaAttention : AttentionInputs {
  /// With documents: cuda_document_bytes() of device memory on a 16-byte boundary. Every pass
  /// writes there, of each 64 queries and 64 keys, between which numbers their documents lie: where
  /// these have none in common, no kernel looks at the pairs.
  void* document_workspace = nullptr;
  /// CAPE: its workspace takes at most so many bytes, of which most hold the scores of some query
  /// rows and keys, of all heads; more of them make it faster. At least it takes those of 64 rows
  /// and 64 keys and what is linear in the lengths: for each token, hidden unit and head 4 bytes
  /// forward and up to 28 backward.
  std::size_t cape_bytes = std::size_t{192} << 20;
  /// Tables' gradients: blocks that share a head's queries each keep sums by distance, in at most
  /// so many bytes of the workspace; one block a head, of 4 bytes a distance, where that is more.
  std::size_t table_bytes = std::size_t{64} << 20;
  /// Plain scores, tables, TAPA and, of heads of at most 64 channels, TAPE, without numbers of
  /// tokens: the backward pass makes dq beside dk and dv where sums of it in float32 fit so many
  /// bytes of the workspace in enough parts to keep a device busy, and by itself elsewhere; 0:
  /// always by itself.
  std::size_t dq_bytes = std::size_t{160} << 20;
  /// Whether blocks add to one such sum by atomic operations instead of to parts of their own, and
  /// to one of a table's gradient: longer texts then fit, and the last bits of dq and of the
  /// table's gradient differ from time to time.
  bool atomic_dq = false;
  void* stream = nullptr;  ///< cudaStream_t
  /// Whether both passes are to be the Hopper form where there is one.
  bool hopper = false;
};

/// All pointers, the edges' too, are device memory; known_lse is not read. The largest weights of a
/// row need lse, and cost a second pass over the scores. So do buckets, and a workspace; at most
/// 65535 heads over the whole batch then.
struct CudaForwardOutputs : ForwardOutputs {
  void* workspace = nullptr;  ///< cuda_bucket_workspace() bytes of device memory, for buckets
  /// CAPE alone: cuda_score_workspace() bytes of device memory on a 16-byte boundary.
  void* score_workspace = nullptr;
};

/// Linear in queries and keys; 0 without buckets.
std::size_t cuda_bucket_workspace(const CudaAttention& attention, const BucketProbes& buckets);
/// Of CAPE: see cape_bytes; 0 for all others.
std::size_t cuda_score_workspace(const CudaAttention& attention);

/// Whether the forward pass is the Hopper form: where it is wanted, on devices of compute
/// capability 9.0, of scores that have it (cuda_has_hopper_form); no stride is 0.
bool cuda_takes_hopper_form(const CudaAttention& attention);
/// Whether the backward pass is: where the forward pass is, of scores that have it, if dq is made
/// beside dk and dv (dq_bytes); no stride of d_out is 0.
bool cuda_takes_hopper_backward(const CudaAttention& attention, const SavedForward& saved);

/// Enqueues the forward pass. Throws std::invalid_argument for what it cannot do, and
/// CudaError with the CUDA call, file and line when the driver refuses.
void cuda_attention_forward(const CudaAttention& attention, const CudaForwardOutputs& outputs);

/// In device memory. With kv_heads < heads dk, dv and d_state are sums over the group.
struct CudaGradients : Gradients {
  /// cuda_backward_workspace() bytes of device memory on a 16-byte boundary.
  void* workspace = nullptr;
  /// Of `scores` alone: cuda_distance_bytes() likewise.
  void* distance_workspace = nullptr;
};

/// Linear in queries and keys, and dq_bytes at most; of CAPE, see cape_bytes.
std::size_t cuda_backward_workspace(const CudaAttention& attention);

/// Whether the backward pass adds by atomic operations: where atomic_dq is set and dq is made
/// beside dk and dv on the current device.
bool cuda_adds_atomically(const CudaAttention& attention);

/// Enqueues the backward pass; the same bits every time where cuda_adds_atomically() is not true.
/// Throws like the forward pass.
void cuda_attention_backward(const CudaAttention& attention, const SavedForward& saved,
                             const CudaGradients& gradients);

/// Sums and shifts in device memory.
struct CudaScoreSums : ScoreSums {
  void* workspace = nullptr;  ///< cuda_sums_workspace() bytes of device memory, where it has some
  /// CAPE alone: cuda_score_workspace() bytes on a 16-byte boundary.
  void* score_workspace = nullptr;
};

/// Linear in queries and keys.
std::size_t cuda_sums_workspace(const CudaAttention& attention, const ScoreSums& sums);

/// Enqueues attention_score_sums(): a pass over the scores for sums by row and of squares, one for
/// those by key, one for those by distance. v is not read. Throws like the forward pass.
void cuda_attention_score_sums(const CudaAttention& attention, const CudaScoreSums& sums);

/// A region of the map, in device memory: see attention_region(). lse: the forward's.
struct CudaRegion {
  Region region;
  const float* lse = nullptr;  ///< (B, heads, queries), needed for weights
  float* scores = nullptr;     ///< (head_count, rows, columns), null: off
  float* weights = nullptr;    ///< likewise
  /// CAPE alone: cuda_score_workspace() bytes on a 16-byte boundary.
  void* score_workspace = nullptr;
};

/// Enqueues attention_region(), at the cost of the tiles of 64 x 64 pairs that hold the region;
/// CAPE's scores of all heads. v is not read. Throws like the forward pass.
void cuda_attention_region(const CudaAttention& attention, const CudaRegion& region);

/// Whether the current device can be used; if not, `reason` says why in one sentence.
bool cuda_available(std::string& reason);

/// The current device's compute capability, 90 for 9.0.
int cuda_capability();
/// Bytes of shared memory that a block of the current device may have. Throws like the passes.
std::int64_t cuda_shared_bytes();

}  // namespace phasescope::kernels
