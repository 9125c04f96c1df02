#pragma once
// What the questions about positions share.
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/text_pass.h"

namespace phasescope::analysis {

// The heads that a result tells of. Throws Error "bad_usage" for one that the model has not.
class ChosenHeads {
 public:
  // Empty lists: all.
  ChosenHeads(const model::ModelConfig& config, std::vector<std::int64_t> layers,
              std::vector<std::int64_t> heads);
  bool layer(std::int64_t index) const;
  const std::vector<std::int64_t>& layers() const { return layers_; }
  const std::vector<std::int64_t>& heads() const { return heads_; }

 private:
  std::vector<std::int64_t> layers_, heads_;
};

// Throws Error "not_applicable" for encoders and encoder-decoders: `what` needs a causal decoder.
void require_causal(const model::Model& model, const std::string& what);

// Throws Error "not_applicable" for a model without a loss of the next token, and "bad_input" for a
// text of one token, by its name.
void require_losses(const model::Model& model, const Texts& texts);

}  // namespace phasescope::analysis
