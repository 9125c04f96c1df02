#include "model/families/gemma3n.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/families/family_reader.h"
#include "model/families/gemma.h"

namespace phasescope::model {
namespace gemma3n {
namespace {

bool claims(const FamilyInput& input) {
  return is_of_type(input.config, {"gemma3n", "gemma3n_text"});
}

// The class's own, of which published files leave out what they do not change.
const GemmaNDefaults kDefaults = {.sizes = {.vocab_size = 262400,
                                            .width = 2048,
                                            .layers = 35,
                                            .heads = 8,
                                            .ffn_width = 16384,
                                            .kv_heads = 2,
                                            .head_dim = 256,
                                            .context = 32768},
                                  .logit_cap = 30,
                                  .shared_layers = 15};

// intermediate_size of each layer, where the file has a list of them.
std::vector<std::int64_t> widths_of(const Json& text) {
  std::vector<std::int64_t> widths;
  const auto found = text.find("intermediate_size");
  if (found == text.end() || !found->is_array()) return widths;
  for (const Json& width : *found) {
    if (!width.is_number_integer()) return {};
    widths.push_back(width.get<std::int64_t>());
  }
  return widths;
}

// The text part with one number in place of that list, which the shared reading asks for.
Json with_one_width(const Json& text) {
  Json result = text;
  if (const auto widths = widths_of(text); !widths.empty()) {
    result["intermediate_size"] = widths.front();
  }
  return result;
}

// Layers whose MLP is another one's: by their width, and by the share of their gates.
void read_widths(FamilyReader& reading, const std::vector<std::int64_t>& widths) {
  ModelConfig& config = reading.config();
  if (widths.empty()) return;
  if (static_cast<std::int64_t>(widths.size()) != config.layers) {
    return reading.problem("intermediate_size", "has " + std::to_string(widths.size()) +
                                                    " entries, but there are " +
                                                    std::to_string(config.layers) + " layers");
  }
  if (std::ranges::any_of(widths, [](std::int64_t width) {
        return width < 1 || width > formats::kCountRange.max;
      })) {
    return reading.problem("intermediate_size", "must hold sizes of at least 1");
  }
  std::map<std::int64_t, std::vector<std::int64_t>> layers;
  for (const std::int64_t layer : all_layers(config)) {
    const std::int64_t width = widths[static_cast<std::size_t>(layer)];
    if (width != config.ffn_width) layers[width].push_back(layer);
  }
  for (const auto& [width, of_width] : layers) {
    config.layer_groups.push_back({.layers = of_width, .ffn_width = width});
  }
}

void read_sparsity(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  const std::vector<std::int64_t> all = all_layers(config);
  // The class has ten sparse layers where the file has no list and the model more than ten layers.
  constexpr std::size_t kSparse = 10;
  std::vector<double> shares(all.size());
  if (all.size() > kSparse) std::fill_n(shares.begin(), kSparse, 0.95);
  const auto given =
      reading.reader().numbers({"activation_sparsity_pattern"}, {.min = 0, .max = 1});
  if (given && given->size() != all.size()) {
    return reading.problem("activation_sparsity_pattern",
                           "has " + std::to_string(given->size()) + " entries, but there are " +
                               std::to_string(config.layers) + " layers");
  }
  if (given) shares = *given;
  std::map<double, std::vector<std::int64_t>> layers;
  for (const std::int64_t layer : all) {
    const double share = shares[static_cast<std::size_t>(layer)];
    if (share > 0) layers[share].push_back(layer);
  }
  for (const auto& [share, of_share] : layers) {
    config.layer_groups.push_back({.layers = of_share, .sparsity = share});
  }
}

void read_streams(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.streams.count = reader.integer_or({"altup_num_inputs"}, 4, formats::kCountRange);
  config.streams.active = reader.integer_or({"altup_active_idx"}, 0, {.min = 0});
  config.streams.scaled = reading.switch_or("altup_correct_scale", true);
  config.attention.low_rank = reader.integer_or({"laurel_rank"}, 64, formats::kCountRange);
}

const std::map<std::string, std::string>& other_names() {
  static const std::map<std::string, std::string> names = {
      {"altup.modality_router", "streams.router"},
      {"altup.router_norm", "streams.router_norm"},
      {"altup.prediction_coefs", "streams.prediction"},
      {"altup.correction_coefs", "streams.correction"},
      {"laurel.linear_left", "low_rank.in"},
      {"laurel.linear_right", "low_rank.out"},
      {"laurel.post_laurel_norm", "low_rank.norm"},
  };
  return names;
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (name.ends_with(".altup.correct_output_scale")) return {parts.layer + "streams.scale"};
  if (const auto found = other_names().find(parts.module); found != other_names().end()) {
    return {parts.layer + found->second + parts.ending};
  }
  for (const auto& [theirs, ours] :
       {std::pair{std::string_view("model.altup_projections."), "model.streams_in."},
        std::pair{std::string_view("model.altup_unembed_projections."), "model.streams_out."}}) {
    if (name.starts_with(theirs)) return {ours + name.substr(theirs.size())};
  }
  return gemma_n_place(config, name);
}

Translation translate(const FamilyInput& input) {
  const Json& given = text_part(input.config);
  const Json text = with_one_width(given);
  FamilyReader reading(input, "gemma3n_text", text, text_prefix(input.config));
  ModelConfig& config = reading.config();
  read_gemma_n(reading, kDefaults);
  read_widths(reading, widths_of(given));
  read_sparsity(reading);
  read_streams(reading);
  reading.read_head("lm_head.weight", true);
  reading.read_local_layers([](std::int64_t layer, std::int64_t n) { return (layer + 1) % n != 0; },
                            5);
  read_gemma3_ropes(reading);
  const ModelConfig sizes = config;
  return reading.finish(of_trunk([sizes](const std::string& name) { return place(sizes, name); }));
}

}  // namespace
}  // namespace gemma3n

Family gemma3n_family() { return {"gemma3n_text", &gemma3n::claims, &gemma3n::translate}; }

}  // namespace phasescope::model
