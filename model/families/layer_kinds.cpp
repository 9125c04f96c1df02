// What configurations say layer by layer: the kinds of layers, and which of them turn.
#include <algorithm>
#include <string_view>

#include "formats/utf8.h"
#include "model/families/family_reader.h"
#include "model/layers.h"

namespace phasescope::model {
namespace {

// Of 0, 1, false and true; none for another value.
std::optional<bool> value_of_switch(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == Json(0) || value == Json(1)) return value == Json(1);
  return std::nullopt;
}

}  // namespace

void FamilyReader::read_local_layers(bool (*by_default)(std::int64_t, std::int64_t),
                                     std::int64_t argument) {
  const auto types = layer_types({"full_attention", "sliding_attention"});
  const std::int64_t layers = std::min(config().layers, formats::kLayerRange.max);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool local = types ? (*types)[static_cast<std::size_t>(layer)] == "sliding_attention"
                             : by_default(layer, argument);
    if (local) config().attention.local_layers.push_back(layer);
  }
}

std::optional<std::vector<std::string>> FamilyReader::layer_types(
    std::initializer_list<std::string_view> known, const std::string& key) {
  auto types = reader_.texts({key});
  if (key == "layer_types") asked_layer_types_ = true;
  if (!types) return types;
  for (const std::string& type : *types) {
    if (std::find(known.begin(), known.end(), type) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    problem(key,
            formats::in_quotes(type) + " is not a kind of layer that can be read (" + list + ")");
  }
  if (static_cast<std::int64_t>(types->size()) != config().layers &&
      !is_unread("num_hidden_layers")) {
    problem(key, "has " + std::to_string(types->size()) + " entries, but there are " +
                     std::to_string(config().layers) + " layers");
  }
  types->resize(static_cast<std::size_t>(
                    std::clamp<std::int64_t>(config().layers, 0, formats::kLayerRange.max)),
                std::string(*known.begin()));
  if (key == "layer_types") layer_kinds_ = types;
  return types;
}

void FamilyReader::take_rope_off(const std::vector<std::int64_t>& layers) {
  if (layers.empty()) return;
  config().layer_groups.push_back(
      {.layers = layers, .encoding = EncodingConfig{"none", Json::object()}});
}

void FamilyReader::check_layer_types() {
  if (!asked_layer_types_) layer_types({"full_attention", "sliding_attention"});
}

void FamilyReader::require_window() {
  const AttentionConfig& attention = config().attention;
  const std::vector<std::int64_t>& layers = attention.local_layers;
  if (layers.empty()) return;
  const auto require = [&](const std::string& key, const std::string& otherwise,
                           const std::string& do_by_it) {
    if (!has_key(key) || reader_.has(key) || (!otherwise.empty() && reader_.has(otherwise))) return;
    problem(key, "is null, and " + formats::shortened(words_of_layers(layers), 67) + " " +
                     do_by_it + ": give their number of tokens");
  };
  const bool one = layers.size() == 1;
  // A key that is asked for counts as read.
  if (attention.window > 0) {
    require("sliding_window", "sliding_window_size", one ? "slides by it" : "slide by it");
  }
  if (attention.chunk > 0) {
    require("attention_chunk_size", "", one ? "sees runs of it" : "see runs of it");
  }
}

// A window that the file has by name and the model has not.
void FamilyReader::warn_of_unused_windows() {
  if (!layer_kinds_) return;
  std::vector<std::int64_t> layers;
  for (const std::int64_t layer : all_layers(config())) {
    const bool named = (*layer_kinds_)[static_cast<std::size_t>(layer)] == "sliding_attention";
    if (named && !config().is_local(layer)) layers.push_back(layer);
  }
  if (layers.empty()) return;
  warning(reader_.prefix() + "layer_types has sliding_attention for " +
          formats::shortened(words_of_layers(layers), 67) +
          ", where no window is in force: nothing is hidden there");
}

std::optional<std::vector<bool>> FamilyReader::switches(const std::string& key) {
  const Json* given = reader_.raw(key);
  if (given == nullptr) return std::nullopt;
  const auto refused = [&](const Json& value) {
    problem(key, "must be a list with 0 or 1 (or false and true) for each layer, but has " +
                     formats::shortened(value.dump(), 60));
    return std::nullopt;
  };
  if (!given->is_array()) return refused(*given);
  std::vector<bool> list;
  for (const Json& value : *given) {
    const auto on = value_of_switch(value);
    if (!on) return refused(value);
    list.push_back(*on);
  }
  return list;
}

std::vector<std::int64_t> FamilyReader::still_layers(
    const std::optional<std::vector<bool>>& turning) {
  const std::int64_t interval =
      reader_.integer_or({"no_rope_layer_interval"}, 4, formats::kCountRange);
  const std::vector<std::int64_t> layers = all_layers(config());
  if (turning && turning->size() != layers.size()) {
    if (is_unread("num_hidden_layers")) return {};
    problem("no_rope_layers", "has " + std::to_string(turning->size()) +
                                  " entries, but there are " + std::to_string(config().layers) +
                                  " layers");
    return {};
  }
  std::vector<std::int64_t> still;
  for (const std::int64_t layer : layers) {
    const bool turns =
        turning ? (*turning)[static_cast<std::size_t>(layer)] : (layer + 1) % interval != 0;
    if (!turns) still.push_back(layer);
  }
  return still;
}

}  // namespace phasescope::model
