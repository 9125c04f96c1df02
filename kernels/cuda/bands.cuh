#pragma once
// A block of kCount tiles of queries that go over tiles of keys together: which tiles each sees, so
// that what one does not see is computed for the other alone. The mask is given to each function:
// an object that held its address would not stay in registers.

#include <cuda_runtime.h>

#include "kernels/cuda/problem.cuh"
#include "kernels/cuda/tile.cuh"

namespace phasescope::kernels::cuda {

/// Scores of one q and k, without numbers of single queries, keys or pairs.
template <DeviceScore Score>
inline constexpr bool kIsOfTiles =
    !Score::kPieces && !Score::kStored && !Score::kTokens && !Score::kOwn && Score::kParts == 1;
/// Scores for which a thread has registers for the sums of four rows.
template <DeviceScore Score>
inline constexpr bool kHasFewRegisters = kIsOfTiles<Score>&& Score::kDots == 1 && !Score::kState;

template <int kCount>
class BandTiles {
  static_assert(kCount == 1 || kCount == 2);

 public:
  /// Of the tiles of queries from index `query` on. All lanes of a warp call it.
  template <class Score>
  __device__ BandTiles(const Problem<Score>& problem, const Visibility& visibility, int query)
      : query_(query) {
#pragma unroll
    for (int band = 0; band < kCount; ++band) {
      if (query_of(band) >= problem.shape.queries) continue;
      const Stretch own = given_tiles(problem, visibility.key_tiles(query_of(band)));
      if (own.first >= own.last) continue;
      const bool alone = tiles_.first >= tiles_.last;
      tiles_ = {alone ? own.first : min(tiles_.first, own.first), max(tiles_.last, own.last)};
    }
  }

  __device__ int query_of(int band) const { return query_ + band * kRows; }

  /// The first tile from `tile` on that any band sees and that is not all padding; that of end() if
  /// none follows. All lanes of a warp call it.
  __device__ int next(const Visibility& visibility, int tile) const {
    for (; tile < end(); ++tile) {
      const bool seen =
          sees(visibility, 0, tile) || (kCount == 2 && sees(visibility, kCount - 1, tile));
      if (seen && !visibility.real_keys(tile).none()) break;
    }
    return tile;
  }
  __device__ int begin(const Visibility& visibility) const {
    return next(visibility, tiles_.first);
  }
  /// Of no band: one behind the last.
  __device__ int end() const { return tiles_.last; }

  /// Whether a tile of any may hold what a band's queries see.
  __device__ bool sees(const Visibility& visibility, int band, int tile) const {
    return visibility.sees(query_of(band), tile * kRows);
  }

  /// Calls call(Bands<..>{}) with the bands that see a tile that begin() or next() gave.
  template <class Call>
  __device__ __forceinline__ void with(const Visibility& visibility, int tile,
                                       const Call& call) const {
    if constexpr (kCount == 1) {
      call(OneBand{});
    } else if (!sees(visibility, 1, tile)) {
      call(OneBand{});
    } else if (!sees(visibility, 0, tile)) {
      call(Bands<1, 2>{});
    } else {
      call(Bands<0, 2>{});
    }
  }

 private:
  int query_;
  Stretch tiles_;  // of any band
};

}  // namespace phasescope::kernels::cuda
