#pragma once

#include <string>

#include "formats/error.h"
#include "model/config.h"

namespace phasescope::analysis {

inline bool is_causal_decoder(const model::ModelConfig& config) {
  return config.attention.causal && config.encoder_layers == 0;
}

// An encoder alone: a query sees keys on both sides, and lambda = |i - j|.
inline bool sees_both_ways(const model::ModelConfig& config) {
  return !config.attention.causal && config.encoder_layers == 0;
}

// Why a model has no loss of the next token, as a clause ("it has no head"); empty where it has
// one.
inline std::string loss_obstacle(const model::ModelConfig& config) {
  if (!config.head.present) return "it has no head";
  if (!config.attention.causal) return "it sees both ways";
  return {};
}

// For analyses of one stack of layers. Throws Error "not_applicable" for an encoder-decoder; `what`
// names the analysis.
inline void require_one_stack(const model::ModelConfig& config, const std::string& what) {
  if (config.encoder_layers == 0) return;
  throw formats::Error(
      "not_applicable",
      what + " is of one stack of layers, but this model has an encoder and a decoder", "model",
      "choose a decoder or an encoder alone");
}

}  // namespace phasescope::analysis
