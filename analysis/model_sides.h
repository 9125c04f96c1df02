#pragma once

#include <cstdint>
#include <string>

#include "formats/error.h"
#include "model/config.h"
#include "model/layers.h"

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

// Whether a layer has such a head: layers of a state have none, and some layers may have fewer than
// others.
inline bool has_head(const model::ModelConfig& config, std::int64_t layer, std::int64_t head) {
  return head < model::heads_of_layer(config, layer);
}

// Why a layer without such heads has none.
inline std::string words_of_no_maps(std::int64_t layer) {
  return "layer " + std::to_string(layer) + " has a state in place of attention, and no maps";
}

// How many tokens, the first of the vocabulary, have a logit.
inline std::int64_t tokens_with_logits(const model::ModelConfig& config) {
  return config.head.rows > 0 ? config.head.rows : config.vocab_size;
}

// The first layer that has maps; 0 where none has.
inline std::int64_t first_layer_with_maps(const model::ModelConfig& config) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (has_head(config, layer, 0)) return layer;
  }
  return 0;
}

// Why not every layer has a map of every head, as a clause; empty where all have.
inline std::string missing_heads(const model::ModelConfig& config) {
  const std::size_t linear = config.linear.layers.size();
  if (linear > 0) {
    return std::to_string(linear) + " of its " + std::to_string(config.layers) +
           " layers have a state in place of attention, and no maps";
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (has_head(config, layer, config.heads - 1)) continue;
    return "layer " + std::to_string(layer) + " has fewer heads than others";
  }
  return {};
}

// Throws Error "not_applicable" where no layer has maps.
inline void require_some_maps(const model::ModelConfig& config) {
  if (has_head(config, first_layer_with_maps(config), 0)) return;
  throw formats::Error("not_applicable",
                       "there is no map to read: of this model " + missing_heads(config), "model");
}

}  // namespace phasescope::analysis
