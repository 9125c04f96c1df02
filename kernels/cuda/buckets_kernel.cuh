#pragma once
// Sums over the pairs of a head by distance, after the forward pass and from its log-sum-exp: one
// more q.k product, the same bits every time. This kernel sums over diagonals, a block for each
// tile distance of a head; the one of buckets.cu joins the distances of a bucket.

#include <cuda_runtime.h>

#include <numbers>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/tile_pair.cuh"
#include "kernels/units.h"

namespace phasescope::kernels::cuda {

/// From log2 units in float32: two parts, whose sum is exact to 2^-53.
inline constexpr float kNaturalHigh = kLn2;
inline constexpr auto kNaturalLow = static_cast<float>(std::numbers::ln2 - kLn2);

/// Of scores, content scores or terms of many tiles, in float64: a deviation is what is left of a
/// mean square less a squared mean, and would be lost in float32 where a bias is large beside the
/// spread.
struct Moments {
  double sum = 0, square = 0;

  __device__ void add(const Moments& other) {
    sum += other.sum;
    square += other.square;
  }
};

/// The same of at most a tile's diagonal, in float32 relative to the first of them: all belong to
/// one distance, so what they differ by is as small as their spread, whatever the bias. A device
/// with few float64 units (of compute capability 8.6 and 8.9: one for 64 others) then takes four
/// float64 operations for a diagonal of up to 64 numbers.
struct DiagonalMoments {
  float shift = 0, sum = 0, square = 0;
  std::int32_t count = 0;

  __device__ void add(float x) {
    if (count++ == 0) shift = x;
    const float apart = x - shift;
    sum += apart;
    square = fmaf(apart, apart, square);
  }
  __device__ void add_to(Moments& all) const {
    const double first = shift, n = count, apart = sum;
    all.sum += n * first + apart;
    all.square += static_cast<double>(square) + first * (2 * apart + n * first);
  }
};

/// Of one diagonal of a tile distance; scores in log2 units.
struct DistanceSums {
  Moments score;
  float weight = 0;
  std::int32_t pairs = 0;

  __device__ void add(const DistanceSums& other) {
    score.add(other.score);
    weight += other.weight;
    pairs += other.pairs;
  }
};
static_assert(sizeof(DistanceSums) == 24 && sizeof(Moments) == 16,
              "cuda_bucket_workspace() counts on it");

/// Where they lie in the workspace: (B, heads, tile_distances(), kThreads) each.
struct SumsByDistance {
  DistanceSums* all;
  Moments* term = nullptr;     // score - content score; null where none are wanted
  Moments* content = nullptr;  // likewise; both in natural units

  SumsByDistance(const AttentionShape& shape, const CudaForwardOutputs& outputs)
      : all(static_cast<DistanceSums*>(outputs.workspace)) {
    auto* next = reinterpret_cast<Moments*>(all + distance_sums(shape));
    if (wants_term(outputs.buckets)) {
      term = next;
      next += distance_sums(shape);
    }
    if (wants_content(outputs.buckets)) content = next;
  }
};

template <DeviceScore Score>
struct DistancesLaunch {
  BackwardLaunch<Score> pairs;
  SumsByDistance sums;  // of content scores and terms with products alone
};

template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads, kPairBlocks)
    attention_distances_kernel(const __grid_constant__ DistancesLaunch<Score> launch) {
  const Problem<Score>& problem = launch.pairs.problem;
  TilePair<T, D, false, Score, false> pair(launch.pairs);
  const int batch = batch_of(problem), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const TileDistance tiles(problem.shape, blockIdx.x);
  Visibility visibility(problem, batch);
  const SumsByDistance& to = launch.sums;
  const bool with_content = Score::kProducts && (to.content || to.term);
  DistanceSums sums;
  Moments contents, terms;
  Stretch own{tiles.first(), tiles.last()};
  bool begins = true;
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    own = tiles_of_strip(strip, tiles);
    begins = strip.first == 0 && strip.first_key == 0;
    if (own.first >= own.last && !begins) return;
  }
  for (int turn = own.first * Score::kParts; turn < own.last * Score::kParts; ++turn) {
    const int tile = turn / Score::kParts;
    if constexpr (Score::kParts > 1) {
      pair.take_part(turn % Score::kParts);
      visibility = Visibility(problem, batch, head, pair.part());
    }
    const int query = tile * kRows, key = (tile - tiles.ahead) * kRows;
    if (!visibility.sees(query, key)) continue;
    pair.fetch_queries(batch, head, query);
    pair.fetch_keys(batch, head / pair.group(), key);
    pair.begin(head, query, key);
    pair.store_scores(visibility, query, key, with_content);
    if constexpr (Score::kParts > 1) {
      if (with_content && pair.part() == kFar) pair.store_near_content(head, query, key);
    }
    __syncthreads();
    DiagonalMoments score;
    float weight = 0;
    const auto hidden = [&](int row, float t) {
      return t == -INFINITY || query + row >= pair.queries();
    };
    pair.for_diagonal(thread, [&](int row, float t) {
      if (hidden(row, t)) return;
      weight += fast_exp2(t - pair.lse_of_row(row));
      score.add(t);
    });
    score.add_to(sums.score);
    sums.weight += weight;
    sums.pairs += score.count;
    if (with_content) {
      DiagonalMoments content, term;
      pair.for_diagonal(thread, [&](int row, float t) {
        if (hidden(row, t)) return;
        const float of_content = pair.stored(row, pair.column_on_diagonal(thread, row), 1);
        content.add(of_content);
        term.add(fmaf(t, kNaturalHigh, fmaf(t, kNaturalLow, -of_content)));
      });
      content.add_to(contents);
      term.add_to(terms);
    }
    __syncthreads();
  }
  const std::int64_t at =
      ((batch * problem.shape.heads + head) * gridDim.x + blockIdx.x) * kThreads + thread;
  if (!begins) {
    // After the batch entry's first strip, to what the strips before left.
    sums.add(to.all[at]);
    if (to.content) contents.add(to.content[at]);
    if (to.term) terms.add(to.term[at]);
  }
  to.all[at] = sums;
  if (to.content) to.content[at] = contents;
  if (to.term) to.term[at] = terms;
}

}  // namespace phasescope::kernels::cuda
