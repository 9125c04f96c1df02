#include "analysis/head_reading.h"

#include <algorithm>
#include <cmath>

#include "analysis/statistics.h"

namespace phasescope::analysis {
namespace {

// Index of the bucket of every distance below `tokens`, or edges.size() where none holds it.
std::vector<std::size_t> bucket_of_distance(const std::vector<std::int64_t>& edges,
                                            std::int64_t tokens) {
  const auto count = static_cast<std::size_t>(std::max(tokens, edges.back()));
  std::vector<std::size_t> bucket(count, edges.size());
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    for (std::int64_t d = edges[b]; d < edges[b + 1]; ++d) bucket[static_cast<std::size_t>(d)] = b;
  }
  return bucket;
}

void fill_row(HeadReading& reading, std::size_t q, std::span<const double> row) {
  reading.entropy[q] = entropy_of(row);
  reading.top1_mass[q] = *std::max_element(row.begin(), row.end());
  reading.first_key_weight[q] = row[0];
  double distance = 0;
  for (std::size_t k = 0; k < row.size(); ++k) distance += row[k] * double(q - k);
  reading.mean_distance[q] = distance;
  for (std::size_t w = 0; w < reading.windows.size(); ++w) {
    double mass = 0;
    const auto window = std::min(q + 1, static_cast<std::size_t>(reading.windows[w]));
    for (std::size_t k = q + 1 - window; k <= q; ++k) mass += row[k];
    reading.window_mass[w][q] = mass;
  }
}

}  // namespace

DistanceSums::DistanceSums(std::vector<std::int64_t> bucket_edges)
    : edges(std::move(bucket_edges)),
      pairs(edges.size() - 1),
      weight(edges.size() - 1),
      score(edges.size() - 1),
      score_square(edges.size() - 1) {}

std::size_t DistanceSums::bucket_of(std::int64_t distance) const {
  const auto at = std::lower_bound(edges.begin(), edges.end(), distance);
  const auto b = static_cast<std::size_t>(at - edges.begin());
  const bool alone = b < size() && edges[b] == distance && edges[b + 1] == distance + 1;
  return alone ? b : size();
}

void DistanceSums::add(const DistanceSums& other) {
  for (std::size_t b = 0; b < size(); ++b) {
    pairs[b] += other.pairs[b];
    weight[b] += other.weight[b];
    score[b] += other.score[b];
    score_square[b] += other.score_square[b];
  }
}

std::vector<std::int64_t> distance_edges(std::int64_t tokens, std::int64_t dense,
                                         std::int64_t per_octave) {
  std::vector<std::int64_t> edges;
  for (std::int64_t d = 0; d < std::min(tokens, dense); ++d) edges.push_back(d);
  const double factor = std::exp2(1.0 / static_cast<double>(per_octave));
  for (double edge = static_cast<double>(dense); edge < static_cast<double>(tokens);
       edge = std::max(edge * factor, edge + 1)) {
    edges.push_back(static_cast<std::int64_t>(edge));
  }
  edges.push_back(tokens);
  return edges;
}

HeadReading::HeadReading(std::int64_t token_count, std::vector<std::int64_t> edges)
    : tokens(token_count), by_distance(std::move(edges)) {
  const auto rows = static_cast<std::size_t>(tokens);
  for (auto* values : {&entropy, &top1_mass, &first_key_weight, &mean_distance}) {
    values->assign(rows, 0);
  }
  for (auto& values : window_mass) values.assign(rows, 0);
}

void add_rows(HeadReading& reading, std::int64_t row_begin, std::span<const double> weights,
              std::span<const double> scores) {
  const auto tokens = static_cast<std::size_t>(reading.tokens);
  const std::vector<std::size_t> bucket =
      bucket_of_distance(reading.by_distance.edges, reading.tokens);
  DistanceSums& sums = reading.by_distance;
  for (std::size_t r = 0; r < weights.size() / tokens; ++r) {
    const std::size_t q = static_cast<std::size_t>(row_begin) + r;
    const std::span<const double> row = weights.subspan(r * tokens, q + 1);
    fill_row(reading, q, row);
    for (std::size_t k = 0; k <= q; ++k) {
      const std::size_t b = bucket[q - k];
      if (b >= sums.size()) continue;
      ++sums.pairs[b];
      sums.weight[b] += row[k];
      if (scores.empty()) continue;
      const double score = scores[r * tokens + k];
      sums.score[b] += score;
      sums.score_square[b] += score * score;
    }
  }
}

}  // namespace phasescope::analysis
