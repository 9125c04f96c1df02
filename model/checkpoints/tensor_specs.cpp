// Which tensors a model of a configuration has: tensor_specs() of weights.h.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoints/weights.h"

namespace phasescope::model {
namespace {

using Init = ParameterSpec::Init;

// Collects the specs of a model in the order of the file.
class SpecList {
 public:
  explicit SpecList(const ModelConfig& config) : config_(config) {}

  void matrix(const std::string& name, std::int64_t out, std::int64_t in,
              Init init = Init::normal) {
    specs.push_back({.name = name, .shape = {out, in}, .init = init});
  }
  void vector(const std::string& name, std::int64_t size, Init init) {
    specs.push_back({.name = name, .shape = {size}, .decays = false, .init = init});
  }
  void bias(bool there, const std::string& name, std::int64_t size) {
    if (there) vector(name + ".bias", size, Init::zeros);
  }
  void norm(const std::string& name, std::int64_t size) {
    vector(name + ".weight", size, config_.norm.unit_offset ? Init::zeros : Init::ones);
    bias(config_.norm.bias, name, size);
  }
  void encoding(const std::string& prefix, const std::vector<ParameterSpec>& list) {
    for (const ParameterSpec& spec : list) {
      specs.push_back({prefix + spec.name, spec.shape, spec.optional, spec.trainable,
                       spec.decays && spec.shape.size() > 1, spec.init, spec.low, spec.high,
                       spec.start, spec.of_host});
    }
  }

  std::vector<TensorSpec> specs;

 private:
  const ModelConfig& config_;
};

// Which projections a layer has.
struct Projections {
  bool key = true, value = true;
};

void add_attention(SpecList& list, const std::string& at, const ModelConfig& config,
                   const LayerShape& shape, Projections own = {}) {
  const AttentionConfig& a = config.attention;
  const std::int64_t queries = shape.heads * shape.head_dim;
  const std::int64_t keys = shape.kv_heads * shape.head_dim;
  const std::int64_t values = shape.kv_heads * shape.value_dim;
  const std::int64_t outputs = shape.heads * shape.value_dim;
  if (a.q_rank == 0) list.matrix(at + "q_proj.weight", queries, config.width);
  if (own.key) list.matrix(at + "k_proj.weight", keys, config.width);
  if (own.value) list.matrix(at + "v_proj.weight", values, config.width);
  list.matrix(at + "o_proj.weight", config.width, outputs, Init::residual_normal);
  list.bias(a.q_bias, at + "q_proj", queries);
  list.bias(a.k_bias && own.key, at + "k_proj", keys);
  list.bias(a.v_bias && own.value, at + "v_proj", values);
  list.bias(a.o_bias, at + "o_proj", config.width);
}

void add_latent(SpecList& list, const std::string& at, const ModelConfig& config,
                const LayerShape& shape) {
  const AttentionConfig& a = config.attention;
  const std::int64_t content = shape.head_dim - a.position_dim;
  list.matrix(at + "kv_a_proj_with_mqa.weight", a.kv_rank + a.position_dim, config.width);
  list.vector(at + "kv_a_layernorm.weight", a.kv_rank, Init::ones);
  list.matrix(at + "kv_b_proj.weight", shape.heads * (content + shape.value_dim), a.kv_rank);
  if (a.q_rank == 0) return;
  list.matrix(at + "q_a_proj.weight", a.q_rank, config.width);
  list.vector(at + "q_a_layernorm.weight", a.q_rank, Init::ones);
  list.matrix(at + "q_b_proj.weight", shape.heads * shape.head_dim, a.q_rank);
}

void add_linear(SpecList& list, const std::string& at, const ModelConfig& config) {
  const LinearConfig& l = config.linear;
  const std::int64_t values = l.value_heads * l.value_dim;
  const std::int64_t all = 2 * l.key_heads * l.key_dim + values;
  list.matrix(at + "in_proj_qkv.weight", all, config.width);
  list.matrix(at + "in_proj_z.weight", values, config.width);
  list.matrix(at + "in_proj_a.weight", l.value_heads, config.width);
  list.matrix(at + "in_proj_b.weight", l.value_heads, config.width);
  list.matrix(at + "conv1d.weight", all, l.kernel);
  list.vector(at + "A_log", l.value_heads, Init::zeros);
  list.vector(at + "dt_bias", l.value_heads, Init::ones);
  list.vector(at + "norm.weight", l.value_dim, Init::ones);
  list.matrix(at + "out_proj.weight", config.width, values, Init::residual_normal);
}

void add_qk_norm(SpecList& list, const std::string& at, const ModelConfig& config,
                 std::int64_t heads, std::int64_t head_dim) {
  const std::string& kind = config.attention.qk_norm;
  const Init init = config.norm.unit_offset ? Init::zeros : Init::ones;
  const std::int64_t size = head_dim * (kind == "full" ? heads : 1);
  if (kind != "each") {
    list.vector(at + ".weight", size, init);
    return list.bias(config.norm.bias, at, size);
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    list.vector(at + "." + std::to_string(head) + ".weight", size, init);
  }
}

// Sinks, gates and latent projections: what few models have beside plain attention.
void add_attention_extras(SpecList& list, const std::string& at, const ModelConfig& config,
                          const LayerShape& shape, std::int64_t layer) {
  const AttentionConfig& a = config.attention;
  if (names_layer(a.sink_layers, layer)) list.vector(at + "sinks", shape.heads, Init::zeros);
  if (a.gate != "none") {
    const std::int64_t rows = shape.heads * (a.gate_by_head ? 1 : shape.value_dim);
    list.matrix(at + "output_gate.weight", rows, config.width);
  }
  if (a.kv_rank > 0) add_latent(list, at, config, shape);
  if (a.convolution == 0) return;
  list.matrix(at + "k_conv.weight", shape.kv_heads * shape.head_dim, a.convolution);
  list.matrix(at + "v_conv.weight", shape.kv_heads * shape.value_dim, a.convolution);
  list.matrix(at + "conv.weight", config.width, a.convolution);
}

void add_self_attention(SpecList& list, const std::string& at, const ModelConfig& config,
                        std::int64_t layer) {
  const AttentionConfig& a = config.attention;
  const LayerShape shape = config.shape_of(layer);
  const bool own_keys = a.kv_rank == 0 && !names_layer(a.shared_layers, layer);
  add_attention(list, at, config, shape,
                {own_keys, own_keys && !names_layer(a.value_from_key_layers, layer)});
  add_attention_extras(list, at, config, shape, layer);
  if (a.qk_norm == "none") return;
  add_qk_norm(list, at + "q_norm", config, shape.heads, shape.head_dim);
  if (own_keys) add_qk_norm(list, at + "k_norm", config, shape.kv_heads, shape.head_dim);
}

void add_mlp(SpecList& list, const std::string& at, const ModelConfig& config, std::int64_t width) {
  const MlpConfig& mlp = config.mlp;
  if (mlp.gated) list.matrix(at + "gate_proj.weight", width, config.width);
  list.matrix(at + "up_proj.weight", width, config.width);
  list.matrix(at + "down_proj.weight", config.width, width, Init::residual_normal);
  list.bias(mlp.gated && mlp.up_bias, at + "gate_proj", width);
  list.bias(mlp.up_bias, at + "up_proj", width);
  list.bias(mlp.down_bias, at + "down_proj", config.width);
  if (mlp.scaled) list.vector(at + "scale", 1, Init::ones);
}

void add_gated_mlp(SpecList& list, const std::string& at, const ModelConfig& config,
                   std::int64_t width, bool bias) {
  list.matrix(at + "gate_proj.weight", width, config.width);
  list.matrix(at + "up_proj.weight", width, config.width);
  list.matrix(at + "down_proj.weight", config.width, width, Init::residual_normal);
  list.bias(bias, at + "gate_proj", width);
  list.bias(bias, at + "up_proj", width);
  list.bias(bias, at + "down_proj", config.width);
}

void add_experts(SpecList& list, const std::string& at, const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  list.matrix(at + "router.weight", experts.count + experts.shared_count, config.width);
  if (experts.shared_count > 0) list.vector(at + "router.total_scale", 1, Init::ones);
  for (std::int64_t n = 0; n < experts.shared_count; ++n) {
    add_gated_mlp(list, at + "shared_experts." + std::to_string(n) + ".", config, experts.width,
                  false);
  }
  list.bias(experts.router_bias, at + "router", experts.count);
  if (experts.choice_bias) list.vector(at + "router.choice_bias", experts.count, Init::zeros);
  if (experts.beside) {
    list.vector(at + "router.scale", config.width, Init::ones);
    list.vector(at + "router.expert_scale", experts.count, Init::ones);
    for (const char* norm :
         {"alone_output_layernorm", "experts_layernorm", "experts_output_layernorm"}) {
      list.vector(at + norm + ".weight", config.width, Init::ones);
    }
  }
  for (std::int64_t n = 0; n < experts.count; ++n) {
    add_gated_mlp(list, at + "experts." + std::to_string(n) + ".", config, experts.width,
                  experts.bias);
  }
  if (experts.shared_width == 0) return;
  add_gated_mlp(list, at + "shared_expert.", config, experts.shared_width, false);
  if (experts.shared_gate) list.matrix(at + "shared_expert_gate.weight", 1, config.width);
}

void add_streams(SpecList& list, const std::string& at, const ModelConfig& config) {
  const std::int64_t count = config.streams.count;
  list.matrix(at + "router.weight", count, config.width);
  list.vector(at + "router_norm.weight", config.width, Init::ones);
  list.matrix(at + "prediction.weight", count * count, count);
  list.matrix(at + "correction.weight", count, count);
  list.vector(at + "scale", config.width, Init::ones);
}

void add_layer(SpecList& list, const std::string& at, const ModelConfig& config,
               const Encoding& encoding, bool cross, std::int64_t layer) {
  const std::string& placement = config.norm.placement;
  const bool sandwich = placement == "sandwich", outputs = sandwich || placement == "output";
  const bool linear = names_layer(config.linear.layers, layer);
  if (placement != "output") list.norm(at + "input_layernorm", config.width);
  if (linear) {
    add_linear(list, at + "linear_attn.", config);
  } else {
    add_self_attention(list, at + "self_attn.", config, layer);
  }
  if (outputs) list.norm(at + "self_attn.output_layernorm", config.width);
  if (cross) {
    list.norm(at + "cross_attn.input_layernorm", config.width);
    add_attention(list, at + "cross_attn.", config, config.shape_of(layer));
    if (sandwich) list.norm(at + "cross_attn.output_layernorm", config.width);
  }
  if (config.residual != "parallel_shared" && placement != "output") {
    list.norm(at + "post_attention_layernorm", config.width);
  }
  const bool experts = names_layer(config.experts.layers, layer);
  if (experts) add_experts(list, at + "mlp.", config);
  if (!experts || config.experts.beside) {
    add_mlp(list, at + "mlp.", config, config.shape_of(layer).ffn_width);
  }
  if (outputs) list.norm(at + "mlp.output_layernorm", config.width);
  if (const std::int64_t kernel = config.attention.convolution; kernel > 0) {
    list.matrix(at + "mlp.conv.weight", config.width, kernel);
  }
  if (const std::int64_t size = config.embedding.layer_width; size > 0) {
    list.matrix(at + "layer_input_gate.weight", size, config.width);
    list.matrix(at + "layer_input.weight", config.width, size, Init::residual_normal);
    list.norm(at + "layer_input_norm", config.width);
  }
  if (config.layer_scale) list.vector(at + "layer_scale", 1, Init::ones);
  if (config.streams.count > 1) add_streams(list, at + "streams.", config);
  if (const std::int64_t rank = config.attention.low_rank; rank > 0) {
    list.matrix(at + "low_rank.in.weight", rank, config.width);
    list.matrix(at + "low_rank.out.weight", config.width, rank, Init::residual_normal);
    list.norm(at + "low_rank.norm", config.width);
  }
  if (!linear) list.encoding(at + "encoding.", encoding.parameters());
}

// One stack of layers with its shared parameters, `at` "model." or "model.encoder.".
void add_stack(SpecList& list, const std::string& at, const ModelConfig& config,
               const Encoding& encoding, bool cross) {
  const std::unique_ptr<Encoding> local = make_local_encoding(config);
  const std::vector<std::unique_ptr<Encoding>> groups = make_group_encodings(config);
  const auto encoding_of = [&](std::int64_t layer) -> const Encoding& {
    const std::int64_t group = config.encoding_group_of(layer);
    if (group >= 0) return *groups[static_cast<std::size_t>(group)];
    return local && config.is_local(layer) ? *local : encoding;
  };
  list.encoding(at + "encoding.", encoding.shared_parameters());
  if (local) list.encoding(at + "local_encoding.", local->shared_parameters());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    add_layer(list, at + "layers." + std::to_string(layer) + ".", config, encoding_of(layer), cross,
              layer);
  }
  if (config.norm.at_end) list.norm(at + "norm", config.width);
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const ModelConfig& config, const Encoding& encoding) {
  SpecList list(config);
  const EmbeddingConfig& e = config.embedding;
  const std::int64_t embedding_width = e.width > 0 ? e.width : config.width;
  list.matrix("model.embed_tokens.weight", config.vocab_size, embedding_width);
  if (config.patches.side > 0) {
    list.matrix("model.embed_patches.weight", embedding_width, config.patches.window());
  }
  if (e.width > 0) list.matrix("model.embed_in.weight", config.width, e.width);
  if (e.token_types > 0) list.matrix("model.embed_types.weight", e.token_types, config.width);
  if (e.norm) list.norm("model.embed_norm", config.width);
  if (e.layer_width > 0) {
    const std::int64_t all = config.layers * e.layer_width;
    list.matrix("model.layer_embedding.weight", e.layer_rows, all);
    list.matrix("model.layer_projection.weight", all, config.width);
    list.norm("model.layer_projection_norm", e.layer_width);
  }
  for (std::int64_t n = 0; n + 1 < config.streams.count; ++n) {
    list.matrix("model.streams_in." + std::to_string(n) + ".weight", config.width, config.width);
    list.matrix("model.streams_out." + std::to_string(n) + ".weight", config.width, config.width);
  }
  if (config.encoder_layers > 0) {
    const ModelConfig encoder = config.encoder();
    add_stack(list, "model.encoder.", encoder, *make_encoding(encoder), false);
  }
  add_stack(list, "model.", config, encoding, config.encoder_layers > 0);
  if (e.width > 0) list.matrix("model.embed_out.weight", e.width, config.width);
  if (!config.head.present) return list.specs;
  if (config.head.transform) {
    list.matrix("lm_head.transform.weight", embedding_width, embedding_width);
    list.bias(true, "lm_head.transform", embedding_width);
    list.norm("lm_head.norm", embedding_width);
  }
  // Pooling begins as the mean.
  if (config.head.pool != "none") {
    list.matrix("lm_head.pool.weight", 1, embedding_width, Init::zeros);
  }
  const std::int64_t rows = config.head.rows > 0 ? config.head.rows : config.vocab_size;
  if (!config.tie_embeddings) list.matrix("lm_head.weight", rows, embedding_width);
  list.bias(config.head.bias, "lm_head", config.vocab_size);
  return list.specs;
}

}  // namespace phasescope::model
