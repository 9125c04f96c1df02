#pragma once
// Differences of models, paired by text: what is hard for one model is hard for the other too, so a
// difference by text is known far better than the two means are.
#include <map>
#include <string>
#include <vector>

#include "analysis/intervals/draws.h"
#include "protocol/messages/eval.h"
#include "training/evals/eval_sums.h"

namespace phasescope::training {

// What one model has read, text by text.
struct TextLosses {
  std::string model;
  Per per = Per::byte;
  std::vector<std::string> texts;                     // what tells them apart, in their order
  std::map<std::int64_t, std::vector<TextSum>> sums;  // by length, of each text: nats
};

// `other` - `first` at every length that both have: the mean over the texts that both have read of
// the differences of their mean losses, weighted by the bytes or tokens that these are means over
// (the mean of the two models', which may count a few bytes more or less), as intervals.h has
// ratios. None where one counts bytes and the other tokens, or where tokens are counted that are
// not the same.
std::vector<protocol::EvalDifference> differences_of(const TextLosses& first,
                                                     const TextLosses& other,
                                                     const analysis::Draws& draws);

}  // namespace phasescope::training
