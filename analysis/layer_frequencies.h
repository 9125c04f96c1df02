#pragma once
// What the layers of a model turn by, where they do not all turn alike.
#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder.h"

namespace phasescope::analysis {

// Layers that turn alike.
struct LayerFrequencies {
  std::vector<double> frequencies;  // radians a token, one a plane; none: they turn nothing
  std::vector<std::int64_t> layers;
};

// Of the layers that have maps, for a text of so many tokens, in the order of the first of each.
std::vector<LayerFrequencies> frequencies_by_layer(const model::Decoder& decoder,
                                                   std::int64_t tokens);

// Whose the frequencies of `shown` are, and what the other layers turn by; empty where all turn
// alike.
std::string note_of_frequencies(const std::vector<LayerFrequencies>& all,
                                const LayerFrequencies& shown);

}  // namespace phasescope::analysis
