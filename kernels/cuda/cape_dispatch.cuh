#pragma once
// What CAPE's two passes launch alike: tables once, then content and network of each strip.

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/cape_kernel.cuh"
#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/dispatch.cuh"

namespace phasescope::kernels::cuda {

inline CapeNetwork cape_network(const CudaAttention& a, const CapeMemory& memory) {
  const auto& cape = std::get<CapeVariant>(a.variant);
  return {cape, cape_layout(cape, a.shape.heads), a.shape.heads, memory.distances, memory.tables};
}

/// Calls call(strip) in order: of each batch entry its rows, at least once where there are none.
template <class Call>
void for_each_strip(const CudaAttention& a, const CapeMemory& memory, const Call& call) {
  for (std::int64_t batch = 0; batch < a.shape.batch; ++batch) {
    std::int64_t first = 0;
    do {
      const std::int64_t last = std::min(first + memory.rows, a.shape.queries);
      call(Strip{memory.scores, batch, first, last, memory.rows, memory.keys});
      first = last;
    } while (first < a.shape.queries);
  }
}

template <int kUnits>
void launch_network(const CudaAttention& a, const CapeLaunch& parameters) {
  using Block = CapeBlock<kUnits>;
  // Whole tiles: rows past the last query are read too, and what they hold must be numbers.
  const unsigned tiles = tiles_of(parameters.content.last - parameters.content.first);
  const unsigned blocks = tiles * (kRows / Block::kQueries) * tiles_of(a.shape.keys);
  launch("cape network", &cape_network_kernel<kUnits>, dim3{blocks, 1, 1}, kThreads,
         Block::bytes(a.shape.heads), a.stream, parameters);
}

/// The strip's scores, of which there are some.
template <typename T, int D>
void launch_scores(const CudaAttention& a, const CapeLaunch& parameters) {
  const Strip& strip = parameters.content;
  const unsigned tiles = tiles_of(strip.last - strip.first) * tiles_of(a.shape.keys);
  launch("cape content", &cape_content_kernel<T, D>,
         dim3{tiles, static_cast<unsigned>(a.shape.heads), 1}, kThreads, 2 * kTileBytes<D>,
         a.stream, parameters);
  if (parameters.network.cape.hidden <= 32) {
    launch_network<32>(a, parameters);
  } else {
    launch_network<64>(a, parameters);
  }
}

}  // namespace phasescope::kernels::cuda
