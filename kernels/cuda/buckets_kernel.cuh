#pragma once
// Sums over the pairs of a head by distance, after the forward pass and from its log-sum-exp: one
// more q.k product, the same bits every time. This kernel sums over diagonals, a block for each
// tile distance of a head; the one of buckets.cu joins the distances of a bucket.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

/// From log2 units.
inline constexpr double kNatural = 0.693147180559945309;

/// Of one diagonal of a tile distance; scores in log2 units.
struct DistanceSums {
  float weight = 0, score = 0, square = 0;
  std::int32_t pairs = 0;

  __device__ void add(const DistanceSums& other) {
    *this = {weight + other.weight, score + other.score, square + other.square,
             pairs + other.pairs};
  }
};
/// The same of the content score, in natural units.
struct ContentSums {
  float content = 0, square = 0;

  __device__ void add(const ContentSums& other) {
    *this = {content + other.content, square + other.square};
  }
};
/// The same of score - content score: in float64, as the deviation of a term that the distance
/// alone decides would be lost in float32.
struct TermSums {
  double term = 0, square = 0;

  __device__ void add(const TermSums& other) { *this = {term + other.term, square + other.square}; }
};
static_assert(sizeof(DistanceSums) == 16 && sizeof(ContentSums) == 8 && sizeof(TermSums) == 16,
              "cuda_bucket_workspace() counts on it");

/// Where they lie in the workspace: (B, heads, tile_distances(), kThreads) each.
struct SumsByDistance {
  DistanceSums* all;
  TermSums* term = nullptr;        // null where none are wanted
  ContentSums* content = nullptr;  // likewise

  SumsByDistance(const AttentionShape& shape, const CudaForwardOutputs& outputs)
      : all(static_cast<DistanceSums*>(outputs.workspace)) {
    void* next = all + distance_sums(shape);
    if (wants_term(outputs.buckets)) {
      term = static_cast<TermSums*>(next);
      next = term + distance_sums(shape);
    }
    if (wants_content(outputs.buckets)) content = static_cast<ContentSums*>(next);
  }
};

template <DeviceScore Score>
struct DistancesLaunch {
  BackwardLaunch<Score> pairs;
  SumsByDistance sums;  // of content scores and terms with products alone
};

template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_distances_kernel(const __grid_constant__ DistancesLaunch<Score> launch) {
  const Problem<Score>& problem = launch.pairs.problem;
  TilePair<T, D, false, Score, false> pair(launch.pairs);
  const int batch = batch_of(problem), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const TileDistance tiles(problem.shape, blockIdx.x);
  const Visibility visibility(problem, batch);
  const SumsByDistance& to = launch.sums;
  const bool with_content = Score::kProducts && (to.content || to.term);
  DistanceSums sums;
  ContentSums contents;
  TermSums terms;
  Stretch own{tiles.first(), tiles.last()};
  bool begins = true;
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    own = tiles_of_strip(strip, tiles);
    begins = strip.first == 0 && strip.first_key == 0;
    if (own.first >= own.last && !begins) return;
  }
  for (int tile = own.first; tile < own.last; ++tile) {
    const int query = tile * kRows, key = (tile - tiles.ahead) * kRows;
    if (!visibility.sees(query, key)) continue;
    pair.fetch_queries(batch, head, query);
    pair.fetch_keys(batch, head / pair.group(), key);
    pair.begin(head, query, key);
    pair.store_scores(visibility, query, key, with_content);
    __syncthreads();
    DistanceSums part;
    ContentSums part_of_content;
    TermSums part_of_term;
    const auto hidden = [&](int row, float t) {
      return t == -INFINITY || query + row >= pair.queries();
    };
    pair.for_diagonal(thread, [&](int row, float t) {
      if (hidden(row, t)) return;
      part.weight += fast_exp2(t - pair.lse_of_row(row));
      part.score += t;
      part.square += t * t;
      ++part.pairs;
    });
    if (with_content) {
      pair.for_diagonal(thread, [&](int row, float t) {
        if (hidden(row, t)) return;
        const float content = pair.stored(row, pair.column_on_diagonal(thread, row), 1);
        part_of_content.content += content;
        part_of_content.square += content * content;
        if (!to.term) return;
        const double term = static_cast<double>(t) * kNatural - static_cast<double>(content);
        part_of_term.term += term;
        part_of_term.square += term * term;
      });
    }
    sums.add(part);
    contents.add(part_of_content);
    terms.add(part_of_term);
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
