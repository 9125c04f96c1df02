#include "analysis/near_far.h"

#include <algorithm>

#include "formats/error.h"

namespace phasescope::analysis {
namespace {

std::string range_text(std::int64_t begin, std::int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// Far distances that some query of the text has.
std::int64_t far_limit(const NearFarSpec& spec, std::int64_t tokens) {
  return std::min(spec.far_end, tokens - spec.first_key);
}

}  // namespace

NearFarSpec default_near_far(std::int64_t tokens, std::int64_t first_key) {
  NearFarSpec spec;
  spec.first_key = first_key;
  spec.near_begin = 1;
  spec.near_end = std::max<std::int64_t>(2, tokens / 16);
  spec.far_begin = std::min(15 * tokens / 16, tokens - 1 - first_key);
  spec.far_end = tokens;
  return spec;
}

std::int64_t shortest_for_near_far(std::int64_t first_key) { return 3 + first_key; }

void check_near_far(const NearFarSpec& spec, std::int64_t tokens) {
  if (const std::int64_t shortest = shortest_for_near_far(spec.first_key); tokens < shortest) {
    throw formats::bad_input("near and far keys need a text of at least " +
                                 std::to_string(shortest) + " tokens, the longest here has " +
                                 std::to_string(tokens),
                             "text", "give a longer text");
  }
  const std::string near = range_text(spec.near_begin, spec.near_end);
  const std::string far = range_text(spec.far_begin, spec.far_end);
  if (spec.near_begin < 0 || spec.near_end <= spec.near_begin) {
    throw formats::bad_input("the near interval " + near + " holds no distance", "near");
  }
  if (spec.far_end <= spec.far_begin || spec.far_begin < spec.near_end) {
    throw formats::bad_input("the far interval " + far + " must lie beyond the near one " + near,
                             "far");
  }
  if (spec.pairs < 1) throw formats::bad_input("pairs must be at least 1", "pairs");
  if (far_limit(spec, tokens) <= spec.far_begin) {
    throw formats::bad_input(
        "the far interval " + far + " lies beyond texts of " + std::to_string(tokens) + " tokens",
        "far", "give longer texts or a nearer interval");
  }
}

namespace {

PairSample draw_on_both_sides(const NearFarSpec& spec, std::int64_t tokens, std::int64_t far,
                              std::int64_t near, Random& random) {
  const std::int64_t before = tokens - far - spec.first_key;  // queries with a far key before them
  const std::int64_t after = tokens - far;                    // ... and after them
  const std::int64_t drawn = random.between(0, before + after);
  const bool left = drawn < before;
  const std::int64_t query = left ? far + spec.first_key + drawn : drawn - before;
  // The near key fits on the far one's side; on the other side it may not.
  const bool other = left ? query + near < tokens : query - near >= spec.first_key;
  const bool near_left = other && random.between(0, 2) == 1 ? !left : left;
  return {query, near_left ? query - near : query + near, left ? query - far : query + far};
}

}  // namespace

std::vector<PairSample> draw_pairs(const NearFarSpec& spec, std::int64_t tokens, std::int64_t count,
                                   Random& random) {
  std::vector<PairSample> samples;
  const std::int64_t limit = far_limit(spec, tokens);
  if (limit <= spec.far_begin) return samples;
  samples.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t far = random.between(spec.far_begin, limit);
    if (spec.both_sides) {
      const std::int64_t near = random.between(spec.near_begin, spec.near_end);
      samples.push_back(draw_on_both_sides(spec, tokens, far, near, random));
      continue;
    }
    const std::int64_t query = random.between(far + spec.first_key, tokens);
    const std::int64_t near = random.between(spec.near_begin, spec.near_end);
    samples.push_back({query, query - near, query - far});
  }
  return samples;
}

NearFar near_far_of(const NearFarSpec& spec, const Clusters& deltas, const Sampled& sampled,
                    const Draws& draws) {
  const ShapeIntervals shape = shape_intervals(deltas, sampled, draws);
  const std::vector<double> pooled = deltas.pooled();
  Histogram histogram = histogram_of(pooled);
  NearFar out;
  out.near_begin = spec.near_begin, out.near_end = spec.near_end;
  out.far_begin = spec.far_begin, out.far_end = spec.far_end;
  out.texts = sampled.blocks ? 1 : shape.mean.n;
  out.pairs = static_cast<std::int64_t>(pooled.size());
  out.mean = shape.mean.mean, out.sigma = shape.sigma.mean;
  out.skewness = shape.skewness.mean, out.share_positive = shape.share_positive.mean;
  out.intervals = {shape.mean, shape.sigma, shape.skewness, shape.share_positive};
  out.edges = std::move(histogram.edges);
  out.counts = std::move(histogram.counts);
  return out;
}

namespace {

std::int64_t first_query(const NearFarSpec& spec, std::int64_t tokens) {
  return spec.both_sides ? 0 : std::min(spec.far_begin + spec.first_key, tokens - 1);
}

}  // namespace

std::int64_t queries_of_blocks(const NearFarSpec& spec, std::int64_t tokens) {
  return tokens - first_query(spec, tokens);
}

std::int64_t block_of_query(const NearFarSpec& spec, std::int64_t tokens, std::int64_t query) {
  const std::int64_t length = queries_of_blocks(spec, tokens) / kBlocks;
  const std::int64_t place = query - first_query(spec, tokens);
  return place < length * kBlocks ? place / length : -1;
}

}  // namespace phasescope::analysis
