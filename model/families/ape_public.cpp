#include "model/families/ape_public.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "formats/error.h"
#include "model/families/family_reader.h"

namespace phasescope::model {
namespace ape_public {
namespace {

constexpr const char* kGenerator = "_primitives";

bool claims(const FamilyInput& input) {
  if (input.config.value("model_type", Json()) != "phasescope") return false;
  return std::any_of(
      input.tensors.begin(), input.tensors.end(),
      [](const formats::TensorEntry& entry) { return entry.name.ends_with(kGenerator); });
}

const Renaming kNames = {
    {"encoder."},
    "encoder_layers.",
    {{"mha.out", "self_attn.o_proj"},
     {"mha_ln", "input_layernorm"},
     {"ffn.0", "mlp.up_proj"},
     {"ffn.2", "mlp.down_proj"},
     {"ffn_ln", "post_attention_layernorm"}},
    {{"embedding", "model.embed_tokens"}},
    {{"positional_encoder.identity", "is the identity"}},
};

// Features of the public code are place * heads + head, ours head * head_dim + place. Rows of q, k
// or v, the n-th part of (3 C, ...).
at::Tensor rows_by_head(const at::Tensor& x, std::int64_t n, const ModelConfig& config) {
  const std::int64_t width = config.heads * config.head_dim;
  return x.narrow(0, n * width, width)
      .unflatten(0, {config.head_dim, config.heads})
      .transpose(0, 1)
      .flatten(0, 1);
}

at::Tensor columns_by_head(const at::Tensor& x, const ModelConfig& config) {
  return x.unflatten(1, {config.head_dim, config.heads}).transpose(1, 2).flatten(1, 2);
}

TensorPlace projections(const NameParts& parts, const ModelConfig& config) {
  const std::int64_t width = config.heads * config.head_dim;
  TensorPlace place;
  std::int64_t n = 0;
  for (const char* module : {"q_proj", "k_proj", "v_proj"}) {
    TensorPlace part{
        .name = parts.layer + "self_attn." + module + parts.ending,
        .convert = [n, config](const at::Tensor& x) { return rows_by_head(x, n, config); },
        .stored = {3 * width}};
    if (parts.ending == ".weight") part.stored.push_back(config.width);
    place.parts.push_back(std::move(part));
    ++n;
  }
  return place;
}

// One matrix a head; of grids the axes one after the other; of trees one a branch, followed by
// others that are never read.
TensorPlace generator(const ModelConfig& config) {
  TensorPlace place{.name = "model.encoding.generator"};
  const Json& options = config.encoding.options;
  if (config.encoding.key == "ape_grid") {
    place.convert = [](const at::Tensor& x) { return x.unflatten(0, {2, -1}); };
    place.stored = {2 * config.heads, config.head_dim / 2, config.head_dim / 2};
  } else if (config.encoding.key == "ape_tree") {
    const std::int64_t branches = options.value("branches", std::int64_t{2});
    place.convert = [branches](const at::Tensor& x) { return x.narrow(0, 0, branches); };
    place.stored = {branches * config.heads + 1, config.head_dim, config.head_dim};
  }
  return place;
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  if (name.ends_with(kGenerator)) return generator(config);
  const NameParts parts = split_name(kNames, name);
  if (parts.module == "mha.linear" && !parts.layer.empty()) return projections(parts, config);
  TensorPlace result = renamed(kNames, name);
  if (parts.module == "mha.out" && parts.ending == ".weight") {
    result.convert = [config](const at::Tensor& x) { return columns_by_head(x, config); };
    result.stored = {config.width, config.heads * config.head_dim};
  }
  return result;
}

void refuse_decoders(const FamilyInput& input) {
  for (const formats::TensorEntry& entry : input.tensors) {
    if (entry.name.find("decoder_layers.") == std::string::npos) continue;
    throw formats::bad_input(
        "decoders of APE's public code give positions to cross attention too, which cannot be "
        "read; "
        "encoders can",
        input.where);
  }
}

// The image model's layers read what convolutions make of the pixels.
void refuse_images(const FamilyInput& input) {
  for (const formats::TensorEntry& entry : input.tensors) {
    if (entry.shape.size() != 4 || entry.name.find("identity") != std::string::npos) continue;
    throw formats::bad_input(entry.name +
                                 " is a convolution, as APE's image model has before its layers: "
                                 "pixels cannot be read here, token ids can",
                             input.where, "the layers without it open with an embedding of tokens");
  }
}

// A layer norm on every sum, biases everywhere, ReLU, the embedding times the root of the width and
// its transpose as the head; both ways unless the configuration says causal.
void set_structure(ModelConfig& config, const Json& given) {
  config.norm = {.kind = "layer", .bias = true, .placement = "post", .at_end = false};
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = true;
  attention.causal = given.value("attention", Json::object()).value("causal", false);
  config.mlp = {.gated = false, .activation = "relu", .up_bias = true, .down_bias = true};
  if (given.contains("hidden_act")) config.mlp.activation = given["hidden_act"].get<std::string>();
  config.embedding.scale = std::sqrt(static_cast<double>(config.width));
  config.tie_embeddings = true;
}

Translation translate(const FamilyInput& input) {
  refuse_decoders(input);
  refuse_images(input);
  Translation result;
  ModelConfig& config = result.config;
  config = read_model_config(input.config, input.where);
  config.family = "ape_public";
  Json& options = config.encoding.options;
  if (!config.encoding.key.starts_with("ape_") || config.encoding.key == "ape_periodic") {
    throw formats::bad_input(
        "the file's _primitives are those of ape_sequence, ape_grid or ape_tree, "
        "but encoding.key is " +
            config.encoding.key,
        input.where);
  }
  set_structure(config, input.config);
  result.encoding_why = "encoding.key in config.json, and the file has _primitives";
  result.quirks.push_back("channels run heads fastest in the file; they are put in order");
  if (config.encoding.key == "ape_tree" && !options.contains("paths") &&
      !options.contains("steps")) {
    options["paths"] = options["steps"] = "public";
    result.quirks.push_back(
        "paths and steps are those of the public code, which count from a root of 0 and take the "
        "longest path of a batch for all");
  }
  formats::ConfigProblems problems;
  check_model_config(config, problems);
  problems.throw_if_any(input.where);
  const ModelConfig sizes = config;
  result.place = [sizes](const std::string& name) { return place(sizes, name); };
  return result;
}

}  // namespace
}  // namespace ape_public

Family ape_public_family() { return {"ape_public", &ape_public::claims, &ape_public::translate}; }

}  // namespace phasescope::model
