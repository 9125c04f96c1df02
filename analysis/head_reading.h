#pragma once
// What the statistics of a head are computed from: numbers a row and sums by distance, never the
// map itself. The fused kernel's probes give them without an N x N array; `add_rows` makes the same
// from rows of an explicit map and is the plain twin.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace phasescope::analysis {

// Windows of window_mass where none are chosen; a pass over the scores measures three at most.
inline constexpr std::array<std::int64_t, 3> kWindows{16, 64, 256};

// Sums over the pairs of a head by distance: bucket b holds edges[b] <= q - k < edges[b + 1].
struct DistanceSums {
  std::vector<std::int64_t> edges;
  std::vector<std::int64_t> pairs;
  std::vector<double> weight, score, score_square;

  DistanceSums() = default;
  explicit DistanceSums(std::vector<std::int64_t> bucket_edges);
  std::size_t size() const { return pairs.size(); }
  // The bucket that holds this distance and no other; size() where there is none.
  std::size_t bucket_of(std::int64_t distance) const;
  void add(const DistanceSums& other);
};

// 0, 1, 2, ... up to `dense`, then about `per_octave` buckets an octave, the last edge at `tokens`.
// Every distance below `tokens` is in one bucket.
std::vector<std::int64_t> distance_edges(std::int64_t tokens, std::int64_t dense = 2048,
                                         std::int64_t per_octave = 32);

struct HeadReading {
  std::int64_t tokens = 0;
  bool causal = true;  // row q has q + 1 keys, else every row has all
  // One value a row (query).
  std::vector<double> entropy, top1_mass, first_key_weight, mean_distance;
  std::vector<double> sink_weight;  // on the head's learned sink; empty where it has none
  std::vector<std::int64_t> windows{kWindows.begin(), kWindows.end()};
  std::vector<std::vector<double>> window_mass{kWindows.size()};  // of each window
  DistanceSums by_distance;
  double rounding = 1e-6;  // of a row's weights: some units of float32, or of the model's float64

  HeadReading() = default;
  HeadReading(std::int64_t token_count, std::vector<std::int64_t> edges);
};

// Adds rows [row_begin, row_begin + rows) of a causal map: weights and scores are (rows, tokens),
// of which row q's first q + 1 entries are read. `scores` may be empty.
void add_rows(HeadReading& reading, std::int64_t row_begin, std::span<const double> weights,
              std::span<const double> scores = {});

}  // namespace phasescope::analysis
