#pragma once
// One query and one key: what their score is made of, and what it would be if the key stood
// elsewhere. The other keys stay where they are.
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/texts.h"
#include "model/checkpoints/open_model.h"
#include "protocol/messages/pair.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// 0, 1, .., 1024, then 256 a decade to 10^6, and `own`; ascending.
std::vector<std::int64_t> curve_distances(std::int64_t own);

struct PairOptions {
  std::int64_t layer = 0, head = 0;
  std::int64_t query = -1, key = -1;  // -1: the last token, the one before the query
  model::Backend backend = model::Backend::fused;
};

// One forward pass; O(N d) for the row and O(planes) a point of the curve. Throws Error "bad_usage"
// for a pair outside the text or a key after its query.
protocol::PairResult analyse_pair(const std::shared_ptr<const model::Model>& model,
                                  const Text& text, const PairOptions& options,
                                  protocol::Progress& progress);

}  // namespace phasescope::analysis
