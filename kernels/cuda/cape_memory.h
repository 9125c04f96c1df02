#pragma once
// The device memory of CAPE's passes: scores of all heads exist for one strip of query rows and
// keys at a time, as large as CudaAttention::cape_bytes let it be.

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

/// Where numbers lie in the arrays of CAPE's gradients, which a block has in shared memory and its
/// slot after it, counted in floats: of one of 32 pairs in a row of kPairRow; of a weight in
/// (heads, units); of a diagonal in a row of kThreads; of a row's segment, two numbers. Segments'
/// rows have room for one more, so that the same segment of all rows is not in one bank.
constexpr int cape_pair(int row, int pair) { return row * kPairRow + pair; }
constexpr int cape_weight(int head, int unit, int units) { return head * units + unit; }
constexpr int cape_diagonal(int row, int diagonal) { return row * kThreads + diagonal; }
constexpr std::int64_t cape_piece(std::int64_t row, std::int64_t segment) {
  return (row * (kMostSegments + 1) + segment) * 2;
}

/// What the network's backward pass leaves for a pair of tiles, one after the other: floats of sums
/// over all its pairs, by diagonal and by query.
struct CapeSlot {
  std::int64_t totals = 0;  ///< d w1_A and d w2: (2, heads, units); over FIRE then CapeFireSums'
  /// d hidden and d score, (hidden + heads, kThreads); over FIRE of the distances, (kThreads).
  std::int64_t by_diagonal = 0;
  std::int64_t by_query = 0;  ///< over FIRE alone, of the factors: (kRows)

  constexpr std::int64_t floats() const { return (totals + by_diagonal + by_query + 63) / 64 * 64; }
};

/// Products that the weights are second operands of: from rows to columns. The first two are the
/// network, the others its gradients.
enum CapeProduct { kHeadsToUnits, kUnitsToHeads, kScoresToUnits, kUnitsToContents };
inline constexpr unsigned kCapeProducts = 4;

/// Two weights that a lane has of eight heads and eight hidden units, each in two parts
/// (Tf32Parts): of CapeColumns' columns 2t and 2t + 1 to column g.
struct alignas(16) CapeWeights {
  std::uint32_t high[2], low[2];
};

/// Sizes of arrays, and where they lie in the memory given.
struct CapeMemory {
  /// memory null: the sizes alone. Throws nothing; the problem has been checked.
  CapeMemory(const CudaAttention& attention, void* memory, bool backward);

  std::int64_t distances = 0;  ///< lambda from 0 on: every one in use
  std::int64_t rows = 0;       ///< of a strip: whole tiles
  std::int64_t keys = 0;       ///< likewise
  std::int64_t units = 0;      ///< cuda_cape_units()
  /// Whose strips follow each other in `scores` (and `content`): more than one where they are
  /// whole.
  std::int64_t texts = 1;
  CapeSlot slot;

  float* tables = nullptr;       ///< CapeNetwork::tables
  CapeWeights* split = nullptr;  ///< CapeNetwork::split
  float* scores = nullptr;       ///< (texts, heads, rows, keys)
  // Where keys come in several strips.
  float* kept = nullptr;  ///< (heads, rows in tiles, kept_floats())
  float* dq = nullptr;    ///< (heads, rows, head_dim in whole tiles)
  // Backward alone.
  float* delta = nullptr;    ///< (B, heads, queries)
  float* content = nullptr;  ///< (texts, heads, rows, keys)
  float* dk = nullptr;       ///< (kv_heads, keys, head_dim in whole tiles)
  float* dv = nullptr;       ///< like dk
  float* slots = nullptr;    ///< (texts, rows in tiles, keys in tiles, slot.floats())
  float* joined = nullptr;   ///< (hidden + heads, distances); not over FIRE
  // Sums over strips, one after the other.
  double* totals = nullptr;      ///< (slot.totals)
  double* by_query = nullptr;    ///< (queries), where a slot has them
  float* by_distance = nullptr;  ///< (tile distances, slot.by_diagonal)
  std::int64_t sum_floats = 0;   ///< from `totals` on
  std::size_t bytes = 0;

 private:
  void divide(const CudaAttention& attention, std::int64_t taken, bool backward);
};

}  // namespace phasescope::kernels::cuda
