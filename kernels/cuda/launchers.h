#pragma once
// What launches the kernels of each score; and the sizes of launches and of the workspace.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_cuda.h"

namespace phasescope::kernels::cuda {

inline constexpr int kRows = 64;      // rows of a tile
inline constexpr int kThreads = 128;  // of a block: four warps of 16 rows

/// Of CAPE's gradients: floats from one row of 32 pairs to the next (cuda_cape_bytes() has two rows
/// of each head and each unit).
inline constexpr int kPairRow = 36;
/// Of the forward pass over stored scores: what a thread keeps of two rows between strips of keys,
/// besides the sums of the padded head_dim, and floats of a block of threads.
inline constexpr int kRowStateBytes = 128;
constexpr std::int64_t kept_floats(std::int64_t dim) {
  return kThreads * (dim / 2 + kRowStateBytes / 4);
}
static_assert(kept_floats(64) >= kRows * kMaxTopKeys * 2, "lists of the largest weights lie there");
inline constexpr int kMostSegments = static_cast<int>(kCudaSegments);

/// Channels of v and out.
constexpr std::int64_t values_of(const AttentionShape& s) {
  return s.value_dim > 0 ? s.value_dim : s.head_dim;
}

/// Of one thread an entry.
constexpr unsigned blocks_of(std::int64_t entries) {
  return static_cast<unsigned>((entries + kThreads - 1) / kThreads);
}
constexpr unsigned tiles_of(std::int64_t rows) {
  return static_cast<unsigned>((rows + kRows - 1) / kRows);
}
/// Floats of the workspace: delta; for tables then the sums that TableBlocks says; for FIRE
/// kThreads sums for each distance of tiles of each head, as many as delta again, and two for each
/// segment there.
constexpr std::int64_t delta_size(const AttentionShape& s) { return s.batch * s.heads * s.queries; }
constexpr unsigned tile_distances(const AttentionShape& s) {
  return tiles_of(s.queries) + tiles_of(s.keys);
}

/// For tables' gradients: the numbers that a block keeps, kRows for each distance of tiles.
constexpr std::int64_t block_distances(const AttentionShape& s) {
  return std::int64_t{kRows} * tile_distances(s);
}
/// How many blocks share the queries of a head there, and what they keep. They are enough for every
/// multiprocessor to be busy until near the end, in at most `table_bytes` where one block a head
/// does not take more; the numbers depend on the sizes alone, so the bits do too.
struct TableBlocks {
  unsigned count;       // of a head; 0 without queries
  std::int64_t floats;  // of all
};
constexpr TableBlocks table_blocks(const CudaAttention& a) {
  constexpr std::int64_t kEnough = 1024;
  const AttentionShape& s = a.shape;
  const std::int64_t heads = s.batch * s.heads;
  const std::int64_t bytes = heads * block_distances(s) * 4;
  const std::int64_t room =
      static_cast<std::int64_t>(a.table_bytes) / std::max<std::int64_t>(bytes, 1);
  const std::int64_t wanted = kEnough / std::max<std::int64_t>(heads, 1);
  const std::int64_t most = (tiles_of(s.queries) + 1) / 2;  // a block takes two at a time
  const std::int64_t count = std::min(most, std::max<std::int64_t>(1, std::min(room, wanted)));
  return {static_cast<unsigned>(count), count * heads * block_distances(s)};
}

/// The backward pass in one kernel (one_pass_kernel.cuh): keys of a block, and its shared memory at
/// most, 0 where there is no such form. That of 128 channels, and that of 64 with states (TAPE),
/// fits devices of compute capability 8.0, 8.7 and from 9.0 on, not 8.6 or 8.9. Of 128 channels
/// with states it would take 225 KiB, and 192 numbers of a thread for the sums alone.
inline constexpr int kOnePassKeys = 2 * kRows;
constexpr int one_pass_bytes(std::int64_t padded_dim, bool with_state) {
  if (padded_dim > (with_state ? 64 : 128)) return 0;
  const bool least = padded_dim <= 64 && !with_state;
  return static_cast<int>(least ? kCudaSharedBytes : kCudaLargeSharedBytes);
}
/// Multiprocessors of an H100 and an H200, which blocks fill evenly. On fewer than kLeastBlocks of
/// them the kernels that make dq by itself, which use all, are faster by count, though they compute
/// more: at 64 channels they take 1.21 times as long at most (docs/cuda.md).
inline constexpr std::int64_t kMultiprocessors = 132, kLeastBlocks = 116;

/// How it is launched, and what it has of the workspace behind delta. A unit is a head of keys of a
/// text, with its group of heads.
struct OnePass {
  unsigned units = 0;   // of a launch; 0: dq has a kernel of its own
  unsigned groups = 0;  // blocks of a unit, which share its keys
  // Sums of dq of each query, and of a table's gradient: one a group, or, where atomic, one in all.
  unsigned partials = 0;
  bool atomic = false;
  std::int64_t distances = 0;  // floats of a table's sums: partials times block_distances() a head
  std::int64_t floats = 0;     // of the sums of dq
  std::size_t flags = 0;       // bytes, one a tile of queries of each of these sums
};

/// By the sizes alone, so that the bits follow from them too: sums fit dq_bytes, and those of
/// tables table_bytes (one a head where that is more).
constexpr OnePass one_pass_plan(const CudaAttention& a, bool with_table) {
  const AttentionShape& s = a.shape;
  const std::int64_t heads = s.heads / s.kv_heads, units = s.batch * s.kv_heads;
  const std::int64_t tiles = heads * tiles_of(s.queries);
  const std::int64_t tile_floats = std::int64_t{kRows} * cuda_padded_heads(s).channels;
  // Of one sum of a unit with its flags.
  const std::int64_t bytes = std::max<std::int64_t>(tiles * (tile_floats * 4 + 1), 1);
  const std::int64_t room = static_cast<std::int64_t>(a.dq_bytes) / bytes;
  if (room == 0 || units == 0 || s.queries == 0) return {};
  const std::int64_t launches =
      (units + std::min<std::int64_t>(room, 65535) - 1) / std::min<std::int64_t>(room, 65535);
  const std::int64_t at_once = (units + launches - 1) / launches;
  const std::int64_t blocks = (s.keys + kOnePassKeys - 1) / kOnePassKeys;
  const std::int64_t table_floats = with_table ? s.batch * s.heads * block_distances(s) : 0;
  std::int64_t groups = blocks, partials = 1;
  if (!a.atomic_dq) {
    groups = std::min(blocks, room / at_once);
    if (with_table) {
      const std::int64_t fitting = static_cast<std::int64_t>(a.table_bytes) / (table_floats * 4);
      groups = std::min(groups, std::max<std::int64_t>(1, fitting));
    }
    if (groups < blocks) {
      if (groups * at_once < kLeastBlocks) return {};
      const std::int64_t turns = groups * at_once / kMultiprocessors;
      if (turns > 0) groups = std::max<std::int64_t>(1, turns * kMultiprocessors / at_once);
    }
    partials = groups;
  }
  return {static_cast<unsigned>(at_once),
          static_cast<unsigned>(groups),
          static_cast<unsigned>(partials),
          a.atomic_dq,
          partials * table_floats,
          at_once * partials * tiles * tile_floats,
          a.atomic_dq ? 0 : static_cast<std::size_t>(at_once * partials * tiles)};
}
/// The same where the variant has that form and the current device room for it.
OnePass one_pass(const CudaAttention& a);
/// Floats of the workspace before the sums of dq, which are read by 16 bytes.
constexpr std::int64_t sums_place(const AttentionShape& s, const OnePass& plan) {
  return (delta_size(s) + plan.distances + 3) / 4 * 4;
}

constexpr std::int64_t diagonals_size(const AttentionShape& s) {
  return s.heads * tile_distances(s) * kThreads;
}
constexpr std::int64_t pieces_size(const AttentionShape& s) {
  return s.heads * tile_distances(s) * kMostSegments * 2;
}

/// Diagonals of tile distances, each with sums of its own (SumsByDistance).
constexpr std::int64_t distance_sums(const AttentionShape& s) {
  return s.batch * s.heads * tile_distances(s) * kThreads;
}
constexpr bool wants_content(const BucketProbes& b) {
  return b.count > 0 && (b.content || b.content_square);
}
constexpr bool wants_term(const BucketProbes& b) {
  return b.count > 0 && (b.term || b.term_square);
}

/// The numbers that the documents of a tile's tokens lie between, ends included.
struct DocumentRange {
  std::int32_t least, most;
};
/// Those of every tile of queries, then of keys, to the workspace: (B, tile_distances()).
void launch_documents(const CudaAttention& attention);

using ForwardLauncher = void(const CudaAttention&, const CudaForwardOutputs&);
using BackwardLauncher = void(const CudaAttention&, const SavedForward&, const CudaGradients&);
using SumsLauncher = void(const CudaAttention&, const CudaScoreSums&);
using RegionLauncher = void(const CudaAttention&, const CudaRegion&);
/// Declares those that there are, and others that a score has not (variants/scores.inc). _wide: of
/// heads that cuda_padded_heads() calls wide. hopper_: in Hopper form, without the passes that
/// follow, for what cuda_takes_hopper_form() says; and dq, dk and dv, after delta, for what
/// cuda_takes_hopper_backward() says.
#define PHASESCOPE_SCORE(name, ...)                         \
  ForwardLauncher forward_##name, forward_##name##_wide;    \
  BackwardLauncher backward_##name, backward_##name##_wide; \
  SumsLauncher sums_##name, sums_##name##_wide;             \
  RegionLauncher region_##name, region_##name##_wide;       \
  ForwardLauncher hopper_##name;                            \
  BackwardLauncher hopper_backward_##name;
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE

/// The sums by bucket, from those that launch_distances() left in the workspace.
void launch_buckets(const CudaAttention& attention, const CudaForwardOutputs& outputs);

/// The gates' gradients, and to `memory` (gate_bytes(), on a 16-byte boundary) what comes in for
/// the averaged values: d_out for all other kernels.
InputTensor launch_gates(const CudaAttention& attention, const SavedForward& saved,
                         const CudaGradients& gradients, void* memory);
constexpr std::size_t gate_bytes(const AttentionShape& s) {
  return static_cast<std::size_t>(s.batch * s.heads * s.queries * values_of(s)) * 2;
}

/// Sums by |distance|, (B, heads, length), of those of diagonals (B, heads, tile_distances(),
/// kThreads); and (B, heads) of those of rows (B, heads, queries). `to` null: not wanted.
void join_distances(const CudaAttention& attention, const double* diagonals, double* to,
                    std::int64_t length);
void join_rows(const CudaAttention& attention, const double* rows, double* to);

}  // namespace phasescope::kernels::cuda
