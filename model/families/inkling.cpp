#include "model/families/inkling.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace inkling {
namespace {

bool claims(const FamilyInput& input) {
  return is_of_type(input.config, {"inkling_text", "inkling_mm_model"});
}

// By layer_types, by an older file's list of them, or all but every sixth.
std::vector<std::int64_t> sliding_layers(FamilyReader& reading) {
  const auto types = reading.layer_types({"hybrid", "hybrid_sliding"});
  const auto listed = reading.reader().numbers({"local_layer_ids"}, {.min = 0, .max = 1e6});
  std::vector<std::int64_t> layers;
  for (const std::int64_t layer : all_layers(reading.config())) {
    const bool slides =
        types    ? (*types)[static_cast<std::size_t>(layer)] == "hybrid_sliding"
        : listed ? std::ranges::find(*listed, static_cast<double>(layer)) != listed->end()
                 : (layer + 1) % 6 != 0;
    if (slides) layers.push_back(layer);
  }
  return layers;
}

EncodingConfig relative_logits(FamilyReader& reading, std::int64_t extent) {
  const std::int64_t rank = reading.reader().integer_or({"d_rel"}, 16, formats::kCountRange);
  return {"relative_logits", {{"rank", rank}, {"extent", extent}}};
}

void read_attention(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  AttentionConfig& attention = config.attention;
  const auto count = [&](const char* key, std::int64_t by_class) {
    return reader.integer_or({key}, by_class, formats::kCountRange);
  };
  attention.qk_norm = "head";
  attention.scale_by_width = true;
  attention.convolution =
      reader.integer_or({"conv_kernel_size", "sconv_kernel_size"}, 4, formats::kCountRange);
  attention.window =
      reader.integer_or({"sliding_window_size", "sliding_window"}, 512, formats::kCountRange);
  attention.local_layers = sliding_layers(reading);
  config.encoding = relative_logits(reading, count("rel_extent", 1024));
  if (!attention.local_layers.empty()) {
    config.local_encoding = relative_logits(reading, attention.window);
    const std::int64_t heads = count("swa_num_attention_heads", 64);
    if (heads > config.heads) {
      reading.problem("swa_num_attention_heads",
                      "more heads in sliding layers than in the others cannot be read");
    }
    config.layer_groups.push_back({.layers = attention.local_layers,
                                   .heads = heads,
                                   .kv_heads = count("swa_num_key_value_heads", 16),
                                   .head_dim = count("swa_head_dim", 128)});
  }
  for (const std::int64_t layer : all_layers(config)) {
    if (!config.is_local(layer)) attention.temperature_layers.push_back(layer);
  }
  const auto floor = reader.number({"log_scaling_n_floor"}, formats::kPositiveRange);
  const double alpha = reader.number_or({"log_scaling_alpha"}, 0.1, {.min = 0});
  if (!floor || attention.temperature_layers.empty()) {
    attention.temperature_layers.clear();
    return;
  }
  attention.temperature = alpha;
  attention.temperature_length = *floor;
  attention.temperature_from = 1;
  attention.temperature_smooth = true;
}

// An older file's intermediate_size is the experts' width.
void read_mlps(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  ExpertsConfig& experts = config.experts;
  experts.count =
      reader.integer_or({"n_routed_experts", "num_local_experts"}, 256, formats::kCountRange);
  experts.per_token = reader.integer_or({"num_experts_per_tok"}, 6, formats::kCountRange);
  experts.shared_count = reader.integer_or({"n_shared_experts"}, 2, formats::kCountRange);
  experts.scale = reader.number_or({"route_scale"}, 8.0, formats::kPositiveRange);
  experts.router = "sigmoid";
  experts.choice_bias = true;
  if (!reading.switch_or("shared_expert_sink", true)) {
    reading.problem("shared_expert_sink", "shared experts outside the router cannot be read");
  }
  experts.width = reader.integer_or({"moe_intermediate_size"}, 3072, formats::kCountRange);
  if (reader.has("dense_intermediate_size")) {
    experts.width = config.ffn_width;
    config.ffn_width = reader.integer_or({"dense_intermediate_size"}, 1, formats::kCountRange);
  }
  config.mlp.scaled = true;
  const auto kinds = reading.layer_types({"dense", "sparse"}, "mlp_layer_types");
  const std::int64_t dense = reader.integer_or({"dense_mlp_idx"}, 0, {.min = 0});
  for (const std::int64_t layer : all_layers(config)) {
    const bool sparse =
        kinds ? (*kinds)[static_cast<std::size_t>(layer)] == "sparse" : layer >= dense;
    if (sparse) experts.layers.push_back(layer);
  }
}

// Those of all tokens in one tensor for each projection.
TensorPlace shared_experts(const NameParts& parts, const ModelConfig& config) {
  const std::int64_t count = config.experts.shared_count, width = config.experts.width;
  const bool down = parts.ending == ".down_proj";
  TensorPlace place;
  for (std::int64_t n = 0; n < count; ++n) {
    place.parts.push_back(
        {.name = parts.layer + "mlp.shared_experts." + std::to_string(n) + parts.ending + ".weight",
         .convert = [n](const at::Tensor& x) { return x.select(0, n); },
         .stored = {count, down ? config.width : width, down ? width : config.width}});
  }
  return place;
}

// A convolution's (channels, 1, kernel).
TensorPlace convolution(const std::string& name, std::int64_t channels, std::int64_t kernel) {
  return {.name = name,
          .convert = [](const at::Tensor& x) { return x.squeeze(1); },
          .stored = {channels, 1, kernel}};
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  const std::int64_t kernel = config.attention.convolution;
  if (name == "model.embed_tokens.embed_norm.weight") return {"model.embed_norm.weight"};
  if (name == "lm_head.weight" && config.head.rows > 0) {  // with the padding's rows or without
    return {.name = name, .convert = [rows = config.head.rows](const at::Tensor& x) {
              return x.dim() > 0 ? x.slice(0, 0, rows) : x;
            }};
  }
  if (parts.layer.empty() || layer_of(parts) >= config.layers) return llama_place(name);
  const LayerShape shape = config.shape_of(layer_of(parts));
  const std::string& module = parts.module;
  if (module == "mlp.experts") return fused_experts(parts, config);
  if (module == "mlp.shared_experts") return shared_experts(parts, config);
  if (module == "mlp") return {parts.layer + "mlp.scale"};
  if (module == "mlp.gate") {
    return {parts.layer + (parts.ending == ".global_scale" ? "mlp.router.total_scale"
                           : parts.ending == ".weight"     ? "mlp.router.weight"
                                                           : "mlp.router.choice_bias")};
  }
  if (module == "self_attn.r_proj") return {parts.layer + "encoding.r_proj" + parts.ending};
  if (module == "self_attn.rel_logits_proj") return {parts.layer + "encoding" + parts.ending};
  if (module == "attn_sconv.conv1d") {
    return convolution(parts.layer + "self_attn.conv.weight", config.width, kernel);
  }
  if (module == "mlp_sconv.conv1d") {
    return convolution(parts.layer + "mlp.conv.weight", config.width, kernel);
  }
  if (module == "self_attn.k_sconv.conv1d") {
    return convolution(parts.layer + "self_attn.k_conv.weight", shape.kv_heads * shape.head_dim,
                       kernel);
  }
  if (module == "self_attn.v_sconv.conv1d") {
    return convolution(parts.layer + "self_attn.v_conv.weight", shape.kv_heads * shape.value_dim,
                       kernel);
  }
  return llama_place(name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "inkling_text", text_part(input.config), text_prefix(input.config));
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .head_dim = 128, .context = 131072}, 1e-6);
  if (!reader.has("max_position_embeddings")) {
    config.context = reader.integer_or({"model_max_length"}, config.context, formats::kCountRange);
  }
  read_mlps(reading);
  read_attention(reading);
  config.embedding.norm = true;
  reading.read_head("lm_head.weight", false);
  config.head.scale =
      1 / reader.number_or({"logits_mup_width_multiplier"}, 24.0, formats::kPositiveRange);
  const std::int64_t rows =
      reader.integer_or({"unpadded_vocab_size"}, config.vocab_size, formats::kCountRange);
  if (rows > config.vocab_size) {
    reading.problem("unpadded_vocab_size", "is more than the vocabulary has");
  } else if (rows < config.vocab_size) {
    config.head.rows = rows;
  }
  const ModelConfig sizes = config;
  return reading.finish(of_trunk([sizes](const std::string& name) { return place(sizes, name); }));
}

}  // namespace
}  // namespace inkling

Family inkling_family() { return {"inkling_text", &inkling::claims, &inkling::translate}; }

}  // namespace phasescope::model
