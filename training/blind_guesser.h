#pragma once
// What a training on a task must get below: the guesser that knows a sample's length and each
// answer's place, and not the input.
#include <optional>
#include <span>

#include "formats/tokenizer.h"
#include "tasks/task.h"

namespace phasescope::training {

struct BlindGuess {
  double bits = 0;   // mean over the answers that count
  double right = 0;  // share of them
};

// Learns how often each symbol stands at each place of each length from samples that `seed` draws,
// and answers `tested` with it. Of texts as_ids() has made `tested`, with `tokenizer`, without
// which there is nothing for them; a place is then one of the answer. Nothing for tasks whose
// samples are files of the user's.
std::optional<BlindGuess> blind_guess(const tasks::Task& task,
                                      std::span<const tasks::Sample> tested, std::uint64_t seed,
                                      const formats::Tokenizer* tokenizer = nullptr);

}  // namespace phasescope::training
