#pragma once
// The same text through two models, or two texts through one.
#include <memory>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/compare.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

struct CompareOptions {
  bool match = false;      // also which heads are most alike
  std::uint64_t seed = 0;  // of the draws behind intervals
  std::string stack;       // of the encoder-decoders among the two, for stack_named()
};

// Passes of the same texts, one each a model, or of two texts of one length through one model.
// Divergences are means over the rows of all texts with intervals by text (of one text by 8 blocks
// of its rows), the loss difference one paired by text; heads that only one of the models has, and
// layers without maps, are left out, and the result's note says so. A model without a loss of the
// next token has the loss NaN, and the result's note says why. Throws Error "bad_input" where the
// texts are cut differently, and for a causal model beside one that sees both ways: their rows are
// spread over other keys, so that the divergence would measure the mask. (A window is a model's own
// choice among the same keys, and is compared.) The same is thrown for a decoder's attention to an
// encoder beside attention of a text to itself.
//
// Matched heads (CompareOptions) are those of all layers, paired one with one so that the sum of
// their divergences is smallest (cheapest_pairs); of models of different sizes as many as the
// smaller one has. `between` then gets the matrix (La Ha, Lb Hb), mean over texts, NaN for heads
// that are not there; null for nobody.
protocol::CompareResult analyse_compare(const std::vector<std::shared_ptr<TextPass>>& a,
                                        const std::vector<std::shared_ptr<TextPass>>& b,
                                        protocol::Progress& progress,
                                        const CompareOptions& options = {},
                                        at::Tensor* between = nullptr);

}  // namespace phasescope::analysis
