#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/file_mapping.h"
#include "model/encoding.h"

namespace phasescope::model {

// One expert: a gated MLP of its own.
struct ExpertWeights {
  at::Tensor gate, up, down;                 // (F, C), (F, C), (C, F)
  at::Tensor gate_bias, up_bias, down_bias;  // undefined where experts have none
};

// One layer's tensors; projections are (out, in), as torch's Linear has them. Undefined tensors are
// absent ones: biases, gates, and what only some models have.
struct LayerWeights {
  at::Tensor attention_norm, attention_norm_bias;  // (C)
  at::Tensor wq, wk, wv, wo;                       // (H d, C), (kv d, C), (kv d, C), (C, H d)
  at::Tensor bq, bk, bv, bo;
  at::Tensor q_norm, q_norm_bias, k_norm, k_norm_bias;  // (d), or (H d) and (kv d)
  std::vector<at::Tensor> q_norms, k_norms;             // in their place one (d) for each head
  at::Tensor sinks;                                     // (H)
  at::Tensor output_gate;                               // (H, C) or (H v, C)
  // Kernels of convolutions: (kv d, kernel), (kv v, kernel), (C, kernel), (C, kernel).
  at::Tensor key_conv, value_conv, attention_conv, mlp_conv;
  // Latent attention, ranks r: (r_kv + p, C), (r_kv), (H (d - p + v), r_kv); (r_q, C), (r_q), (H d,
  // r_q). A head's rows are [without position | v] in kv_b and [position | without] in q_b.
  at::Tensor kv_a, kv_a_norm, kv_b, q_a, q_a_norm, q_b;
  // A linear layer: (2 K d_k + V d_v, C), (V d_v, C), (V, C), (V, C), the convolution (2 K d_k + V
  // d_v, kernel), (V), (V), (d_v), (C, V d_v).
  at::Tensor linear_qkv, linear_z, linear_a, linear_b, linear_conv, linear_log_decay,
      linear_dt_bias, linear_norm, linear_out;
  at::Tensor attention_output_norm, attention_output_norm_bias;  // (C)
  at::Tensor cross_norm, cross_norm_bias;                        // (C)
  at::Tensor cross_wq, cross_wk, cross_wv, cross_wo;             // as above
  at::Tensor cross_bq, cross_bk, cross_bv, cross_bo;
  at::Tensor cross_output_norm, cross_output_norm_bias;  // (C)
  at::Tensor mlp_norm, mlp_norm_bias;                    // (C)
  at::Tensor gate, up, down;                             // (F, C), (F, C), (C, F)
  at::Tensor gate_bias, up_bias, down_bias;
  at::Tensor mlp_output_norm, mlp_output_norm_bias;  // (C)
  at::Tensor mlp_scale;                              // (1)
  at::Tensor router, router_bias, choice_bias;       // (E, C) or (E + S, C), (E), (E)
  std::vector<ExpertWeights> experts;                // empty where the layer has none
  ExpertWeights shared_expert;
  std::vector<ExpertWeights> shared_experts;  // S of them
  at::Tensor router_total;                    // (1)
  at::Tensor shared_expert_gate;              // (1, C)
  // What experts beside the MLP have: (C), (E), and norms (C).
  at::Tensor router_scale, expert_scale, mlp_alone_norm, experts_norm, experts_output_norm;
  at::Tensor layer_input_gate, layer_input, layer_input_norm;  // (P, C), (C, P), (C)
  at::Tensor layer_scale;                                      // (1)
  // What S residual streams have: (S, C), (C), (S S, S), (S, S), (C).
  at::Tensor stream_router, stream_router_norm, stream_prediction, stream_correction, stream_scale;
  at::Tensor low_rank_in, low_rank_out, low_rank_norm;  // (r, C), (C, r), (C)
  Parameters encoding;
  // Matrices may have the dtype of the file and lie in it: who runs the layer converts it first.
  bool as_stored = false;
};

// The layers of a decoder or of an encoder, and what they share.
struct StackWeights {
  std::vector<LayerWeights> layers;
  at::Tensor final_norm, final_norm_bias;  // (C)
  Parameters encoding;                     // shared by all layers
  Parameters local_encoding;               // shared by the local ones, where theirs is another
};

// All weights of a model: those of its decoder (its only stack in most models), and the rest.
struct Weights : StackWeights {
  at::Tensor embedding;                    // (V, E); E is C unless the embedding has a width
  at::Tensor embedding_in, embedding_out;  // (C, E), (E, C)
  at::Tensor patches;                      // (E, numbers of a window), of image models
  at::Tensor token_types;                  // (T, C)
  at::Tensor embedding_norm, embedding_norm_bias;  // (C)
  // What layers read of their own, P numbers each: (rows, layers P), (layers P, C), (P).
  at::Tensor layer_embedding, layer_projection, layer_projection_norm;
  std::vector<at::Tensor> streams_in, streams_out;  // (C, C) of each stream but the first
  at::Tensor head_transform, head_transform_bias;   // (C, C), (C)
  at::Tensor head_norm, head_norm_bias;             // (C)
  at::Tensor pool;                                  // (1, E)
  at::Tensor head;                                  // (V, E); undefined where it is the embedding
  at::Tensor head_bias;                             // (V)
  StackWeights encoder;
  // What some of the tensors are views of; those must not be written to.
  std::vector<std::shared_ptr<const formats::FileMapping>> files;
};

// Throws Error "bad_input" where one of the files that the weights are views of was cut short or
// rewritten since it was opened, or could not be read: what was computed is worth nothing then.
void check_unchanged(const Weights& weights);

// Canonical names are Llama's ("model.layers.0.self_attn.q_proj.weight") as far as they go,
// "model.layers.N.encoding.NAME", "model.encoding.NAME" for the encoding's
// ("model.local_encoding.NAME" for the local layers' own), and "model.encoder." in place of
// "model." for an encoder's.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  bool optional = false;
  bool trainable = true;
  bool decays = true;  // weight decay applies: matrices, not norms or biases
  ParameterSpec::Init init = ParameterSpec::Init::normal;
  double low = 0, high = 1;
  at::Tensor start = {};  // in place of `init`, broadcast to the shape
  bool of_host = false;   // ParameterSpec::of_host
};

// Every tensor a model of this configuration has, in the order of the file.
std::vector<TensorSpec> tensor_specs(const ModelConfig& config, const Encoding& encoding);

// Weights with empty layers of the right number; the place of a name in it, created where it is an
// encoding's. Throws Error "internal" for a name that is not canonical.
Weights empty_weights(const ModelConfig& config);
at::Tensor& tensor_at(Weights& weights, const std::string& name);

// All tensors that are there, with their names, in tensor_specs' order. The tensors share storage
// with the weights.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
NamedTensors named_tensors(const ModelConfig& config, const Encoding& encoding,
                           const Weights& weights);

// Random weights, the same for the same seed: N(0, init_std), outputs of residual branches divided
// by sqrt(2 layers), norms 1, biases 0, the encoding's own as it says. float32.
Weights init_weights(const ModelConfig& config, const Encoding& encoding, std::uint64_t seed);

// A copy in another floating dtype (tensors that have it already are shared).
Weights converted(const Weights& weights, at::ScalarType dtype);
LayerWeights converted(const LayerWeights& layer, at::ScalarType dtype);

// The weights on a device. Numbers that decisions read (ParameterSpec::of_host) stay where they
// are.
Weights on_device(const ModelConfig& config, const Encoding& encoding, const Weights& weights,
                  const at::Device& device);

std::int64_t parameter_count(const NamedTensors& tensors);

}  // namespace phasescope::model
