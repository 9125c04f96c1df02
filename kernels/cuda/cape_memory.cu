#include <algorithm>

#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/launchers.h"
#include "kernels/variants/cape_tables.h"

namespace phasescope::kernels::cuda {
namespace {

/// Arrays one after the other, each on a boundary of 256 bytes.
class Arrays {
 public:
  explicit Arrays(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <typename T = float>
  T* take(std::int64_t count) {
    char* array = memory_ ? memory_ + taken_ : nullptr;
    taken_ += (count * static_cast<std::int64_t>(sizeof(T)) + 255) / 256 * 256;
    return reinterpret_cast<T*>(array);
  }
  std::int64_t bytes() const { return taken_; }

 private:
  char* memory_;
  std::int64_t taken_ = 0;
};

/// Of one launch, whose grid.z they are.
constexpr std::int64_t kMostTexts = 65535;

std::int64_t padded_dim(const AttentionShape& s) { return s.head_dim <= 64 ? 64 : 128; }

/// Bytes of a strip: of each pair of tiles, and of each tile of queries and of keys.
struct StripCost {
  std::int64_t pair, queries, keys;
};

}  // namespace

CapeMemory::CapeMemory(const CudaAttention& attention, void* memory, bool backward) {
  const AttentionShape& s = attention.shape;
  const auto& cape = std::get<CapeVariant>(attention.variant);
  Arrays arrays(memory);
  distances = std::max<std::int64_t>(s.query_offset + s.queries, 1);
  units = cuda_cape_units(cape.hidden);
  const bool on_fire = is_on_fire(cape);
  const std::int64_t network_rows = cape.hidden + s.heads;
  tables = arrays.take(network_rows * (on_fire ? 2 * cape.fire->segments : distances));
  split =
      arrays.take<CapeWeights>(kCapeProducts * ((s.heads + 7) / 8) * ((cape.hidden + 7) / 8) * 32);
  if (backward) {
    const std::int64_t weights = 2 * s.heads * units;
    slot = on_fire ? CapeSlot{weights + cape_piece(network_rows, 0), kThreads, kRows}
                   : CapeSlot{weights, network_rows * kThreads, 0};
    delta = arrays.take(delta_size(s));
    if (!on_fire) joined = arrays.take(network_rows * distances);
    const std::int64_t before = arrays.bytes();
    totals = arrays.take<double>(slot.totals);
    if (on_fire) by_query = arrays.take<double>(s.queries);
    by_distance = arrays.take(tile_distances(s) * slot.by_diagonal);
    sum_floats = (arrays.bytes() - before) / 4;
  }
  divide(attention, arrays.bytes(), backward);
  scores = arrays.take(texts * s.heads * rows * keys);
  const bool several = keys < s.keys;
  if (!backward) {
    if (several) kept = arrays.take(s.heads * (rows / kRows) * kept_floats(padded_dim(s)));
  } else {
    content = arrays.take(texts * s.heads * rows * keys);
    slots = arrays.take(texts * (rows / kRows) * (keys / kRows) * slot.floats());
    dk = arrays.take(s.kv_heads * keys * padded_dim(s));
    dv = arrays.take(s.kv_heads * keys * padded_dim(s));
    if (several) dq = arrays.take(s.heads * rows * padded_dim(s));
  }
  bytes = static_cast<std::size_t>(arrays.bytes());
}

/// All keys and as many rows as there is room for, of as many texts where all rows have it; where
/// not even 64 rows of all keys have it, as many keys as rows.
void CapeMemory::divide(const CudaAttention& a, std::int64_t taken, bool backward) {
  const AttentionShape& s = a.shape;
  const std::int64_t score = s.heads * kRows * kRows, sums = kRows * padded_dim(s);
  const StripCost floats =
      backward ? StripCost{2 * score + slot.floats(), s.heads * sums, 2 * s.kv_heads * sums}
               : StripCost{score, s.heads * kept_floats(padded_dim(s)), 0};
  constexpr std::size_t kMost = std::size_t{1} << 50;
  const std::int64_t room = (static_cast<std::int64_t>(std::min(a.cape_bytes, kMost)) - taken) / 4;
  const std::int64_t query_tiles = tiles_of(std::max<std::int64_t>(s.queries, 1));
  const std::int64_t key_tiles = tiles_of(s.keys);
  std::int64_t row_tiles = (room - key_tiles * floats.keys) / (key_tiles * floats.pair);
  std::int64_t columns = key_tiles;
  if (row_tiles < 1) {
    row_tiles = 1;
    while ((row_tiles + 1) * ((row_tiles + 1) * floats.pair + floats.queries + floats.keys) <=
           room) {
      ++row_tiles;
    }
    row_tiles = std::min(row_tiles, query_tiles);
    columns = (room - row_tiles * floats.queries) / (row_tiles * floats.pair + floats.keys);
  }
  rows = std::min(row_tiles, query_tiles) * kRows;
  keys = std::clamp<std::int64_t>(columns, 1, key_tiles) * kRows;
  if (rows < query_tiles * kRows || keys < key_tiles * kRows) return;
  const std::int64_t most = std::clamp<std::int64_t>(s.batch, 1, kMostTexts);
  const std::int64_t text = query_tiles * key_tiles * floats.pair;
  texts = std::clamp<std::int64_t>((room - key_tiles * floats.keys) / text, 1, most);
}

}  // namespace phasescope::kernels::cuda
