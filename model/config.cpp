#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>
#include <vector>

#include "formats/error.h"
#include "formats/near_names.h"
#include "formats/utf8.h"
#include "model/attention/repairs.h"
#include "model/encoding.h"

namespace phasescope::model {
namespace {

using Place = std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::int64_t>*>;

// One number, switch or word of a configuration.
struct Field {
  std::string group;  // "" for a field of ModelConfig itself
  std::string own;
  std::string file;  // the name in Hugging Face's files, and in what we write
  Place place;       // in the configuration it was listed for

  std::string dotted() const { return group.empty() ? own : group + "." + own; }
};

std::vector<Field> fields_of(ModelConfig& c) {
  return {
      {"", "vocab_size", "vocab_size", &c.vocab_size},
      {"", "width", "hidden_size", &c.width},
      {"", "layers", "num_hidden_layers", &c.layers},
      {"", "heads", "num_attention_heads", &c.heads},
      {"", "kv_heads", "num_key_value_heads", &c.kv_heads},
      {"", "head_dim", "head_dim", &c.head_dim},
      {"", "ffn_width", "intermediate_size", &c.ffn_width},
      {"", "context", "max_position_embeddings", &c.context},
      {"", "norm_eps", "rms_norm_eps", &c.norm_eps},
      {"", "tie_embeddings", "tie_word_embeddings", &c.tie_embeddings},
      {"", "init_std", "initializer_range", &c.init_std},
      {"", "family", "family", &c.family},
      {"", "note", "note", &c.note},
      {"", "residual", "residual", &c.residual},
      {"", "residual_scale", "residual_scale", &c.residual_scale},
      {"", "layer_scale", "layer_scale", &c.layer_scale},
      {"", "encoder_layers", "encoder_layers", &c.encoder_layers},
      {"", "decoder_start", "decoder_start_token_id", &c.decoder_start},
      {"", "positions_skip_padding", "positions_skip_padding", &c.positions_skip_padding},
      {"norm", "kind", "kind", &c.norm.kind},
      {"norm", "bias", "bias", &c.norm.bias},
      {"norm", "unit_offset", "unit_offset", &c.norm.unit_offset},
      {"norm", "placement", "placement", &c.norm.placement},
      {"norm", "at_end", "at_end", &c.norm.at_end},
      {"attention", "causal", "causal", &c.attention.causal},
      {"attention", "q_bias", "q_bias", &c.attention.q_bias},
      {"attention", "k_bias", "k_bias", &c.attention.k_bias},
      {"attention", "v_bias", "v_bias", &c.attention.v_bias},
      {"attention", "o_bias", "o_bias", &c.attention.o_bias},
      {"attention", "qk_norm", "qk_norm", &c.attention.qk_norm},
      {"attention", "qk_norm_after", "qk_norm_after", &c.attention.qk_norm_after},
      {"attention", "value_dim", "value_dim", &c.attention.value_dim},
      {"attention", "value_scale", "value_scale", &c.attention.value_scale},
      {"attention", "value_norm", "value_norm", &c.attention.value_norm},
      {"attention", "value_from_key_layers", "value_from_key_layers",
       &c.attention.value_from_key_layers},
      {"attention", "shared_layers", "shared_layers", &c.attention.shared_layers},
      {"attention", "kv_rank", "kv_rank", &c.attention.kv_rank},
      {"attention", "q_rank", "q_rank", &c.attention.q_rank},
      {"attention", "position_dim", "position_dim", &c.attention.position_dim},
      {"attention", "scale", "scale", &c.attention.scale},
      {"attention", "scale_by_width", "scale_by_width", &c.attention.scale_by_width},
      {"attention", "scale_by_layer", "scale_by_layer", &c.attention.scale_by_layer},
      {"attention", "layer_gain", "layer_gain", &c.attention.layer_gain},
      {"attention", "clip", "clip", &c.attention.clip},
      {"attention", "soft_cap", "soft_cap", &c.attention.soft_cap},
      {"attention", "window", "window", &c.attention.window},
      {"attention", "local_layers", "local_layers", &c.attention.local_layers},
      {"attention", "chunk", "chunk", &c.attention.chunk},
      {"attention", "temperature", "temperature", &c.attention.temperature},
      {"attention", "temperature_length", "temperature_length", &c.attention.temperature_length},
      {"attention", "temperature_from", "temperature_from", &c.attention.temperature_from},
      {"attention", "temperature_layers", "temperature_layers", &c.attention.temperature_layers},
      {"attention", "temperature_smooth", "temperature_smooth", &c.attention.temperature_smooth},
      {"attention", "sink_layers", "sink_layers", &c.attention.sink_layers},
      {"attention", "gate", "gate", &c.attention.gate},
      {"attention", "gate_by_head", "gate_by_head", &c.attention.gate_by_head},
      {"attention", "low_rank", "low_rank", &c.attention.low_rank},
      {"attention", "convolution", "convolution", &c.attention.convolution},
      {"attention", "log_scale", "log_scale", &c.attention.log_scale},
      {"attention", "padding", "padding", &c.attention.padding},
      {"attention", "cross_positions", "cross_positions", &c.attention.cross_positions},
      {"mlp", "gated", "gated", &c.mlp.gated},
      {"mlp", "activation", "activation", &c.mlp.activation},
      {"mlp", "up_bias", "up_bias", &c.mlp.up_bias},
      {"mlp", "down_bias", "down_bias", &c.mlp.down_bias},
      {"mlp", "scaled", "scaled", &c.mlp.scaled},
      {"experts", "count", "count", &c.experts.count},
      {"experts", "per_token", "per_token", &c.experts.per_token},
      {"experts", "width", "width", &c.experts.width},
      {"experts", "layers", "layers", &c.experts.layers},
      {"experts", "router", "router", &c.experts.router},
      {"experts", "router_bias", "router_bias", &c.experts.router_bias},
      {"experts", "router_cap", "router_cap", &c.experts.router_cap},
      {"experts", "choice_bias", "choice_bias", &c.experts.choice_bias},
      {"experts", "normalised", "normalised", &c.experts.normalised},
      {"experts", "scale", "scale", &c.experts.scale},
      {"experts", "weighted_inputs", "weighted_inputs", &c.experts.weighted_inputs},
      {"experts", "groups", "groups", &c.experts.groups},
      {"experts", "groups_per_token", "groups_per_token", &c.experts.groups_per_token},
      {"experts", "groups_by_two", "groups_by_two", &c.experts.groups_by_two},
      {"experts", "bias", "bias", &c.experts.bias},
      {"experts", "limit", "limit", &c.experts.limit},
      {"experts", "alpha", "alpha", &c.experts.alpha},
      {"experts", "shared_width", "shared_width", &c.experts.shared_width},
      {"experts", "shared_gate", "shared_gate", &c.experts.shared_gate},
      {"experts", "shared_count", "shared_count", &c.experts.shared_count},
      {"experts", "beside", "beside", &c.experts.beside},
      {"linear", "layers", "layers", &c.linear.layers},
      {"linear", "key_heads", "key_heads", &c.linear.key_heads},
      {"linear", "value_heads", "value_heads", &c.linear.value_heads},
      {"linear", "key_dim", "key_dim", &c.linear.key_dim},
      {"linear", "value_dim", "value_dim", &c.linear.value_dim},
      {"linear", "kernel", "kernel", &c.linear.kernel},
      {"streams", "count", "count", &c.streams.count},
      {"streams", "active", "active", &c.streams.active},
      {"streams", "scaled", "scaled", &c.streams.scaled},
      {"embedding", "width", "width", &c.embedding.width},
      {"embedding", "scale", "scale", &c.embedding.scale},
      {"embedding", "norm", "norm", &c.embedding.norm},
      {"embedding", "token_types", "token_types", &c.embedding.token_types},
      {"embedding", "layer_width", "layer_width", &c.embedding.layer_width},
      {"embedding", "layer_rows", "layer_rows", &c.embedding.layer_rows},
      {"patches", "side", "side", &c.patches.side},
      {"patches", "kernel", "kernel", &c.patches.kernel},
      {"patches", "channels", "channels", &c.patches.channels},
      {"head", "present", "present", &c.head.present},
      {"head", "transform", "transform", &c.head.transform},
      {"head", "bias", "bias", &c.head.bias},
      {"head", "scale", "scale", &c.head.scale},
      {"head", "rows", "rows", &c.head.rows},
      {"head", "soft_cap", "soft_cap", &c.head.soft_cap},
      {"head", "pool", "pool", &c.head.pool},
      {"positions", "map", "map", &c.positions.map},
      {"positions", "shift", "shift", &c.positions.shift},
      {"positions", "factor", "factor", &c.positions.factor},
      {"positions", "range", "range", &c.positions.range},
      {"positions", "draw", "draw", &c.positions.draw},
      {"positions", "seed", "seed", &c.positions.seed},
  };
}

// Their names.
const std::vector<Field>& fields() {
  static ModelConfig any;
  static const std::vector<Field> list = fields_of(any);
  return list;
}

// Fields that stand for several: older files of ours have them, and they are easier to set.
struct Shorthand {
  const char* name;
  std::vector<bool*> (*places)(ModelConfig& config);
};
constexpr Shorthand kShorthands[] = {
    {"attention_bias",
     [](ModelConfig& c) {
       AttentionConfig& a = c.attention;
       return std::vector<bool*>{&a.q_bias, &a.k_bias, &a.v_bias, &a.o_bias};
     }},
    {"mlp_bias",
     [](ModelConfig& c) {
       return std::vector<bool*>{&c.mlp.up_bias, &c.mlp.down_bias};
     }},
};

// Sizes must be there; most other numbers may be 0 for "off".
bool must_be_positive(const Field& field) {
  return field.group.empty() && field.own != "encoder_layers" && field.own != "decoder_start";
}

void read_integers(const formats::ConfigReader& reader, const Field& field,
                   std::vector<std::int64_t>& list) {
  const auto numbers = reader.numbers({field.file}, {.min = 0, .max = 1e6});
  if (!numbers) return;
  list.clear();
  for (const double number : *numbers) {
    if (number != std::floor(number)) reader.problem(field.file, "must be whole numbers");
    list.push_back(static_cast<std::int64_t>(number));
  }
}

void read_field(const formats::ConfigReader& reader, const Field& field) {
  const bool positive = must_be_positive(field);
  const Place& place = field.place;
  if (auto integer = std::get_if<std::int64_t*>(&place)) {
    formats::IntegerRange range = formats::kCountRange;
    if (!positive) range.min = 0;
    **integer = reader.integer_or({field.file, field.own}, **integer, range);
  } else if (auto number = std::get_if<double*>(&place)) {
    formats::NumberRange range = formats::kPositiveRange;
    range.min_excluded = positive;
    **number = reader.number_or({field.file, field.own}, **number, range);
  } else if (auto flag = std::get_if<bool*>(&place)) {
    **flag = reader.boolean_or({field.file, field.own}, **flag);
  } else if (auto text = std::get_if<std::string*>(&place)) {
    **text = reader.text_or({field.file, field.own}, **text);
  } else if (auto list = std::get_if<std::vector<std::int64_t>*>(&place)) {
    read_integers(reader, field, **list);
  }
}

void read_shorthands(const formats::ConfigReader& reader, ModelConfig& config) {
  for (const Shorthand& shorthand : kShorthands) {
    const auto value = reader.boolean({shorthand.name});
    if (!value) continue;
    for (bool* place : shorthand.places(config)) *place = *value;
  }
  config.mlp.activation = reader.text_or({"hidden_act", "activation"}, config.mlp.activation);
}

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  for (const Field& field : fields()) {
    const bool known = std::find(names.begin(), names.end(), field.group) != names.end();
    if (!field.group.empty() && !known) names.push_back(field.group);
  }
  return names;
}

std::vector<std::string> keys_of_group(const std::string& group) {
  std::vector<std::string> names;
  for (const Field& field : fields()) {
    if (field.group != group) continue;
    names.push_back(field.own);
    if (field.own != field.file) names.push_back(field.file);
  }
  return names;
}

std::vector<std::string> known_keys() {
  std::vector<std::string> names = keys_of_group("");
  for (const char* key : {"model_type", "encoding", "local_encoding", "layer_groups", "tokenizer",
                          "dtype", "hidden_act", "activation"}) {
    names.emplace_back(key);
  }
  for (const Shorthand& shorthand : kShorthands) names.emplace_back(shorthand.name);
  for (const std::string& group : group_names()) names.push_back(group);
  return names;
}

void refuse_unknown_keys(const Json& object, const std::vector<std::string>& known,
                         const std::string& prefix, formats::ConfigProblems& problems) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      problems.add(prefix + key, "unknown key" + formats::near_names(key, known));
    }
  }
}

void read_groups(const formats::ConfigReader& reader, ModelConfig& config) {
  for (const std::string& group : group_names()) {
    const auto section = reader.section(group);
    if (!section || !reader.raw(group)->is_object()) continue;
    refuse_unknown_keys(*reader.raw(group), keys_of_group(group), group + ".", reader.problems());
    for (const Field& field : fields_of(config)) {
      if (field.group == group) read_field(*section, field);
    }
  }
}

EncodingConfig read_encoding(const Json& value, const std::string& key,
                             formats::ConfigProblems& problems) {
  EncodingConfig encoding;
  if (value.is_string()) {
    encoding.key = value.get<std::string>();
  } else if (value.is_object()) {
    encoding.options = value;
    encoding.options.erase("key");
    if (value.contains("key") && value["key"].is_string()) {
      encoding.key = value["key"].get<std::string>();
    } else {
      problems.add(key + ".key", "is missing or no text");
    }
  } else {
    problems.add(key, "expected an object with a \"key\", or the key alone");
  }
  return encoding;
}

// A group's sizes by the names they have in files.
struct GroupSize {
  const char* file;
  std::int64_t LayerGroup::*place;
};
constexpr GroupSize kGroupSizes[] = {{"num_attention_heads", &LayerGroup::heads},
                                     {"num_key_value_heads", &LayerGroup::kv_heads},
                                     {"head_dim", &LayerGroup::head_dim},
                                     {"intermediate_size", &LayerGroup::ffn_width}};

LayerGroup read_group(const Json& value, const std::string& prefix,
                      formats::ConfigProblems& problems) {
  LayerGroup group;
  std::vector<std::string> known = {"layers", "encoding", "mlp_sparsity"};
  for (const GroupSize& size : kGroupSizes) known.emplace_back(size.file);
  const formats::ConfigReader reader(value, problems, prefix);
  if (!value.is_object()) return group;
  refuse_unknown_keys(value, known, prefix, problems);
  for (const double layer :
       reader.numbers({"layers"}, {.min = 0, .max = 1e6}).value_or(std::vector<double>{})) {
    if (layer != std::floor(layer)) reader.problem("layers", "must be whole numbers");
    group.layers.push_back(static_cast<std::int64_t>(layer));
  }
  for (const GroupSize& size : kGroupSizes) {
    group.*size.place = reader.integer_or({size.file}, 0, formats::kCountRange);
  }
  group.sparsity = reader.number_or({"mlp_sparsity"}, 0, {.min = 0});
  if (const Json* encoding = reader.raw("encoding")) {
    group.encoding = read_encoding(*encoding, prefix + "encoding", problems);
  }
  return group;
}

void read_layer_groups(const formats::ConfigReader& reader, ModelConfig& config) {
  const Json* list = reader.raw("layer_groups");
  if (list == nullptr) return;
  if (!list->is_array()) return reader.problem("layer_groups", "must be a list of objects");
  for (std::size_t n = 0; n < list->size(); ++n) {
    config.layer_groups.push_back(
        read_group((*list)[n], "layer_groups." + std::to_string(n) + ".", reader.problems()));
  }
}

Json encoding_with_key(const EncodingConfig& encoding) {
  Json json = encoding.options;
  json["key"] = encoding.key;
  return json;
}

Json json_of_groups(const std::vector<LayerGroup>& groups) {
  Json list = Json::array();
  for (const LayerGroup& group : groups) {
    Json object = {{"layers", group.layers}};
    for (const GroupSize& size : kGroupSizes) {
      if (group.*size.place != 0) object[size.file] = group.*size.place;
    }
    if (group.sparsity != 0) object["mlp_sparsity"] = group.sparsity;
    if (group.encoding) object["encoding"] = encoding_with_key(*group.encoding);
    list.push_back(std::move(object));
  }
  return list;
}

// What follows from other fields where it is left out.
void fill_in(const formats::ConfigReader& reader, ModelConfig& config) {
  if (!reader.has("num_key_value_heads") && !reader.has("kv_heads")) {
    config.kv_heads = config.heads;
  }
  if (!reader.has("head_dim") && config.heads > 0) config.head_dim = config.width / config.heads;
}

std::vector<std::string> settable_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const Field& field : fields()) names.push_back(field.dotted());
  for (const Shorthand& shorthand : kShorthands) names.emplace_back(shorthand.name);
  if (const EncodingEntry* entry = find_encoding(config.encoding.key)) {
    for (const OptionInfo& option : entry->info->options) {
      names.push_back("encoding." + option.key);
    }
  }
  return names;
}

Json parsed_value(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

std::optional<Field> find_field(ModelConfig& config, const std::string& name) {
  for (const Field& field : fields_of(config)) {
    if (name == field.dotted() || (field.group.empty() && name == field.file)) return field;
  }
  return std::nullopt;
}

// Whether `name` is one of the shorthands, which is then set.
bool set_shorthand(ModelConfig& config, const std::string& name, const Json& value,
                   formats::ConfigProblems& problems) {
  const Json object = {{name, value}};
  const bool known = name == "hidden_act" || name == "activation" ||
                     std::any_of(std::begin(kShorthands), std::end(kShorthands),
                                 [&](const Shorthand& s) { return name == s.name; });
  if (known) read_shorthands(formats::ConfigReader(object, problems), config);
  return known;
}

// One sentence for a setting that is another encoding's, a scaling of rope's for instance.
void require_option(const std::string& key, const std::string& option) {
  const EncodingEntry* entry = find_encoding(key);
  if (entry == nullptr) return;
  std::vector<std::string> known;
  for (const auto* options : {&entry->info->options, &repair_options()}) {
    for (const OptionInfo& info : *options) {
      if (info.key == option) return;
      known.push_back(info.key);
    }
  }
  throw formats::bad_usage(
      key + " has no option " + formats::in_quotes(option) + formats::near_names(option, known),
      "--set");
}

void set_encoding_option(ModelConfig& config, const std::string& option, const Json& value) {
  if (option == "key") {
    config.encoding = {value.is_string() ? value.get<std::string>() : value.dump(), Json::object()};
  } else {
    require_option(config.encoding.key, option);
    config.encoding.options[option] = value;
  }
}

}  // namespace

bool names_layer(const std::vector<std::int64_t>& layers, std::int64_t layer) {
  return std::binary_search(layers.begin(), layers.end(), layer);
}

bool ModelConfig::is_local(std::int64_t layer) const {
  return names_layer(attention.local_layers, layer);
}

double ModelConfig::score_scale() const {
  if (attention.scale > 0) return attention.scale;
  const auto width = static_cast<double>(head_dim);
  return attention.scale_by_width ? 1.0 / width : 1.0 / std::sqrt(width);
}

LayerShape ModelConfig::shape_of(std::int64_t layer) const {
  LayerShape shape{heads, kv_heads, head_dim, 0, ffn_width};
  for (const LayerGroup& group : layer_groups) {
    if (!names_layer(group.layers, layer)) continue;
    if (group.heads > 0) shape.heads = group.heads;
    if (group.kv_heads > 0) shape.kv_heads = group.kv_heads;
    if (group.head_dim > 0) shape.head_dim = group.head_dim;
    if (group.ffn_width > 0) shape.ffn_width = group.ffn_width;
    if (group.sparsity > 0) shape.sparsity = group.sparsity;
  }
  shape.value_dim = attention.value_dim > 0 ? attention.value_dim : shape.head_dim;
  return shape;
}

std::int64_t ModelConfig::encoding_group_of(std::int64_t layer) const {
  std::int64_t found = -1;
  for (std::size_t n = 0; n < layer_groups.size(); ++n) {
    if (layer_groups[n].encoding && names_layer(layer_groups[n].layers, layer)) {
      found = static_cast<std::int64_t>(n);
    }
  }
  return found;
}

ModelConfig ModelConfig::encoder() const {
  ModelConfig config = *this;
  config.layers = encoder_layers;
  config.encoder_layers = 0;
  config.attention.causal = false;
  for (const std::string& option : intervention_options()) config.encoding.options.erase(option);
  return config;
}

const std::vector<std::string>& known_activations() {
  static const std::vector<std::string> names = {
      "silu", "gelu", "gelu_tanh", "gelu_tanh_short", "relu", "relu_squared", "quick_gelu", "tanh"};
  return names;
}

ModelConfig read_model_config(const Json& object, const std::string& where) {
  formats::ConfigProblems problems;
  const formats::ConfigReader reader(object, problems);
  ModelConfig config;
  if (object.is_object()) {
    refuse_unknown_keys(object, known_keys(), "", problems);
    for (const Field& field : fields_of(config)) {
      if (field.group.empty()) read_field(reader, field);
    }
    read_shorthands(reader, config);
    read_groups(reader, config);
    fill_in(reader, config);
    if (const Json* encoding = reader.raw("encoding")) {
      config.encoding = read_encoding(*encoding, "encoding", problems);
    }
    if (const Json* local = reader.raw("local_encoding")) {
      config.local_encoding = read_encoding(*local, "local_encoding", problems);
    }
    read_layer_groups(reader, config);
    if (const Json* tokenizer = reader.raw("tokenizer")) config.tokenizer = *tokenizer;
  }
  check_model_config(config, problems);
  problems.throw_if_any(where);
  return config;
}

Json write_model_config(const ModelConfig& config) {
  ModelConfig given = config, plain;
  // Those that every file has; the others only where they differ.
  static const std::set<std::string> later = {
      "residual",       "encoder_layers", "decoder_start", "positions_skip_padding",
      "residual_scale", "layer_scale",    "note"};
  const std::vector<Field> ours = fields_of(given), defaults = fields_of(plain);
  const auto json_of = [](const Field& field) {
    return std::visit([](auto* value) { return Json(*value); }, field.place);
  };
  Json object = {{"model_type", "phasescope"}};
  for (std::size_t n = 0; n < ours.size(); ++n) {
    const Field& field = ours[n];
    const bool always = field.group.empty() && !later.contains(field.own);
    if (!always && json_of(field) == json_of(defaults[n])) continue;
    (field.group.empty() ? object : object[field.group])[field.file] = json_of(field);
  }
  object["encoding"] = encoding_with_key(config.encoding);
  if (config.local_encoding) object["local_encoding"] = encoding_with_key(*config.local_encoding);
  if (!config.layer_groups.empty()) object["layer_groups"] = json_of_groups(config.layer_groups);
  if (!config.tokenizer.is_null()) object["tokenizer"] = config.tokenizer;
  return object;
}

void set_field(ModelConfig& config, const std::string& name, const std::string& value) {
  const Json parsed = parsed_value(value);
  const std::size_t dot = name.find('.');
  const std::string head = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string rest = dot == std::string::npos ? name : name.substr(dot + 1);
  formats::ConfigProblems problems;
  const auto field = find_field(config, head == "model" ? rest : name);
  if (field) {
    const Json object = {{field->file, parsed}};
    read_field(formats::ConfigReader(object, problems), *field);
  } else if (set_shorthand(config, head == "model" ? rest : name, parsed, problems)) {
  } else if (head == "encoding" || head == config.encoding.key) {
    set_encoding_option(config, rest, parsed);
  } else {
    throw formats::bad_usage("\"" + name + "\" is no field of this model" +
                                 formats::near_names(name, settable_names(config)),
                             "--set");
  }
  if (problems.empty()) check_model_config(config, problems);
  problems.throw_if_any("--set " + name + "=" + value);
}

}  // namespace phasescope::model
