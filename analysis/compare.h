#pragma once
// The same text through two models.
#include <memory>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/compare.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// Passes of the same texts, one each a model. Divergences are means over the rows of all texts with
// intervals by text (of one text by 8 blocks of its rows), the loss difference one paired by text;
// heads that only one of the models has are left out, and the result's note says so. A model
// without a loss of the next token has the loss NaN, and the result's note says why. Throws Error
// "bad_input" where the texts are cut differently, and for a causal model beside one that sees both
// ways: their rows are spread over other keys, so that the divergence would measure the mask. (A
// window is a model's own choice among the same keys, and is compared.)
protocol::CompareResult analyse_compare(const std::vector<std::shared_ptr<TextPass>>& a,
                                        const std::vector<std::shared_ptr<TextPass>>& b,
                                        protocol::Progress& progress);

}  // namespace phasescope::analysis
