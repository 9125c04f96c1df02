#include "analysis/head_bias.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "analysis/head_reading.h"

namespace phasescope::analysis {
namespace {

// Every distance up to the first, then so many buckets an octave: wide enough for a few pairs of
// every text.
constexpr std::int64_t kDenseDistances = 16;
constexpr std::int64_t kBucketsAnOctave = 4;

// The moments of a list of entries (plane, bucket) of sums over some number of samples.
struct Moment {
  double sum = 0, square = 0, samples = 0;
  double mean() const { return sum / samples; }
  double deviation() const { return std::sqrt(std::max(0.0, square / samples - mean() * mean())); }
};

// Which entries are taken together: those of one bucket over planes, or of one plane over buckets.
using Chosen = std::function<bool(std::size_t plane, std::size_t bucket)>;

Moment moment_of(const CoefficientSums& sums, bool of_b, const Chosen& chosen) {
  Moment out;
  const auto& value = of_b ? sums.b : sums.a;
  const auto& square = of_b ? sums.b_square : sums.a_square;
  for (std::size_t d = 0; d < sums.planes(); ++d) {
    for (std::size_t bucket = 0; bucket < sums.buckets(); ++bucket) {
      if (!chosen(d, bucket)) continue;
      out.sum += value[d * sums.buckets() + bucket];
      out.square += square[d * sums.buckets() + bucket];
      out.samples += sums.pairs[bucket];
    }
  }
  return out;
}

template <class Clusters>
Interval interval_of(const Moment& whole, const Clusters& clusters, bool of_b, const Chosen& chosen,
                     const Sampled& sampled, const Draws& draws) {
  std::vector<Part> parts;
  for (const auto& [cluster, sums] : clusters) {
    const Moment part = moment_of(sums, of_b, chosen);
    parts.push_back({part.sum, part.samples});
  }
  if (sampled.blocks) return blocks_interval(whole.mean(), parts, sampled.rows);
  return ratio_interval(parts, draws);
}

}  // namespace

GatheredCoefficients::GatheredCoefficients(std::vector<LayerHead> heads, PlaneLayout layout,
                                           std::int64_t longest)
    : heads_(std::move(heads)),
      layout_(layout),
      edges_(distance_edges(longest, kDenseDistances, kBucketsAnOctave)),
      sums_(heads_.size()) {}

void GatheredCoefficients::add(const model::LayerAttention& attention, std::int64_t text,
                               bool blocks) {
  const std::int64_t tokens = attention.length(), length = tokens / kBlocks;
  for (std::size_t n = 0; n < heads_.size(); ++n) {
    if (heads_[n].layer != attention.layer()) continue;
    const auto put = [&](std::int64_t cluster, std::int64_t begin, std::int64_t end) {
      if (begin >= end) return;
      const CoefficientSums sums =
          coefficient_sums(attention, layout_, {heads_[n].head, begin, end}, edges_);
      sums_[n].total.add(sums);
      if (cluster >= 0) sums_[n].clusters[cluster].add(sums);
    };
    if (!blocks) {
      put(text, 0, tokens);
      continue;
    }
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      put(block, block * length, (block + 1) * length);
    }
    put(-1, kBlocks * length, tokens);
  }
}

void GatheredCoefficients::fill(std::size_t head, const std::vector<double>& frequencies,
                                const Sampled& sampled, const Draws& draws,
                                protocol::HeadBias& out) const {
  const Head& sums = sums_[head];
  const CoefficientSums& total = sums.total;
  const auto measure = [&](auto& point, const Chosen& chosen) {
    const Moment a = moment_of(total, false, chosen), b = moment_of(total, true, chosen);
    const Interval of_a = interval_of(a, sums.clusters, false, chosen, sampled, draws);
    const Interval of_b = interval_of(b, sums.clusters, true, chosen, sampled, draws);
    point.a_mean = a.mean(), point.a_sd = a.deviation();
    point.b_mean = b.mean(), point.b_sd = b.deviation();
    point.a_low = of_a.low, point.a_high = of_a.high;
    point.b_low = of_b.low, point.b_high = of_b.high;
    point.n = of_a.n;
  };
  out.a_by_plane.resize(total.planes()), out.b_by_plane.resize(total.planes());
  out.smallest_a = std::numeric_limits<double>::infinity();
  for (std::size_t bucket = 0; bucket < total.buckets(); ++bucket) {
    if (total.pairs[bucket] == 0) continue;
    protocol::CoefficientPoint& point = out.coefficients.emplace_back();
    point.distance = edges_[bucket], point.distance_end = edges_[bucket + 1];
    point.count = std::llround(total.pairs[bucket]);
    measure(point, [bucket](std::size_t, std::size_t at) { return at == bucket; });
    if (!(std::abs(point.a_mean) >= out.smallest_a)) out.smallest_a = std::abs(point.a_mean);
    for (std::size_t d = 0; d < total.planes(); ++d) {
      const std::size_t at = d * total.buckets() + bucket;
      out.a_by_plane[d].push_back(total.a[at] / total.pairs[bucket]);
      out.b_by_plane[d].push_back(total.b[at] / total.pairs[bucket]);
    }
  }
  for (std::size_t d = 0; d < total.planes(); ++d) {
    protocol::PlanePoint& point = out.planes.emplace_back();
    point.plane = static_cast<std::int64_t>(d), point.frequency = frequencies[d];
    measure(point, [d](std::size_t plane, std::size_t) { return plane == d; });
  }
}

std::vector<protocol::BiasSweep> bias_sweep(const PlaneMeans& means, const Rotation& rotation,
                                            std::span<const std::int64_t> bases,
                                            std::span<const std::int64_t> factors,
                                            std::span<const double> distances) {
  std::vector<protocol::BiasSweep> sweep;
  const auto add = [&](const char* kind, std::int64_t value, const std::vector<double>& angles) {
    std::vector<double> score = per_plane_bias(means, angles, distances);
    for (double& s : score) s *= rotation.gain;
    sweep.push_back({kind, static_cast<double>(value), std::move(score)});
  };
  for (const std::int64_t base : bases) {
    add("base", base, frequencies_of_base(static_cast<double>(base), rotation.frequencies.size()));
  }
  for (const std::int64_t factor : factors) {
    std::vector<double> angles = rotation.frequencies;
    for (double& angle : angles) angle /= static_cast<double>(factor);
    add("factor", factor, angles);
  }
  return sweep;
}

}  // namespace phasescope::analysis
