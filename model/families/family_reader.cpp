#include "model/families/family_reader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>

#include "formats/utf8.h"
#include "model/families/unread_keys.h"

namespace phasescope::model {
namespace {

// transformers' names of activations to ours.
const std::map<std::string, std::string>& activation_names() {
  static const std::map<std::string, std::string> names = {
      {"silu", "silu"},
      {"swish", "silu"},
      {"gelu", "gelu"},
      {"gelu_python", "gelu"},
      {"gelu_new", "gelu_tanh"},
      {"gelu_fast", "gelu_tanh"},
      {"gelu_pytorch_tanh", "gelu_tanh"},
      {"gelu_python_tanh", "gelu_tanh"},
      {"quick_gelu", "quick_gelu"},
      {"relu", "relu"},
      {"relu2", "relu_squared"},
      {"tanh", "tanh"},
  };
  return names;
}

// Fields of ours by what files call them, the usual name first.
const std::map<std::string, std::vector<std::string>>& names_in_files() {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"attention.convolution", {"conv_kernel_size", "sconv_kernel_size"}},
      {"attention.position_dim", {"qk_rope_head_dim"}},
      {"attention.shared_layers", {"num_kv_shared_layers"}},
      {"experts.count", {"num_experts", "num_local_experts", "n_routed_experts"}},
      {"experts.groups", {"n_group"}},
      {"experts.layers", {"moe_layers", "mlp_only_layers"}},
      {"experts.per_token", {"num_experts_per_tok", "top_k_experts", "experts_per_token"}},
      {"experts.shared_count", {"n_shared_experts"}},
      {"experts.width", {"moe_intermediate_size"}},
      {"head.rows", {"unpadded_vocab_size"}},
      {"linear.value_heads", {"linear_num_value_heads"}},
      {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}},
      {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
      {"streams.count", {"altup_num_inputs"}},
  };
  return names;
}

// What `architectures` names first; empty where it names nothing.
std::string first_class(const Json& config) {
  const Json classes = config.value("architectures", Json());
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return {};
  return classes[0].get<std::string>();
}

// GPT2ForSequenceClassification and the like: their heads give classes or places, no tokens.
bool is_task_class(const std::string& name) {
  return std::ranges::any_of(
      std::array{"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
                 "ForMultipleChoice", "ForNextSentencePrediction"},
      [&](const char* ending) { return name.ends_with(ending); });
}

// Such a head's tensors: "score.weight".
bool is_of_task_head(const std::string& tensor) {
  return std::ranges::any_of(
      std::array{"score.", "classifier.", "qa_outputs.", "classification_head.",
                 "cls.seq_relationship.", "sequence_summary."},
      [&](const char* start) { return tensor.starts_with(start); });
}

// BertModel, GPT2Model and the like; GPT2LMHeadModel has a head.
bool is_headless_class(const std::string& name) {
  return is_task_class(name) || (name.ends_with("Model") && !name.ends_with("LMHeadModel"));
}

// Whether the head size is what is left of the width over the heads.
bool has_split_head(const formats::ConfigReader& reader, const ModelConfig& config) {
  return !reader.has("head_dim") && config.head_dim == config.width / config.heads &&
         config.width % config.heads != 0;
}

double yarn_attention_factor(const formats::RawRope& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (!rope.mscale || !rope.mscale_all_dim || *rope.mscale == 0 || *rope.mscale_all_dim == 0) {
    return 0;
  }
  const double factor = rope.factor.value_or(1.0);
  const auto magnitude = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  return magnitude(*rope.mscale) / magnitude(*rope.mscale_all_dim);
}

}  // namespace

FamilyReader::FamilyReader(const FamilyInput& input, const char* family)
    : FamilyReader(input, family, input.config, input.prefix) {}

FamilyReader::FamilyReader(const FamilyInput& input, const char* family, const Json& object,
                           const std::string& prefix)
    : input_(input), object_(object), reader_(object, problems_, prefix) {
  result_.config.family = family;
  result_.encoding_why = "model_type is " + input.config.value("model_type", Json()).dump();
}

void FamilyReader::refuse(const std::string& key, const std::string& what) {
  if (reader_.boolean_or({key}, false)) problem(key, what + " cannot be read");
}

bool FamilyReader::has_tensor(const std::string& ending, bool without_file) const {
  if (input_.config_alone) return without_file;
  return std::any_of(
      input_.tensors.begin(), input_.tensors.end(),
      [&](const formats::TensorEntry& entry) { return entry.name.ends_with(ending); });
}

bool FamilyReader::has_head_class() const {
  const std::string name = first_class(input_.config);
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  return name.empty() || ends("LMHeadModel") || ends("ForCausalLM") || ends("ForMaskedLM") ||
         ends("ForPreTraining") || ends("ForConditionalGeneration");
}

bool FamilyReader::has_key(const std::string& key) const {
  return object_.is_object() && object_.contains(key);
}

bool FamilyReader::switch_or(const std::string& key, bool fallback) {
  const bool says_null = reader_.has_or_null(key) && !reader_.has(key);
  if (says_null && fallback) warning(reader_.prefix() + key + " is null, which is no");
  return reader_.boolean_or({key}, fallback && !says_null);
}

std::string FamilyReader::activation(formats::FieldNames names, const std::string& fallback) {
  const std::string name = reader_.text_or(names, fallback);
  const auto found = activation_names().find(name);
  if (found != activation_names().end()) return found->second;
  problem(std::string(*names.begin()),
          "the activation " + formats::in_quotes(name) + " is not known");
  return "silu";
}

void FamilyReader::layer_norm(formats::FieldNames eps_names, double eps) {
  config().norm.kind = "layer";
  config().norm.bias = true;
  config().norm_eps = reader_.number_or(eps_names, eps, formats::kPositiveRange);
}

void FamilyReader::read_head(const std::string& head_tensor, bool tied_by_default) {
  // Inside a wrapper of several kinds of input the library goes by what the wrapper says.
  const formats::ConfigReader whole(input_.config, problems_);
  auto own = reader_.boolean({"tie_word_embeddings"});
  if (!own && reader_.has_or_null("tie_word_embeddings")) {
    own = switch_or("tie_word_embeddings", tied_by_default);
  }
  const bool tied = whole.boolean({"tie_word_embeddings"}).value_or(own.value_or(tied_by_default));
  if (own && *own != tied) {
    warning("tie_word_embeddings " + Json(tied).dump() + " outside is taken over " +
            Json(*own).dump() + " in " + reader_.prefix());
  }
  config().head.present = input_.config_alone ? has_head_class()
                          : tied              ? !is_headless_class(first_class(input_.config))
                                              : has_tensor(head_tensor);
  config().tie_embeddings = tied && config().head.present;
  if (config().head.present) return;
  const std::string name = first_class(input_.config);
  warning(is_task_class(name)
              ? "architectures names " + formats::in_quotes(name) +
                    ", whose head gives no tokens: it is not read, and there are no logits"
          : tied || input_.config_alone
              ? "architectures names a class without a head: there are no logits"
              : "the file has no " + head_tensor + ": the model has no head and no logits");
}

bool FamilyReader::says_rope() const {
  const Json* scaling = reader_.raw("rope_scaling");
  return reader_.has("rope_parameters") || (scaling != nullptr && !scaling->empty());
}

void FamilyReader::note_clashes(const formats::RawRope& rope) {
  result_.warnings.insert(result_.warnings.end(), rope.notes.begin(), rope.notes.end());
}

void FamilyReader::warn_of_own_rope(const formats::RawRope& own) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!has_key(key) || reader_.has(key)) continue;
    warning(reader_.prefix() + key +
            " is null, which says nothing to this class: its own rope is " + own.type +
            " with factor " + Json(own.factor.value_or(1)).dump() + " over " +
            Json(own.original_max_position_embeddings.value_or(config().context)).dump() +
            " positions");
  }
}

std::optional<std::int64_t> FamilyReader::channels_in_pairs(const std::string& key,
                                                            std::int64_t channels) {
  if (channels % 2 == 0) return channels;
  problem(key, "is " + std::to_string(channels) + ", but channels turn in pairs");
  return std::nullopt;
}

void FamilyReader::require_whole_heads(const formats::RawRope& rope) {
  if (rope.type == "proportional" || rope.partial_rotary_factor == 1) return;
  problem("partial_rotary_factor",
          "is " + Json(rope.partial_rotary_factor).dump() + ", but this class turns whole heads");
}

void FamilyReader::set_rope(const formats::RawRope& rope, const char* layout) {
  config().encoding = rope_encoding(rope, layout, config().context);
  if (rope.type != "default") {
    result_.encoding_why += ", rope_type is \"" + rope.type + "\"";
    if (rope.factor) result_.encoding_why += " with factor " + Json(*rope.factor).dump();
  }
  note_clashes(rope);
}

void FamilyReader::read_rope(formats::RopeDefaults defaults, const char* layout) {
  set_rope(formats::read_rope(reader_, defaults, {}, known_head_dim()), layout);
}

bool FamilyReader::is_unread(const std::string& key) const {
  const std::string start = reader_.prefix() + key + ": ";
  return std::ranges::any_of(
      problems_.list(), [&](const std::string& problem) { return problem.starts_with(start); });
}

std::optional<std::int64_t> FamilyReader::known_head_dim() const {
  for (const char* key : {"hidden_size", "num_attention_heads", "head_dim"}) {
    if (is_unread(key)) return std::nullopt;
  }
  if (has_split_head(reader_, result_.config)) return std::nullopt;
  return result_.config.head_dim;
}

std::string FamilyReader::key_in_file(const std::string& ours) const {
  const auto found = names_in_files().find(ours);
  if (found == names_in_files().end()) return (has_key(ours) ? reader_.prefix() : "") + ours;
  for (const std::string& name : found->second) {
    if (has_key(name)) return reader_.prefix() + name;
  }
  return reader_.prefix() + found->second.front();
}

void FamilyReader::check_whole() {
  formats::ConfigProblems found;
  check_model_config(config(), found);
  for (const std::string& one : found.list()) {
    const std::size_t end = one.find(": ");
    problems_.add(key_in_file(one.substr(0, end)), one.substr(end + 2));
  }
}

Translation FamilyReader::finish(std::function<TensorPlace(const std::string&)> place) {
  check_layer_types();
  check_other_ropes();
  require_window();
  for (const auto& [key, sentence] : unread_router_problems(reader_, config())) {
    problem(key, sentence);
  }
  if (problems_.empty() && has_split_head(reader_, config())) {
    formats::check_heads(problems_, config().width, config().heads, config().kv_heads, {});
  }
  if (problems_.empty()) check_whole();
  problems_.throw_if_any(input_.where);
  for (const std::string& note : reader_.notes()) warning(note);
  warn_of_unused_windows();
  for (const std::string& sentence : unread_key_warnings(reader_, config())) warning(sentence);
  for (const std::string& sentence : null_key_warnings(reader_, config())) {
    const std::string start = sentence.substr(0, sentence.find(':'));  // "KEY is null"
    const bool told = std::ranges::any_of(
        result_.warnings, [&](const std::string& other) { return other.starts_with(start); });
    if (!told) warning(sentence);
  }
  std::string left_out;
  for (const std::string& field : reader_.left_out()) {
    left_out += (left_out.empty() ? "" : ", ") + reader_.prefix() + field;
  }
  if (!left_out.empty()) {
    quirk("the file leaves out what its class has by default: " + left_out);
  }
  if (const auto notice = formats::remote_code_notice(reader_)) warning(*notice);
  result_.place = std::move(place);
  if (is_task_class(first_class(input_.config)) && !config().head.present) {
    result_.place = [inner = std::move(result_.place)](const std::string& name) {
      return is_of_task_head(name) ? TensorPlace{.name = name,
                                                 .ignored = true,
                                                 .why = "belongs to a head that is not read"}
                                   : inner(name);
    };
  }
  return std::move(result_);
}

EncodingConfig rope_encoding(const formats::RawRope& rope, const char* layout,
                             std::int64_t context) {
  Json options = {{"base", rope.theta}, {"layout", layout}};
  if (rope.partial_rotary_factor != 1.0) {
    options["partial_rotary_factor"] = rope.partial_rotary_factor;
  }
  if (!rope.mrope_section.empty()) {
    options["sections"] = rope.mrope_section;
    if (rope.mrope_interleaved) options["section_order"] = "interleaved";
  }
  if (rope.type == "default") return {"rope", options};
  if (rope.type == "proportional") {
    options.erase("partial_rotary_factor");  // here it is the share of planes that turn
    if (rope.partial_rotary_factor != 1.0) {
      options["turning_planes"] = rope.partial_rotary_factor;
    }
    if (rope.factor.value_or(1) != 1) {
      options["scaling"] = "linear", options["factor"] = *rope.factor;
    }
    return {"rope", options};
  }
  const std::int64_t trained = rope.original_max_position_embeddings.value_or(context);
  options["scaling"] = rope.type;
  const double stretched = static_cast<double>(context) / static_cast<double>(trained);
  options["factor"] = rope.factor.value_or(rope.type == "yarn" ? stretched : 1.0);
  // The dynamic base grows from the length that the configuration gives.
  options["trained_context"] = rope.type == "dynamic" ? context : trained;
  if (rope.type == "yarn") {
    options["beta_fast"] = rope.beta_fast.value_or(32.0);
    options["beta_slow"] = rope.beta_slow.value_or(1.0);
    options["attention_factor"] = yarn_attention_factor(rope);
    options["truncate"] = rope.truncate.value_or(true);
  } else if (rope.type == "llama3") {
    options["low_freq_factor"] = rope.low_freq_factor.value_or(1.0);
    options["high_freq_factor"] = rope.high_freq_factor.value_or(4.0);
  } else if (rope.type == "longrope") {
    options["short_factor"] = rope.short_factor;
    options["long_factor"] = rope.long_factor;
    options["attention_factor"] = rope.attention_factor.value_or(0.0);
    // Phi-3's files have no factor.
    options["factor"] =
        rope.factor.value_or(static_cast<double>(context) / static_cast<double>(trained));
  }
  return {"rope", options};
}

const Json& text_part(const Json& config) {
  const bool nested =
      config.is_object() && config.contains("text_config") && config["text_config"].is_object();
  return nested ? config["text_config"] : config;
}

std::string text_prefix(const Json& config) {
  return &text_part(config) == &config ? "" : "text_config.";
}

std::vector<std::int64_t> all_layers(const ModelConfig& config) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(
      std::clamp<std::int64_t>(config.layers, 0, formats::kLayerRange.max)));
  std::iota(layers.begin(), layers.end(), std::int64_t{0});
  return layers;
}

bool is_of_type(const Json& config, std::initializer_list<std::string_view> types) {
  const Json type = config.value("model_type", Json());
  return type.is_string() &&
         std::find(types.begin(), types.end(), type.get<std::string>()) != types.end();
}

bool is_wrapper(const Json& config) {
  return &text_part(config) != &config &&
         is_of_type(config,
                    {"aya_vision", "cohere2_vision", "idefics2", "idefics3", "internvl",
                     "lighton_ocr", "llava", "llava_next", "llava_next_video", "llava_onevision",
                     "mistral3", "qwen2_audio", "smolvlm", "video_llava", "vipllava", "voxtral"});
}

std::string trunk_name(const std::string& name) {
  for (const std::string_view prefix :
       {"visual.", "model.visual.", "vision_tower.", "model.vision_tower.", "vision_model.",
        "model.vision_model.", "multi_modal_projector.", "model.multi_modal_projector.",
        "embed_vision", "model.embed_vision", "audio", "model.audio", "model.embed_audio",
        "embed_audio", "mtp."}) {
    if (name.starts_with(prefix)) return {};
  }
  for (const auto& [prefix, ours] :
       {std::pair{"model.language_model.", "model."}, std::pair{"language_model.model.", "model."},
        std::pair{"model.text_model.", "model."},
        std::pair{"language_model.lm_head.", "lm_head."}}) {
    if (name.starts_with(prefix)) return ours + name.substr(std::string(prefix).size());
  }
  return name;
}

TensorPlace of_further_tokens(const std::string& name) {
  return {.name = name, .ignored = true, .why = "is a layer that predicts further tokens"};
}

TensorPlace of_another_input(const std::string& name) {
  if (name.starts_with("mtp.")) return of_further_tokens(name);
  return {
      .name = name, .ignored = true, .why = "belongs to another kind of input, which is not read"};
}

std::function<TensorPlace(const std::string&)> of_trunk(
    std::function<TensorPlace(const std::string&)> place) {
  return [inner = std::move(place)](const std::string& name) {
    const std::string own = trunk_name(name);
    return own.empty() ? of_another_input(name) : inner(own);
  };
}

NameParts split_name(const Renaming& renaming, const std::string& full) {
  std::string name = full;
  for (const std::string& prefix : renaming.prefixes) {
    if (!name.starts_with(prefix)) continue;
    name = name.substr(prefix.size());
    break;
  }
  const std::size_t dot = name.rfind('.');
  NameParts parts{"", name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot)};
  if (!parts.module.starts_with(renaming.layers)) return parts;
  const std::string rest = parts.module.substr(renaming.layers.size());
  const std::size_t end = rest.find('.');
  const std::string number = rest.substr(0, end);
  const bool digits = !number.empty() && std::all_of(number.begin(), number.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || end == std::string::npos) return parts;
  parts.layer = "model.layers." + number + ".";
  parts.module = rest.substr(end + 1);
  return parts;
}

std::int64_t layer_of(const NameParts& name) {
  constexpr std::string_view prefix = "model.layers.";
  if (!name.layer.starts_with(prefix)) return -1;
  const char* begin = name.layer.data() + prefix.size();
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(begin, name.layer.data() + name.layer.size(), number);
  return error == std::errc() ? number : -1;
}

TensorPlace renamed(const Renaming& renaming, const std::string& name) {
  for (const auto& [ending, why] : renaming.ignored) {
    if (name.ends_with(ending)) return {.name = name, .ignored = true, .why = why};
  }
  const NameParts parts = split_name(renaming, name);
  const auto& table = parts.layer.empty() ? renaming.outside : renaming.in_layer;
  const auto found = table.find(parts.module);
  if (found == table.end()) return {};
  return {parts.layer + found->second + parts.ending};
}

TensorPlace fused_rows(const NameParts& name, std::int64_t in,
                       std::initializer_list<std::pair<const char*, std::int64_t>> modules,
                       bool transposed) {
  std::int64_t rows = 0;
  for (const auto& [module, count] : modules) rows += count;
  std::vector<std::int64_t> stored = {rows};
  const bool weight = name.ending == ".weight";
  if (weight) {
    stored = transposed ? std::vector<std::int64_t>{in, rows} : std::vector<std::int64_t>{rows, in};
  }
  TensorPlace place;
  std::int64_t begin = 0;
  for (const auto& [module, count] : modules) {
    const std::int64_t first = begin, size = count;
    const bool turned = weight && transposed;
    place.parts.push_back(
        {.name = name.layer + module + name.ending,
         .convert =
             [=](const at::Tensor& x) { return (turned ? x.t() : x).narrow(0, first, size); },
         .stored = stored});
    begin += count;
  }
  return place;
}

TensorPlace fused_heads(const NameParts& name, const ModelConfig& config) {
  const std::int64_t group = config.heads / config.kv_heads, groups = config.kv_heads;
  std::vector<std::int64_t> stored = {(config.heads + 2 * groups) * config.head_dim};
  if (name.ending == ".weight") stored.push_back(config.width);
  const auto part = [&](const char* module, std::int64_t begin, std::int64_t count) {
    const std::int64_t head_dim = config.head_dim;
    return TensorPlace{.name = name.layer + module + name.ending,
                       .convert =
                           [=](const at::Tensor& x) {
                             return x.unflatten(0, {groups, group + 2, head_dim})
                                 .narrow(1, begin, count)
                                 .flatten(0, 2);
                           },
                       .stored = stored};
  };
  TensorPlace place;
  place.parts = {part("self_attn.q_proj", 0, group), part("self_attn.k_proj", group, 1),
                 part("self_attn.v_proj", group + 1, 1)};
  return place;
}

TensorPlace transposed(TensorPlace place, std::int64_t out, std::int64_t in) {
  place.convert = [](const at::Tensor& x) { return x.t(); };
  place.stored = {in, out};
  return place;
}

}  // namespace phasescope::model
