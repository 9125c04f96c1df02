#pragma once
// From run-time values to the instantiations of a score, for every pass.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/backward_kernel.cuh"
#include "kernels/cuda/backward_problem.cuh"
#include "kernels/cuda/buckets_kernel.cuh"
#include "kernels/cuda/forward_kernel.cuh"
#include "kernels/cuda/one_pass_kernel.cuh"
#include "kernels/cuda/problem_of.cuh"
#include "kernels/cuda/region_kernel.cuh"
#include "kernels/cuda/score_sums_kernel.cuh"
#include "kernels/cuda/top_keys_kernel.cuh"

namespace phasescope::kernels::cuda {

/// Pairs of tiles whose scores alone are computed again.
template <DeviceScore Score>
BackwardLaunch<Score> pairs_of(const Problem<Score>& problem, const CudaForwardOutputs& outputs) {
  BackwardLaunch<Score> pairs{problem, {}, {}, nullptr, nullptr, nullptr, nullptr};
  pairs.saved.lse = outputs.lse;
  return pairs;
}

/// A problem of stored scores, whose products are to be computed beside them.
inline Problem<StoredScoreWithContent> with_content(const CudaAttention& a,
                                                    const Problem<StoredScore>& problem) {
  return problem_of(a, StoredScoreWithContent{problem.score, a.scale});
}

/// The sums by distance take two launches: this one by diagonals, launch_buckets() of those.
template <typename T, int D, DeviceScore Score>
void launch_distances(const CudaAttention& a, const CudaForwardOutputs& outputs,
                      const Problem<Score>& problem, unsigned batch) {
  const bool content = wants_content(outputs.buckets) || wants_term(outputs.buckets);
  if constexpr (!Score::kProducts) {
    if (content) {
      launch_distances<T, D>(a, outputs, with_content(a, problem), batch);
      return;
    }
  }
  using Layout = PairLayout<D, Score, false>;
  const int bytes = Layout::kBytesWithPairs + (content ? Layout::kPairBytes : 0);
  const unsigned heads = static_cast<unsigned>(a.shape.heads);
  launch("distances", &attention_distances_kernel<T, D, Score>,
         dim3{tile_distances(a.shape), heads, batch}, kThreads, bytes, a.stream,
         DistancesLaunch<Score>{pairs_of(problem, outputs), SumsByDistance(a.shape, outputs)});
}

template <typename T, int D, DeviceScore Score>
void launch_top_keys(const CudaAttention& a, const ForwardLaunch<Score>& parameters,
                     const dim3& grid) {
  const RowProbes& rows = parameters.outputs.rows;
  const int bytes =
      PairLayout<D, Score, false>::kBytesWithPairs + LargestOfRow::bytes(rows.top_count);
  launch("top keys", &attention_top_keys_kernel<T, D, Score>, grid, kThreads, bytes, a.stream,
         TopKeysLaunch<Score>{pairs_of(parameters.problem, parameters.outputs), rows,
                              parameters.kept});
}

/// The forward pass with its row probes but for the largest weights; grid.x tiles of queries.
template <typename T, int D, int kValueDim = D, DeviceScore Score>
void launch_forward(const CudaAttention& a, const ForwardLaunch<Score>& parameters,
                    const dim3& grid) {
  const auto start = [&](auto probes) {
    using Probes = decltype(probes);
    constexpr unsigned kTiles = kForwardBands<kValueDim, Score>;
    constexpr int kBytes = ForwardLayout<D, Score, static_cast<int>(kTiles), kValueDim>::kBytes;
    static_assert(kBytes <= kCudaSharedBytes);
    launch("forward", &attention_forward_kernel<T, D, Probes, Score, kValueDim>,
           dim3{(grid.x + kTiles - 1) / kTiles, grid.y, grid.z}, kThreads, kBytes, a.stream,
           parameters);
  };
  if (wants_row_probes(parameters.outputs.rows)) {
    start(AllProbes{});
  } else {
    start(NoProbes{});
  }
}

/// in_hopper_form: of the same score, where there is that form of its forward pass.
template <class Heads = UsualHeads, DeviceScore Score>
void forward_with(const CudaAttention& a, const CudaForwardOutputs& outputs, const Score& score,
                  ForwardLauncher* in_hopper_form = nullptr) {
  const ForwardLaunch<Score> parameters{problem_of(a, score), outputs};
  const dim3 grid{tiles_of(a.shape.queries), static_cast<unsigned>(a.shape.heads),
                  static_cast<unsigned>(a.shape.batch)};
  with_type_and_dim<Heads>(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    if (in_hopper_form != nullptr && cuda_takes_hopper_form(a)) {
      in_hopper_form(a, outputs);
    } else {
      launch_forward<T, kDim, decltype(dim)::values>(a, parameters, grid);
    }
    if (wants_top_keys(outputs.rows)) launch_top_keys<T, kDim>(a, parameters, grid);
    if (!wants_buckets(outputs.buckets)) return;
    launch_distances<T, kDim>(a, outputs, parameters.problem, grid.z);
    launch_buckets(a, outputs);
  });
}

/// Where sums of scores lie in their workspace.
struct SumsMemory {
  double *diagonals, *squares;

  SumsMemory(const AttentionShape& shape, const CudaScoreSums& sums)
      : diagonals(static_cast<double*>(sums.workspace)),
        squares(diagonals + (sums.distance ? distance_sums(shape) : 0)) {}
};

/// Sums by row and by key, and by diagonal and the rows' squares to memory; of a strip where scores
/// are stored.
template <typename T, int D, DeviceScore Score>
void launch_sums(const CudaAttention& a, const CudaScoreSums& sums, const Problem<Score>& problem,
                 unsigned batch) {
  const SumsMemory memory(a.shape, sums);
  unsigned rows = tiles_of(a.shape.queries), keys = tiles_of(a.shape.keys);
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    rows = tiles_of(strip.last - strip.first), keys = tiles_of(strip.last_key - strip.first_key);
  }
  const auto sum = [&](const char* name, SumsBy by, unsigned blocks, double* to,
                       double* squares = nullptr, std::int64_t* count = nullptr) {
    if (blocks == 0 || !(to || squares || count)) return;
    launch(name, &attention_sums_kernel<T, D, Score, false>,
           dim3{blocks, static_cast<unsigned>(a.shape.heads), batch}, kThreads,
           SumsLayout<D, Score, false>::kBytes, a.stream,
           SumsLaunch<Score>{pairs_of(problem, {}), by, to, sums.shift, squares, count});
  };
  sum("row sums", SumsBy::row, rows, sums.row, sums.square ? memory.squares : nullptr, sums.pairs);
  sum("key sums", SumsBy::key, keys, sums.column);
  sum("distance sums", SumsBy::distance, tile_distances(a.shape),
      sums.distance ? memory.diagonals : nullptr);
}
inline void join_sums(const CudaAttention& a, const CudaScoreSums& sums) {
  const SumsMemory memory(a.shape, sums);
  join_distances(a, memory.diagonals, sums.distance, sums.length);
  join_rows(a, memory.squares, sums.square);
}

template <class Heads = UsualHeads, DeviceScore Score>
void sums_with(const CudaAttention& a, const CudaScoreSums& sums, const Score& score) {
  with_type_and_dim<Heads>(a, [&](auto type, auto dim) {
    launch_sums<decltype(type), decltype(dim)::value>(a, sums, problem_of(a, score),
                                                      static_cast<unsigned>(a.shape.batch));
  });
  join_sums(a, sums);
}

/// Scores and weights of a region, of which a strip has these rows and keys where scores are
/// stored.
template <typename T, int D, DeviceScore Score>
void launch_region(const CudaAttention& a, const CudaRegion& wanted,
                   const Problem<Score>& problem) {
  const Region& region = wanted.region;
  BackwardLaunch<Score> pairs = pairs_of(problem, {});
  pairs.saved.lse = wanted.lse;
  Stretch queries{static_cast<int>(region.row_begin / kRows),
                  static_cast<int>(tiles_of(region.row_end))};
  Stretch keys{static_cast<int>(region.col_begin / kRows),
               static_cast<int>(tiles_of(region.col_end))};
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    queries = {std::max(queries.first, static_cast<int>(strip.first / kRows)),
               std::min(queries.last, static_cast<int>(tiles_of(strip.last)))};
    keys = {std::max(keys.first, static_cast<int>(strip.first_key / kRows)),
            std::min(keys.last, static_cast<int>(tiles_of(strip.last_key)))};
  }
  if (queries.first >= queries.last || keys.first >= keys.last) return;
  const auto blocks = static_cast<unsigned>((queries.last - queries.first) *
                                            static_cast<std::int64_t>(keys.last - keys.first));
  launch("region", &attention_region_kernel<T, D, Score>,
         dim3{blocks, static_cast<unsigned>(region.head_count), 1}, kThreads,
         PairLayout<D, Score, false>::kBytes, a.stream,
         RegionLaunch<Score>{pairs, region, wanted.scores, wanted.weights, keys, queries.first});
}

template <class Heads = UsualHeads, DeviceScore Score>
void region_with(const CudaAttention& a, const CudaRegion& region, const Score& score) {
  with_type_and_dim<Heads>(a, [&](auto type, auto dim) {
    launch_region<decltype(type), decltype(dim)::value>(a, region, problem_of(a, score));
  });
}

template <typename T>
void launch_delta(const CudaAttention& a, const DeviceSaved& saved, int state_dim, float* delta) {
  const std::int64_t blocks = (delta_size(a.shape) + 3) / 4;
  launch("delta", &attention_delta_kernel<T>, dim3{static_cast<unsigned>(blocks), 1, 1}, kThreads,
         0, a.stream, DeltaLaunch<T>{a.shape, state_dim, saved, delta});
}

/// delta: of all rows. `to` null: not wanted.
inline void launch_sinks(const CudaAttention& a, const SavedForward& saved, const float* delta,
                         float* to) {
  if (!to) return;
  launch("sinks", &attention_sinks_kernel,
         dim3{static_cast<unsigned>((a.shape.heads + 3) / 4), 1, 1}, kThreads, 0, a.stream,
         SinksLaunch{a.shape, a.sinks, saved.lse, delta, to});
}

/// Sums of the scores' gradients over diagonals, of a strip where scores are stored.
template <typename T, int D, int kValueDim = D, DeviceScore Score>
void launch_gradient_sums(const CudaAttention& a, const CudaGradients& gradients,
                          const BackwardLaunch<Score>& pairs, unsigned batch) {
  if (!gradients.scores.by_distance || gradients.scores.length == 0) return;
  launch("gradient sums", &attention_sums_kernel<T, D, Score, true, kValueDim>,
         dim3{tile_distances(a.shape), static_cast<unsigned>(a.shape.heads), batch}, kThreads,
         SumsLayout<D, Score, true, kValueDim>::kBytes, a.stream,
         SumsLaunch<Score>{pairs, SumsBy::distance,
                           static_cast<double*>(gradients.distance_workspace)});
}
/// By distance, of what these have left.
inline void join_gradient_sums(const CudaAttention& a, const CudaGradients& gradients) {
  join_distances(a, static_cast<const double*>(gradients.distance_workspace),
                 gradients.scores.by_distance, gradients.scores.length);
}

/// dq of all queries.
template <typename T, int D, int kValueDim, DeviceScore Score>
void launch_dq(const CudaAttention& a, const BackwardLaunch<Score>& parameters) {
  constexpr unsigned kTiles = kQueryBands<D, Score>;
  using Layout = PairLayout<D, Score, true, kTiles, kPairStages<D, Score>, 1, kValueDim>;
  static_assert(D <= 128 || Layout::kBytes <= CudaHeads{D, kValueDim}.shared_bytes(true));
  launch("dq", &attention_dq_kernel<T, D, Score, kValueDim>,
         dim3{(tiles_of(a.shape.queries) + kTiles - 1) / kTiles,
              static_cast<unsigned>(a.shape.heads), static_cast<unsigned>(a.shape.batch)},
         kThreads, Layout::kBytes, a.stream, parameters);
}

/// dk and dv of all keys, by themselves.
template <typename T, int D, int kValueDim, DeviceScore Score>
void launch_dkv(const CudaAttention& a, const BackwardLaunch<Score>& parameters) {
  constexpr bool kHalves = kKeyBands<D, Score> == 2;
  using Layout = PairLayout<D, Score, true, 1, kHalves ? kPairStages<D, Score> : 1, 1, kValueDim>;
  launch("dkv", &attention_dkv_kernel<T, D, Score, kValueDim>,
         dim3{tiles_of(a.shape.keys), static_cast<unsigned>(a.shape.kv_heads),
              static_cast<unsigned>(a.shape.batch)},
         kThreads, kHalves ? Layout::kBytesWithOperands : Layout::kBytes, a.stream, parameters);
}

/// dq, dk and dv in one pass, where one_pass() says so; else false, and nothing is launched.
template <typename T, int D, DeviceScore Score>
bool launch_in_one_pass(const CudaAttention& a, const CudaGradients& gradients,
                        const BackwardLaunch<Score>& parameters) {
  if constexpr (kHasOnePass<D, Score>) {
    const OnePass plan = one_pass(a);
    if (plan.units == 0) return false;
    launch_one_pass<T, D>(a, plan, for_one_pass(a, gradients, parameters));
    return true;
  } else {
    return false;
  }
}

/// `dq` launches what makes it by itself, and `finish` is called once dq, dk and dv are launched:
/// both like with_type_and_dim's, with the parameters too. in_hopper_form: of the same score, where
/// there is that form of the pass in one kernel.
template <class Heads = UsualHeads, DeviceScore Score, class Dq, class Finish>
void backward_with(const CudaAttention& a, const SavedForward& saved,
                   const CudaGradients& gradients, const Score& score, const Dq& dq,
                   const Finish& finish, BackwardLauncher* in_hopper_form = nullptr) {
  const BackwardLaunch<Score> parameters = backward_launch_of(a, saved, gradients, score);
  float* const delta = parameters.delta;
  const unsigned batch = static_cast<unsigned>(a.shape.batch);
  with_type_and_dim<Heads>(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value, kValues = decltype(dim)::values;
    if (a.shape.queries > 0) {
      launch_delta<T>(a, parameters.saved, static_cast<int>(parameters.problem.state_dim), delta);
    }
    if (in_hopper_form != nullptr && cuda_takes_hopper_backward(a, saved)) {
      in_hopper_form(a, saved, gradients);
    } else if (!launch_in_one_pass<T, kDim>(a, gradients, parameters)) {
      if (a.shape.queries > 0) dq(type, dim, parameters);
      launch_dkv<T, kDim, kValues>(a, parameters);
    }
    launch_sinks(a, saved, delta, gradients.sinks);
    finish(type, dim, parameters);
    launch_gradient_sums<T, kDim, kValues>(a, gradients, parameters, batch);
  });
  join_gradient_sums(a, gradients);
}

template <class Heads = UsualHeads, DeviceScore Score, class Finish>
void backward_with(const CudaAttention& a, const SavedForward& saved,
                   const CudaGradients& gradients, const Score& score, const Finish& finish,
                   BackwardLauncher* in_hopper_form = nullptr) {
  const auto dq = [&a](auto type, auto dim, const auto& parameters) {
    using Size = decltype(dim);
    launch_dq<decltype(type), Size::value, Size::values>(a, parameters);
  };
  backward_with<Heads>(a, saved, gradients, score, dq, finish, in_hopper_form);
}
template <class Heads = UsualHeads, DeviceScore Score>
void backward_with(const CudaAttention& a, const SavedForward& saved,
                   const CudaGradients& gradients, const Score& score,
                   BackwardLauncher* in_hopper_form = nullptr) {
  backward_with<Heads>(
      a, saved, gradients, score, [](auto, auto, const auto&) {}, in_hopper_form);
}

}  // namespace phasescope::kernels::cuda
