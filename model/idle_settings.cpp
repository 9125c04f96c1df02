#include "model/idle_settings.h"

#include <iterator>
#include <memory>

#include "model/encoding.h"

namespace phasescope::model {
namespace {

void append(std::vector<std::string>& list, std::vector<std::string> more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()),
              std::make_move_iterator(more.end()));
}

void check_local_layers(const ModelConfig& config, std::vector<std::string>& list) {
  const bool local = !config.attention.local_layers.empty();
  if (config.attention.window > 0 && !local) {
    list.emplace_back("attention.window is set, but attention.local_layers names no layer");
  }
  if (config.attention.window == 0 && config.attention.chunk == 0 && local) {
    list.emplace_back("attention.local_layers names layers, but attention.window is not set");
  }
  if (config.local_encoding && !local) {
    list.emplace_back("local_encoding is set, but attention.local_layers names no layer");
  }
}

// Fields of a position map that the map in force does not read.
void check_positions(const PositionsConfig& positions, std::vector<std::string>& list) {
  const PositionsConfig plain;
  const std::string& map = positions.map;
  const bool draws = map == "random" || map == "random_by_layer";
  if (positions.shift != plain.shift && map != "shift") {
    list.emplace_back("positions.shift is set, but positions.map is not shift");
  }
  if (positions.factor != plain.factor && map != "interpolate") {
    list.emplace_back("positions.factor is set, but positions.map is not interpolate");
  }
  if (positions.factor == 1 && map == "interpolate") {
    list.emplace_back("positions.map is interpolate with the factor 1, which changes nothing");
  }
  const bool drawing = positions.range != plain.range || positions.draw != plain.draw ||
                       positions.seed != plain.seed;
  if (drawing && !draws) {
    list.emplace_back("positions.range, draw or seed is set, but positions.map draws nothing");
  }
}

void check_head(const HeadConfig& head, std::vector<std::string>& list) {
  if (head.present) return;
  if (head.transform || head.bias || head.scale != 1 || head.soft_cap != 0) {
    list.emplace_back("settings of the head are there, but the model has no head");
  }
}

}  // namespace

std::vector<std::string> idle_settings(const ModelConfig& config) {
  std::vector<std::string> list;
  check_local_layers(config, list);
  check_positions(config.positions, list);
  check_head(config.head, list);
  append(list, make_encoding(config)->idle_options());
  if (const auto local = make_local_encoding(config)) append(list, local->idle_options());
  return list;
}

}  // namespace phasescope::model
