#pragma once
// CAPE over FIRE, backward. All that the biases of a pair are made of is linear in u between two
// knots (CapeNetwork::piece), so that sums by row of the list of pieces (hidden units, then heads)
// and by segment say what reaches the network's biases, its part that reads them, and FIRE's
// pieces; what reaches u goes on to distances and factors.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_network.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tile.cuh"

namespace phasescope::kernels::cuda {

/// Sums of a pair of tiles in shared memory, as its slot has them: d row and d row * (u - start of
/// the segment), by cape_piece(); d u * factor by diagonal, (kThreads); d u * distance by
/// query, (kRows). Then what 32 pairs of a query row leave for other threads.
class CapeFireSums {
 public:
  __device__ CapeFireSums(std::uint32_t shared, int hidden, int heads)
      : hidden_(hidden),
        rows_(hidden + heads),
        pieces_(shared),
        diagonals_(pieces_ + static_cast<std::uint32_t>(cape_piece(rows_, 0)) * 4),
        queries_(diagonals_ + kThreads * 4),
        places_(queries_ + kRows * 4),
        segments_(places_ + 32 * 4),
        parts_(segments_ + 32 * 4) {}

  /// By one warp, a lane for each pair, before the others read them.
  __device__ void keep(const CapeNetwork& net, const CapePlace<true>& place, int lane) const {
    // Sums of u less the segment's start have no rounding of a line continued to u = 0.
    put(places_, lane, place.u - net.start(place.segment));
    store_shared(segments_ + static_cast<std::uint32_t>(lane) * 4, place.segment);
  }

  /// A thread a row: its 32 gradients, of the arrays (hidden, kPairRow) and (heads, kPairRow).
  __device__ void add_pieces(std::uint32_t d_hidden, std::uint32_t d_score) const {
    for (int row = static_cast<int>(threadIdx.x); row < rows_; row += kThreads) {
      const std::uint32_t gradients =
          row < hidden_ ? d_hidden + static_cast<std::uint32_t>(cape_pair(row, 0)) * 4
                        : d_score + static_cast<std::uint32_t>(cape_pair(row - hidden_, 0)) * 4;
      float one = 0, place = 0;
      int segment = segment_of(0);
      for (int first = 0; first < 32; first += 4) {
        const auto four = load_shared<Floats>(gradients + static_cast<std::uint32_t>(first) * 4);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int pair = first + n;
          if (segment_of(pair) != segment) {
            add_piece(row, segment, one, place);
            one = place = 0;
            segment = segment_of(pair);
          }
          one += four.x[n];
          place = fmaf(four.x[n], get(places_, pair), place);
        }
      }
      add_piece(row, segment, one, place);
    }
  }

  /// A warp's part of d u of its lanes' pairs.
  __device__ void keep_part(int warp, int lane, float part) const {
    put(parts_, warp * 32 + lane, part);
  }
  /// By one warp, from all parts.
  __device__ void add_places(const CapeNetwork& net, int lane, std::int64_t query,
                             std::int64_t distance, int row, int diagonal) const {
    float d_place = 0;
    for (int warp = 0; warp < kThreads / 32; ++warp) d_place += get(parts_, warp * 32 + lane);
    add(diagonals_, diagonal, d_place * net.factor(query));
    float sum = d_place * net.distance(distance);
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (lane == 0) add(queries_, row, sum);
  }

 private:
  __device__ static float get(std::uint32_t array, int n) {
    return load_shared<float>(array + static_cast<std::uint32_t>(n) * 4);
  }
  __device__ static void put(std::uint32_t array, int n, float x) {
    store_shared(array + static_cast<std::uint32_t>(n) * 4, x);
  }
  __device__ static void add(std::uint32_t array, int n, float x) {
    put(array, n, get(array, n) + x);
  }
  __device__ int segment_of(int pair) const {
    return load_shared<int>(segments_ + static_cast<std::uint32_t>(pair) * 4);
  }
  __device__ void add_piece(int row, int segment, float one, float place) const {
    const auto at = static_cast<int>(cape_piece(row, segment));
    add(pieces_, at, one);
    add(pieces_, at + 1, place);
  }

  int hidden_, rows_;
  std::uint32_t pieces_, diagonals_, queries_;
  std::uint32_t places_, segments_;  // (32)
  std::uint32_t parts_;              // (warps, 32)
};

/// The sums of all pairs by row and segment.
class CapePieceTotals {
 public:
  /// sums: by cape_piece().
  __device__ CapePieceTotals(const CapeNetwork& net, const double* sums) : net_(net), sums_(sums) {}

  /// Of d row, and of d row * u.
  __device__ double ones(std::int64_t row, std::int64_t segment) const {
    return sums_[cape_piece(row, segment)];
  }
  __device__ double places(std::int64_t row, std::int64_t segment) const {
    return sums_[cape_piece(row, segment) + 1] + start(segment) * ones(row, segment);
  }
  /// Of d row * the bias of a head.
  __device__ double biases(std::int64_t row, std::int64_t head, std::int64_t segment) const {
    const std::int64_t at = head * net_.fire.head_stride + segment;
    const double slope = static_cast<double>(net_.fire.slope[at]);
    const double there = slope * start(segment) + static_cast<double>(net_.fire.intercept[at]);
    return ones(row, segment) * there + slope * sums_[cape_piece(row, segment) + 1];
  }

  /// sum(row) of the rows that a head's bias is part of, each times the weight that it has there.
  template <class Sum>
  __device__ double of_head(std::int64_t head, const Sum& sum) const {
    const CapeLayout& layout = net_.layout;
    double all = layout.adds_bias ? sum(net_.cape.hidden + head) : 0;
    for (std::int64_t m = 0; m < net_.cape.hidden; ++m) {
      all +=
          static_cast<double>(net_.cape.w1[m * layout.width + layout.bias_column + head]) * sum(m);
    }
    return all;
  }

 private:
  __device__ double start(std::int64_t segment) const {
    return static_cast<double>(net_.start(segment));
  }

  const CapeNetwork& net_;
  const double* sums_;
};

}  // namespace phasescope::kernels::cuda
