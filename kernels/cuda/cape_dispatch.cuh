#pragma once
// What CAPE's two passes launch alike: tables once, then content and network of each strip.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/cape_kernel.cuh"
#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/dispatch.cuh"

namespace phasescope::kernels::cuda {

inline CapeNetwork cape_network(const CudaAttention& a, const CapeMemory& memory) {
  const auto& cape = std::get<CapeVariant>(a.variant);
  return {cape,
          cape_layout(cape, a.shape.heads),
          cape.fire.value_or(FireVariant{}),
          a.shape.heads,
          a.shape.queries,
          memory.distances,
          memory.tables,
          memory.split};
}

/// From first to last - 1, in order; one of none where there are none.
struct Range {
  std::int64_t first, last;
};
inline std::vector<Range> ranges(std::int64_t count, std::int64_t step) {
  std::vector<Range> result{{0, std::min(step, count)}};
  while (result.back().last < count) {
    const std::int64_t first = result.back().last;
    result.push_back({first, std::min(first + step, count)});
  }
  return result;
}
inline std::vector<Range> row_ranges(const CudaAttention& a, const CapeMemory& memory) {
  return ranges(a.shape.queries, memory.rows);
}
inline std::vector<Range> key_ranges(const CudaAttention& a, const CapeMemory& memory) {
  return ranges(a.shape.keys, memory.keys);
}
/// Texts whose strips a launch has at once.
inline std::vector<Range> text_ranges(const CudaAttention& a, const CapeMemory& memory) {
  if (a.shape.batch == 0) return {};
  return ranges(a.shape.batch, memory.texts);
}
/// Of the texts, the first one's.
inline Strip strip_of(const CudaAttention& a, const CapeMemory& memory, const Range& texts,
                      const Range& rows, const Range& keys) {
  return {memory.scores, texts.first, rows.first,
          rows.last,     keys.first,  keys.last,
          memory.rows,   memory.keys, static_cast<unsigned>(a.shape.heads)};
}
inline unsigned count_of(const Range& range) {
  return static_cast<unsigned>(range.last - range.first);
}

template <int kUnits, bool kFire>
void launch_network(const CudaAttention& a, const CapeLaunch& parameters, unsigned texts) {
  const Strip& strip = parameters.content;
  // Whole tiles: rows past the last query are read too, and what they hold must be numbers.
  const unsigned tiles = tiles_of(strip.last - strip.first);
  const unsigned blocks =
      tiles * (kRows / kCapeQueries) * tiles_of(strip.last_key - strip.first_key);
  launch("cape network", &cape_network_kernel<kUnits, kFire>, dim3{blocks, 1, texts}, kThreads, 0,
         a.stream, parameters);
}

/// The scores of so many texts' strips.
template <typename T, int D>
void launch_scores(const CudaAttention& a, const CapeLaunch& parameters, unsigned texts) {
  const Strip& strip = parameters.content;
  const unsigned tiles =
      tiles_of(strip.last - strip.first) * tiles_of(strip.last_key - strip.first_key);
  launch("cape content", &cape_content_kernel<T, D>,
         dim3{tiles, static_cast<unsigned>(a.shape.heads), texts}, kThreads, 2 * kTileBytes<D>,
         a.stream, parameters);
  const bool few = parameters.network.cape.hidden <= 32;
  if (is_on_fire(parameters.network.cape)) {
    (few ? &launch_network<32, true> : &launch_network<64, true>)(a, parameters, texts);
  } else {
    (few ? &launch_network<32, false> : &launch_network<64, false>)(a, parameters, texts);
  }
}

}  // namespace phasescope::kernels::cuda
