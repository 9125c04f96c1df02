#pragma once

#include <string>

#include "formats/error.h"
#include "model/config.h"

namespace phasescope::analysis {

inline bool is_causal_decoder(const model::ModelConfig& config) {
  return config.attention.causal && config.encoder_layers == 0;
}

// For analyses whose pairs are a query and a key before it. Throws Error "bad_input" for a model that
// sees both ways or has an encoder; `what` names the analysis.
inline void require_causal_decoder(const model::ModelConfig& config, const std::string& what) {
  if (is_causal_decoder(config)) return;
  throw formats::bad_input(what + " counts the keys before each query, but this model " +
                               (config.encoder_layers > 0 ? "has an encoder" : "sees both ways"),
                           "model", "choose a causal decoder");
}

}  // namespace phasescope::analysis
