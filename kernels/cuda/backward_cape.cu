#include "kernels/cuda/cape_dispatch.cuh"
#include "kernels/cuda/cape_sums.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// The sums of strips, with those of all keys.
void launch_gather(const CudaAttention& a, const CapeGradientLaunch& parameters,
                   std::int64_t tile_distances) {
  const CapeSlot& slot = parameters.memory.slot;
  const std::int64_t sums = std::max(
      {slot.totals, tile_distances * slot.by_diagonal, slot.by_query > 0 ? a.shape.queries : 0});
  launch("cape gather", &cape_gather_kernel, dim3{blocks_of(sums), 3, 1}, kThreads, 0, a.stream,
         parameters);
}

/// What texts' strips add to the gradients; alone, of no rows, they end dk and dv.
template <typename T, int D>
void launch_strip(const CudaAttention& a, const CudaGradients& gradients,
                  const CapeGradientLaunch& parameters, bool with_dq) {
  const Strip& strip = parameters.content;
  const CapeLaunch scores{parameters.pairs.problem, strip, parameters.network, a.scale};
  const unsigned heads = static_cast<unsigned>(a.shape.heads);
  const unsigned texts = parameters.texts;
  const dim3 keys{tiles_of(strip.last_key - strip.first_key),
                  static_cast<unsigned>(a.shape.kv_heads), texts};
  const dim3 queries{tiles_of(strip.last - strip.first), heads, texts};
  const bool with_sums = parameters.with_sums;
  if (queries.x > 0) launch_scores<T, D>(a, scores, texts);
  if (with_sums) launch_gradient_sums<T, D>(a, gradients, parameters.pairs, texts);
  launch("cape dv", &cape_dv_kernel<T, D>, keys, kThreads, PairLayout<D, StoredScore>::kBytes,
         a.stream, parameters);
  if (queries.x > 0) {
    launch("cape gradients",
           is_on_fire(parameters.network.cape) ? &cape_gradients_kernel<true>
                                               : &cape_gradients_kernel<false>,
           dim3{queries.x * keys.x, 1, texts}, kThreads,
           static_cast<int>(cuda_cape_bytes(a.shape.heads, parameters.network.cape.hidden)),
           a.stream, parameters);
    if (with_sums) launch_gather(a, parameters, queries.x + keys.x - 1);
  }
  if (queries.x > 0 && with_dq) {
    launch("cape dq", &cape_dq_kernel<T, D>, queries, kThreads, kTileBytes<D>, a.stream,
           parameters);
  }
  if (with_sums) {
    launch("cape dk", &cape_dk_kernel<T, D>, keys, kThreads, kTileBytes<D>, a.stream, parameters);
  }
}

void launch_joins(const CudaAttention& a, const CapeJoinLaunch& parameters) {
  const CapeNetwork& net = parameters.network;
  const unsigned heads = static_cast<unsigned>(net.heads);
  const std::int64_t hidden = net.cape.hidden;
  const bool on_fire = is_on_fire(net.cape);
  if (on_fire) {
    const std::int64_t entries =
        std::max({net.fire.length, a.shape.queries, net.heads * net.fire.segments});
    launch("cape fire", &cape_fire_kernel, dim3{blocks_of(entries), 3, 1}, kThreads, 0, a.stream,
           parameters);
  } else {
    launch("cape join", &cape_join_kernel,
           dim3{blocks_of(net.distances), static_cast<unsigned>(hidden) + heads, 1}, kThreads, 0,
           a.stream, parameters);
  }
  if (!on_fire && parameters.to.values && net.cape.length > 0) {
    launch("cape values", &cape_values_kernel, dim3{blocks_of(net.cape.length), heads, 1}, kThreads,
           0, a.stream, parameters);
  }
  const std::int64_t numbers = hidden * std::max(net.layout.width, net.heads);
  launch("cape weights", on_fire ? &cape_weights_kernel<true> : &cape_weights_kernel<false>,
         dim3{static_cast<unsigned>(numbers), 4, 1}, kThreads, kThreads * 8, a.stream, parameters);
}

}  // namespace

void backward_cape(const CudaAttention& a, const SavedForward& saved,
                   const CudaGradients& gradients) {
  const CapeMemory memory(a, gradients.workspace, true);
  const CapeNetwork network = cape_network(a, memory);
  launch_cape_tables(a, network);
  launch("cape clear", &cape_clear_kernel, dim3{blocks_of(memory.sum_floats), 1, 1}, kThreads, 0,
         a.stream, CapeClearLaunch{reinterpret_cast<float*>(memory.totals), memory.sum_floats});
  const std::vector<Range> all_rows = row_ranges(a, memory), all_keys = key_ranges(a, memory);
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    const auto take = [&](const Range& texts, const Range& rows, const Range& keys, bool with_sums,
                          bool with_dq) {
      const Strip strip = strip_of(a, memory, texts, rows, keys);
      Strip content = strip;
      content.data = memory.content;
      const BackwardLaunch<StoredScore> pairs{problem_of(a, StoredScore{.strip = strip}),
                                              device_saved(saved, gradients),
                                              device_gradients(gradients),
                                              memory.delta,
                                              nullptr,
                                              nullptr,
                                              nullptr};
      launch_strip<T, decltype(dim)::value>(
          a, gradients, {pairs, content, network, memory, a.scale, with_sums, count_of(texts)},
          with_dq);
    };
    if (a.shape.queries > 0) launch_delta<T>(a, device_saved(saved, gradients), 0, memory.delta);
    launch_sinks(a, saved, memory.delta, gradients.sinks);
    const bool at_once = all_keys.size() == 1;
    for (const Range& texts : text_ranges(a, memory)) {
      for (const Range& keys : all_keys) {
        for (const Range& rows : all_rows) take(texts, rows, keys, true, at_once);
      }
      if (at_once || a.shape.queries == 0) continue;
      for (const Range& rows : all_rows) {
        for (const Range& keys : all_keys) take(texts, rows, keys, false, true);
      }
    }
  });
  join_gradient_sums(a, gradients);
  const auto* wanted = std::get_if<CapeGradients>(&gradients.variant);
  launch_joins(a, {a.shape, network, memory, wanted ? *wanted : CapeGradients{}});
}

}  // namespace phasescope::kernels::cuda
