#include "analysis/layer_frequencies.h"

#include <algorithm>
#include <utility>

#include "analysis/model_sides.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "analysis/theory/verdicts.h"
#include "model/layers.h"

namespace phasescope::analysis {
namespace {

std::string words_of_turns(const std::vector<double>& frequencies) {
  if (frequencies.empty()) return "nothing turns";
  const auto [least, most] = std::ranges::minmax(frequencies);
  return std::to_string(frequencies.size()) + " planes of " + short_number(most) + " to " +
         short_number(least) + " radians a token";
}

}  // namespace

std::vector<LayerFrequencies> frequencies_by_layer(const model::Decoder& decoder,
                                                   std::int64_t tokens) {
  std::vector<LayerFrequencies> all;
  for (std::int64_t layer = 0; layer < decoder.config().layers; ++layer) {
    if (!has_head(decoder.config(), layer, 0)) continue;
    const at::Tensor own = decoder.encoding_of(layer).frequencies(
        start_context_of(decoder, layer, tokens, at::kDouble));
    LayerFrequencies turns;
    if (own.defined()) turns.frequencies = to_vector<double>(own);
    auto same = std::ranges::find(all, turns.frequencies, &LayerFrequencies::frequencies);
    if (same == all.end()) same = all.insert(all.end(), std::move(turns));
    same->layers.push_back(layer);
  }
  return all;
}

std::string note_of_frequencies(const std::vector<LayerFrequencies>& all,
                                const LayerFrequencies& shown) {
  if (all.size() < 2) return {};
  std::string note = "the frequencies are those of " + model::words_of_layers(shown.layers);
  for (const LayerFrequencies& other : all) {
    if (other.layers == shown.layers) continue;
    note += "; " + model::words_of_layers(other.layers) + ": " + words_of_turns(other.frequencies);
  }
  return note;
}

}  // namespace phasescope::analysis
