#include "golden_tape.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "formats/tensors/safetensors.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::analysis::testing {
namespace {

std::string data_path(const std::string& name) {
  return std::string(PHASESCOPE_TEST_DATA) + "/theory/" + name;
}

model::ModelConfig golden_config(const std::string& linear) {
  const formats::Json sizes = golden_json("tape.json")["config"];
  model::ModelConfig config;
  config.vocab_size = sizes["N"];
  config.width = sizes["C"];
  config.layers = sizes["layers"];
  config.heads = config.kv_heads = sizes["H"];
  config.head_dim = sizes["d"];
  config.ffn_width = 2 * config.width;
  config.norm_eps = 1e-6;
  config.encoding = {"tape",
                     {{"base", sizes["base"]},
                      {"hidden", sizes["I"]},
                      {"post_attention_linear", linear},
                      {"layout", "interleaved"}}};
  return config;
}

model::LayerWeights golden_layer(std::int64_t l, std::int64_t width) {
  const auto get = [l](const std::string& name) {
    return golden_tensor("tape_layers.safetensors", "layers." + std::to_string(l) + "." + name);
  };
  model::LayerWeights layer;
  layer.attention_norm = layer.mlp_norm = at::ones({width}, at::kDouble);
  layer.wq = get("q"), layer.wk = get("k"), layer.wv = get("v"), layer.wo = get("o");
  layer.gate = get("gate"), layer.up = get("up"), layer.down = get("down");
  layer.encoding = {{"up_proj", get("w1")},
                    {"down_proj", get("w2")},
                    {"x_proj", get("wx")},
                    {"post_attention_linear", get("post_attention_linear")}};
  return layer;
}

}  // namespace

formats::Json golden_json(const std::string& name) {
  return formats::json_from_file(data_path(name));
}

at::Tensor golden_tensor(const std::string& file, const std::string& name) {
  const auto opened = formats::SafetensorsFile::open(data_path(file));
  const formats::TensorEntry* entry = opened.find(name);
  if (entry == nullptr) throw std::runtime_error("no tensor " + name + " in " + file);
  return model::read_tensor(opened, *entry);
}

ModelPointer golden_tape(const std::string& linear) {
  const model::ModelConfig config = golden_config(linear);
  model::Weights weights = model::empty_weights(config);
  weights.embedding = weights.head = golden_tensor("tape_layers.safetensors", "x");
  weights.final_norm = at::ones({config.width}, at::kDouble);
  for (std::int64_t l = 0; l < config.layers; ++l) {
    weights.layers[static_cast<std::size_t>(l)] = golden_layer(l, config.width);
  }
  return model::model_of(config, std::move(weights), "golden tape");
}

at::Tensor golden_ids() {
  return golden_tensor("tape_layers.safetensors", "position_ids").unsqueeze(0);
}

ModelPointer model_with(const ModelPointer& like, std::shared_ptr<const model::Encoding> encoding) {
  return std::make_shared<const model::Model>(
      model::Model{like->report, like->tokenizer,
                   model::Decoder(like->config(), std::move(encoding), like->decoder.weights())});
}

model::ModelConfig small_config(const std::string& encoding) {
  model::ModelConfig config;
  config.vocab_size = 32;
  config.width = 16;
  config.layers = 2;
  config.heads = config.kv_heads = 2;
  config.head_dim = 8;
  config.ffn_width = 24;
  config.context = 64;
  config.init_std = 0.3;  // large enough that heads differ
  config.encoding.key = encoding;
  return config;
}

ModelPointer small_model(const std::string& encoding, std::uint64_t seed) {
  return model::random_model(small_config(encoding), seed);
}

ModelPointer updated_tape() {
  const at::NoGradGuard no_gradients;
  const auto model = small_model("tape");
  model::Weights weights = model->decoder.weights();
  for (model::LayerWeights& layer : weights.layers) {
    layer.encoding["up_proj"] = at::ones_like(layer.encoding["up_proj"]) * 0.2;
    at::Tensor& linear = layer.encoding["post_attention_linear"];
    linear = 0.3 * at::eye(linear.size(0)) + 0.1;
  }
  return std::make_shared<const model::Model>(
      model::Model{model->report, model->tokenizer,
                   model::Decoder(model->config(), model->decoder.shared_encoding(), weights)});
}

ModelPointer without_head(const ModelPointer& model) {
  model::ModelConfig config = model->config();
  config.head.present = false;
  model::Weights weights = model->decoder.weights();
  weights.head = at::Tensor();
  return std::make_shared<const model::Model>(
      model::Model{model->report, model->tokenizer,
                   model::Decoder(config, model->decoder.shared_encoding(), std::move(weights))});
}

}  // namespace phasescope::analysis::testing
