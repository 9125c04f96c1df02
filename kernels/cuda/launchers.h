#pragma once
// One file a variant instantiates its kernels; and the sizes of launches and of the workspace.

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
constexpr bool wants_top_keys(const RowProbes& r) { return r.top_key || r.top_weight; }
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
ForwardLauncher forward_plain, forward_plain_tokens, forward_table, forward_table_multiplied,
    forward_table_tokens, forward_query_table, forward_clamp, forward_tapa, forward_tape,
    forward_fire, forward_cape;
/// In Hopper form, without the passes that follow: for what cuda_takes_hopper_form() says.
ForwardLauncher hopper_plain, hopper_table, hopper_tapa, hopper_tape;

/// The sums by bucket, from those that launch_distances() left in the workspace.
void launch_buckets(const CudaAttention& attention, const CudaForwardOutputs& outputs);

/// The gates' gradients, and to `memory` (gate_bytes(), on a 16-byte boundary) what comes in for
/// the averaged values: d_out for all other kernels.
InputTensor launch_gates(const CudaAttention& attention, const SavedForward& saved,
                         const CudaGradients& gradients, void* memory);
constexpr std::size_t gate_bytes(const AttentionShape& s) {
  return static_cast<std::size_t>(s.batch * s.heads * s.queries * s.head_dim) * 2;
}

using BackwardLauncher = void(const CudaAttention&, const SavedForward&, const CudaGradients&);
BackwardLauncher backward_plain, backward_plain_tokens, backward_table, backward_table_multiplied,
    backward_table_tokens, backward_query_table, backward_clamp, backward_tapa, backward_tape,
    backward_fire, backward_cape;

using SumsLauncher = void(const CudaAttention&, const CudaScoreSums&);
SumsLauncher sums_plain, sums_plain_tokens, sums_table, sums_table_multiplied, sums_table_tokens,
    sums_query_table, sums_clamp, sums_tapa, sums_fire, sums_cape;

/// Sums by |distance|, (B, heads, length), of those of diagonals (B, heads, tile_distances(),
/// kThreads); and (B, heads) of those of rows (B, heads, queries). `to` null: not wanted.
void join_distances(const CudaAttention& attention, const double* diagonals, double* to,
                    std::int64_t length);
void join_rows(const CudaAttention& attention, const double* rows, double* to);

}  // namespace phasescope::kernels::cuda
