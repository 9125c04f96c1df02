#include <algorithm>

#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// Arrays of floats one after the other, each on a boundary of 256 bytes.
class Arrays {
 public:
  explicit Arrays(void* memory) : memory_(static_cast<float*>(memory)) {}

  float* take(std::int64_t floats) {
    float* array = memory_ ? memory_ + taken_ : nullptr;
    taken_ += (floats + 63) / 64 * 64;
    return array;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(taken_) * sizeof(float); }

 private:
  float* memory_;
  std::int64_t taken_ = 0;
};

/// As many rows as cape_bytes hold, in whole tiles, and one tile at least.
std::int64_t strip_rows(const CudaAttention& a, std::int64_t keys) {
  const AttentionShape& s = a.shape;
  const auto wanted = static_cast<std::int64_t>(a.cape_bytes / sizeof(float));
  const std::int64_t tiles = wanted / (s.heads * keys * kRows);
  return std::clamp<std::int64_t>(tiles, 1, tiles_of(std::max<std::int64_t>(s.queries, 1))) * kRows;
}

}  // namespace

CapeMemory::CapeMemory(const CudaAttention& attention, void* memory, bool backward) {
  const AttentionShape& s = attention.shape;
  const auto& cape = std::get<CapeVariant>(attention.variant);
  Arrays arrays(memory);
  distances = std::max<std::int64_t>(s.query_offset + s.queries, 1);
  keys = std::int64_t{tiles_of(s.keys)} * kRows;
  rows = strip_rows(attention, keys);
  units = (cape.hidden + 3) / 4 * 4;
  tables = arrays.take((cape.hidden + s.heads) * distances);
  scores = arrays.take(s.heads * rows * keys);
  if (backward) {
    const std::int64_t tiles = tile_distances(s), dim = s.head_dim <= 64 ? 64 : 128;
    delta = arrays.take(delta_size(s));
    content = arrays.take(s.heads * rows * keys);
    dk = arrays.take(s.kv_heads * keys * dim);
    dv = arrays.take(s.kv_heads * keys * dim);
    by_distance = arrays.take(tiles * (cape.hidden + s.heads) * kThreads);
    weights = arrays.take(tiles * 2 * s.heads * units);
    joined = arrays.take((cape.hidden + s.heads) * distances);
  }
  bytes = arrays.bytes();
}

}  // namespace phasescope::kernels::cuda
