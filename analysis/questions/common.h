#pragma once
// What the questions about positions share.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// The heads that a result tells of, of those that there are. Throws Error "bad_usage" for one that
// the model has not, for a layer by name that has none of those chosen, and "not_applicable" where
// no layer has maps.
class ChosenHeads {
 public:
  // Empty lists: all.
  ChosenHeads(const model::ModelConfig& config, std::vector<std::int64_t> layers,
              const std::vector<std::int64_t>& heads);
  // Those that have a chosen head, as they were named.
  const std::vector<std::int64_t>& layers() const { return layers_; }
  // The chosen heads that a layer has; none of a layer that was not chosen.
  const std::vector<std::int64_t>& heads_of(std::int64_t layer) const;

 private:
  std::vector<std::int64_t> layers_;
  std::map<std::int64_t, std::vector<std::int64_t>> heads_;  // by layer
};

// That only some of the heads have rows, and why; empty where all heads have maps.
std::string note_of_missing_heads(const model::Model& model);

// Throws Error "not_applicable" for encoders and encoder-decoders: `what` needs a causal decoder.
void require_causal(const model::Model& model, const std::string& what);

// The share of the next pass where `done` of `expected` ones have run. Passes beyond those that
// were expected add nothing.
protocol::PartOfProgress part_of_pass(protocol::Progress& progress, std::int64_t done,
                                      double expected);

// Throws Error "not_applicable" for a model without a loss of the next token, and "bad_input" for a
// text of one token, by its name.
void require_losses(const model::Model& model, const Texts& texts);

}  // namespace phasescope::analysis
