#include "model/encoding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/error.h"
#include "formats/near_names.h"
#include "formats/utf8.h"
#include "model/attention/repairs.h"
#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

bool same_type(const Json& value, const Json& fallback) {
  if (fallback.is_boolean()) return value.is_boolean();
  if (fallback.is_number_integer()) return value.is_number_integer();
  if (fallback.is_number()) return value.is_number();
  if (fallback.is_string()) return value.is_string();
  if (fallback.is_array()) return value.is_array();
  return true;
}

const char* type_text(const Json& fallback) {
  if (fallback.is_boolean()) return "true or false";
  if (fallback.is_number_integer()) return "a whole number";
  if (fallback.is_number()) return "a number";
  if (fallback.is_array()) return "a list";
  return "a text";
}

// "above 0", "at least 1", "from 0 to 1".
std::string range_text(const OptionInfo& option) {
  const auto number = [&](double end) {
    const bool whole = option.fallback.is_number_integer();
    return whole ? std::to_string(static_cast<std::int64_t>(end)) : Json(end).dump();
  };
  if (option.max == kNoLimit && option.min != kAboveZero) return "at least " + number(option.min);
  if (option.max == kNoLimit) return "above 0";
  if (option.min == kAboveZero) return "above 0 and at most " + number(option.max);
  return "from " + number(option.min) + " to " + number(option.max);
}

// Empty where the value is good.
std::string fault_of(const Json& value, const OptionInfo& option) {
  if (!same_type(value, option.fallback)) {
    return "expected " + std::string(type_text(option.fallback)) + " but got " + value.dump();
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (!(number >= option.min && number <= option.max)) {
      return "must be " + range_text(option) + ", but is " + value.dump();
    }
  }
  if (value.is_string() && !option.choices.empty()) {
    for (const std::string& choice : option.choices) {
      if (value == choice) return {};
    }
    return value.dump() + " is not known; known: " + formats::comma_list(option.choices);
  }
  return {};
}

}  // namespace

const char* name_of(UnderShift::Kind kind) {
  switch (kind) {
    case UnderShift::Kind::stays:
      return "stays";
    case UnderShift::Kind::moves:
      return "moves";
    case UnderShift::Kind::refused:
      return "refused";
  }
  return "";
}

const Repairs& repairs_of(const Encoding& layer, const Encoding& stack) {
  const Repairs& own = layer.repairs();
  return own.changes_scores() || !own.ablations.empty() ? own : stack.repairs();
}

Encoding::Encoding(const Json& options, const ModelConfig& model)
    : heads_(model.heads),
      kv_heads_(model.kv_heads),
      head_dim_(model.head_dim),
      width_(model.width),
      context_(model.context),
      layers_(model.layers),
      scale_(model.score_scale()),
      step_(model.positions.map == "interpolate" ? 1.0 / model.positions.factor : 1.0),
      causal_(model.attention.causal),
      options_(options),
      repairs_(read_repairs(options, model)) {}

at::Tensor Encoding::frequencies(const StartContext&) const { return {}; }

at::Tensor Encoding::embed(const at::Tensor& x, const StartContext&) const { return x; }

PositionState Encoding::start(const StartContext& context) const { return {context.positions, {}}; }

void Encoding::before_layer(std::int64_t, PositionState&) const {}

void Encoding::read_hidden(const Parameters&, const at::Tensor&, PositionState&) const {}

void Encoding::after_attention(const Parameters&, const at::Tensor&, PositionState&) const {}

void Encoding::after_mlp(const Parameters&, const MlpContext&, PositionState&) const {}

at::Tensor Encoding::values(const at::Tensor& v, const PositionState&) const { return v; }

at::Tensor Encoding::bias_table(const Parameters&, std::int64_t, const at::TensorOptions&) const {
  return {};
}

at::Tensor Encoding::distances(std::int64_t length, at::Device device) const {
  return at::arange(length, at::TensorOptions(at::kDouble).device(device)) * step_;
}

void Encoding::refuse_interpolation(const char* key) const {
  if (step_ == 1.0) return;
  throw formats::bad_input(
      std::string(key) + " knows whole places alone, so its positions cannot be interpolated",
      "positions.map");
}

AttentionProgram Encoding::unrotated(const at::Tensor& q, const at::Tensor& k,
                                     const PositionState& state) const {
  AttentionProgram program;
  program.q = program.q_plain = q;
  program.k = program.k_plain = k;
  program.scale = scale_;
  program.positions = state.positions;
  return program;
}

at::Tensor Encoding::bias(const Parameters& layer, const TermRegion& region) const {
  const at::Tensor distance = (region.query_id - region.key_id).clamp_min(0);
  const std::int64_t farthest = std::max<std::int64_t>(0, region.distance_range().greatest);
  const at::Tensor table = bias_table(layer, farthest + 1, region.content.options());
  return table.index_select(1, distance.flatten()).unflatten(1, distance.sizes()).transpose(0, 1);
}

Pieces Encoding::in_pieces(std::int64_t) const { return {}; }

void Encoding::constrain(Parameters&) const {}

std::vector<EncodingCost> Encoding::cost(const CostSizes&) const { return {}; }

bool Encoding::counts(const OptionInfo& option) const {
  if (!option.need) return true;
  const std::vector<Json>& values = option.need->values;
  return std::ranges::find(values, options_.at(option.need->key)) != values.end();
}

std::vector<std::string> Encoding::idle_options() const {
  std::vector<std::string> list;
  for (const OptionInfo& option : info().options) {
    if (counts(option) || options_.at(option.key) == option.fallback) continue;
    std::string needed;
    for (const Json& one : option.need->values) {
      needed +=
          (needed.empty() ? "" : " or ") + (one.is_string() ? one.get<std::string>() : one.dump());
    }
    list.push_back(info().key + "." + option.key + " is set, but changes nothing unless " +
                   option.need->key + " is " + needed);
  }
  return list;
}

OptionInfo only_where(OptionNeed need, OptionInfo option) {
  option.need = std::move(need);
  return option;
}

Json resolve_options(const EncodingInfo& info, const Json& options,
                     formats::ConfigProblems& problems) {
  Json resolved = Json::object();
  std::vector<std::string> known;
  std::vector<OptionInfo> all = info.options;
  for (const OptionInfo& option : repair_options()) {
    if (options.contains(option.key)) all.push_back(option);
  }
  for (const OptionInfo& option : all) {
    known.push_back(option.key);
    resolved[option.key] = option.fallback;
    if (!options.contains(option.key)) continue;
    const std::string fault = fault_of(options[option.key], option);
    if (fault.empty()) {
      resolved[option.key] = options[option.key];
    } else {
      problems.add(info.key + "." + option.key, fault);
    }
  }
  for (const auto& [key, value] : options.items()) {
    if (!resolved.contains(key)) {
      problems.add(info.key + "." + key, "unknown option" + formats::near_names(key, known));
    }
  }
  return resolved;
}

const EncodingEntry* find_encoding(const std::string& key) {
  for (const EncodingEntry& entry : encodings()) {
    if (entry.info->key == key) return &entry;
  }
  return nullptr;
}

namespace {

// Its entry, and its options with the defaults filled in.
const EncodingEntry* resolve(const EncodingConfig& asked, Json& options,
                             formats::ConfigProblems& problems) {
  const EncodingEntry* entry = find_encoding(asked.key);
  if (entry != nullptr) {
    options = resolve_options(*entry->info, asked.options, problems);
  } else {
    std::vector<std::string> known;
    for (const EncodingEntry& other : encodings()) known.push_back(other.info->key);
    problems.add("encoding.key", formats::in_quotes(asked.key) +
                                     " is no encoding this program knows" +
                                     formats::near_names(asked.key, known));
  }
  return entry;
}

}  // namespace

std::unique_ptr<Encoding> make_encoding(const ModelConfig& config) {
  formats::ConfigProblems problems;
  Json options;
  const EncodingEntry* entry = resolve(config.encoding, options, problems);
  problems.throw_if_any("encoding");
  return entry->make(options, config);
}

std::unique_ptr<Encoding> make_encoding(const ModelConfig& config,
                                        formats::ConfigProblems& problems) {
  Json options;
  const EncodingEntry* entry = resolve(config.encoding, options, problems);
  // What an encoding says of sizes that cannot be says nothing of itself.
  if (!problems.empty()) return nullptr;
  try {
    return entry->make(options, config);
  } catch (const formats::Error& error) {
    problems.add(error.where().empty() ? "encoding" : error.where(),
                 error.message() + (error.hint().empty() ? "" : "; " + error.hint()));
    return nullptr;
  }
}

namespace {

// With the sizes of a layer in place of the model's.
ModelConfig with_encoding(const ModelConfig& config, const EncodingConfig& encoding,
                          const LayerShape& shape) {
  ModelConfig result = config;
  result.encoding = encoding;
  result.heads = shape.heads, result.kv_heads = shape.kv_heads, result.head_dim = shape.head_dim;
  return result;
}

}  // namespace

ModelConfig with_local_encoding(const ModelConfig& config) {
  const std::vector<std::int64_t>& layers = config.attention.local_layers;
  return with_encoding(config, *config.local_encoding,
                       config.shape_of(layers.empty() ? 0 : layers.front()));
}

ModelConfig with_group_encoding(const ModelConfig& config, std::size_t group) {
  const LayerGroup& own = config.layer_groups.at(group);
  return with_encoding(config, *own.encoding, config.shape_of(own.layers.front()));
}

std::unique_ptr<Encoding> make_local_encoding(const ModelConfig& config) {
  if (!config.local_encoding) return nullptr;
  return make_encoding(with_local_encoding(config));
}

std::vector<std::unique_ptr<Encoding>> make_group_encodings(const ModelConfig& config) {
  std::vector<std::unique_ptr<Encoding>> list;
  for (std::size_t n = 0; n < config.layer_groups.size(); ++n) {
    list.push_back(config.layer_groups[n].encoding ? make_encoding(with_group_encoding(config, n))
                                                   : nullptr);
  }
  return list;
}

}  // namespace phasescope::model
