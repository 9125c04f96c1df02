#pragma once
// Two recipes, each trained with several seeds and read on the same texts: what the difference is,
// and over what it can be expected to hold.
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "protocol/messages/duel.h"

namespace phasescope::analysis {

inline constexpr std::int64_t kFewestSeeds = 2;

// loss_A - loss_B of the models of one seed, text by text.
struct SeedDifferences {
  std::int64_t seed = 0;
  std::vector<double> by_text;  // as many for every seed
};

// What other texts would change: the mean over texts of the means over seeds, as rule 1 has it.
Interval interval_by_text(const std::vector<SeedDifferences>& seeds, const Draws& draws);

// What other seeds and other texts would change. V = V_seed + V_text - V_both, and not below either
// of the first two: the variances of the mean with seeds, with texts, and with single pairs of both
// as units (Cameron, Gelbach and Miller, Journal of Business & Economic Statistics 29, 2011).
// Student's t with min(seeds, texts) - 1 degrees. None of fewer than 2 seeds or texts.
Interval two_way_interval(const std::vector<SeedDifferences>& seeds);

// A duel whose units are seeds, in the order in which they were trained. `units`: of each seed, the
// mean losses on the texts. Fills all but the names, the texts and the tensors.
void tell_of_seeds(const std::vector<SeedDifferences>& seeds,
                   const std::vector<protocol::DuelUnit>& units, double margin,
                   protocol::DuelResult& result);
// Whether they decide.
bool seeds_decide(const std::vector<SeedDifferences>& seeds, double margin);

}  // namespace phasescope::analysis
