#pragma once
// The near-far histogram (TAPA, arXiv 2509.12635, Appendix I, Figures 1 and 2): Delta =
// score(near key) - score(far key) of one query, the distances uniform in two intervals.
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "analysis/random.h"
#include "analysis/statistics.h"
#include "protocol/messages/distance.h"

namespace phasescope::analysis {

using protocol::NearFar;

struct NearFarSpec {
  std::int64_t near_begin = 1, near_end = 16;  // distances, end exclusive
  std::int64_t far_begin = 240, far_end = 256;
  std::int64_t first_key = 0;  // 1 leaves key 0 ([BOS]) out
  bool both_sides = false;     // keys after the query count too, at |i - j|
  std::int64_t pairs = 10000;  // samples in each histogram
  std::uint64_t seed = 0;
};

// near [1, N/16), far [15N/16, N) for texts of `tokens` tokens. In short texts the far interval
// begins early enough to hold a distance.
NearFarSpec default_near_far(std::int64_t tokens, std::int64_t first_key = 0);

// Tokens of the shortest text in which one query has a near key and another, farther one.
std::int64_t shortest_for_near_far(std::int64_t first_key);

// Throws Error "bad_input" where the text is shorter than that, or the intervals are empty,
// overlap, or reach past texts of `tokens`.
void check_near_far(const NearFarSpec& spec, std::int64_t tokens);

struct PairSample {
  std::int64_t query = 0, near_key = 0, far_key = 0;
};

// `count` samples in a text of `tokens` tokens: the far distance uniform among those that fit, the
// query uniform among those that have such a key, the near distance uniform. With both sides, query
// and side of the far key uniform among the pairs that fit, and the near key's side among those
// that fit. Empty where no query reaches the far interval.
std::vector<PairSample> draw_pairs(const NearFarSpec& spec, std::int64_t tokens, std::int64_t count,
                                   Random& random);

// Everything about a histogram but its groups. Samples of one text are not independent: intervals
// are those of shape_intervals().
NearFar near_far_of(const NearFarSpec& spec, const Clusters& deltas, const Sampled& sampled,
                    const Draws& draws);

// Clusters for a single text: the queries that have a far key, [far_begin, tokens), or all with
// both sides, cut into kBlocks blocks of equal length, the last few left over.
std::int64_t queries_of_blocks(const NearFarSpec& spec, std::int64_t tokens);
// Which block a query lies in; -1 for those left over.
std::int64_t block_of_query(const NearFarSpec& spec, std::int64_t tokens, std::int64_t query);

}  // namespace phasescope::analysis
