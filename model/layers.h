#pragma once
// What is asked of a model's layers one by one, and lists of them in words.
#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace phasescope::model {

// How many heads have maps in a layer: none where it has a state in place of attention.
inline std::int64_t heads_of_layer(const ModelConfig& config, std::int64_t layer) {
  return names_layer(config.linear.layers, layer) ? 0 : config.shape_of(layer).heads;
}

// "0, 2-5", of an ascending list.
inline std::string layers_text(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t n = 0; n < layers.size();) {
    std::size_t end = n;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(layers[n]);
    if (end > n) text += (end == n + 1 ? ", " : "-") + std::to_string(layers[end]);
    n = end + 1;
  }
  return text;
}

// "layer 0", or "layers 1, 3-5".
inline std::string words_of_layers(const std::vector<std::int64_t>& layers) {
  return (layers.size() == 1 ? "layer " : "layers ") + layers_text(layers);
}

}  // namespace phasescope::model
