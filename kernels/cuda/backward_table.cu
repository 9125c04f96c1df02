#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// The table's gradient, in two launches.
template <typename T, int D>
void launch_table(const CudaAttention& a, const BackwardLaunch<TableScore>& parameters) {
  const unsigned heads = static_cast<unsigned>(a.shape.heads);
  launch(&attention_diagonals_kernel<T, D, TableScore>, dim3{tile_distances(a.shape), heads, 1},
         kThreads, PairLayout<D, TableScore>::kBytesWithPairs, a.stream, parameters);
  const auto& table = std::get<TableVariant>(a.variant);
  const CudaGradients& to = parameters.gradients;
  launch(&attention_table_kernel, dim3{blocks_of(table.length), heads, 1}, kThreads, 0, a.stream,
         TableLaunch{a.shape, table, parameters.diagonals, to.d_table, to.d_table_stride});
}

}  // namespace

void backward_table(const CudaAttention& attention, const CudaSavedForward& saved,
                    const CudaGradients& gradients) {
  const auto& table = std::get<TableVariant>(attention.variant);
  backward_with(attention, saved, gradients, TableScore{{.scale = attention.scale}, table},
                [&](auto type, auto dim, const auto& parameters) {
                  if (!gradients.d_table) return;
                  launch_table<decltype(type), decltype(dim)::value>(attention, parameters);
                });
}

}  // namespace phasescope::kernels::cuda
