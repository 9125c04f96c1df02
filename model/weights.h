#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/encoding.h"

namespace phasescope::model {

// One layer's tensors; projections are (out, in), as torch's Linear has them. Undefined biases are
// absent ones.
struct LayerWeights {
  at::Tensor attention_norm;               // (C)
  at::Tensor wq, wk, wv, wo;               // (H d, C), (kv d, C), (kv d, C), (C, H d)
  at::Tensor bq, bk, bv, bo;
  at::Tensor mlp_norm;                     // (C)
  at::Tensor gate, up, down;               // (F, C), (F, C), (C, F)
  at::Tensor gate_bias, up_bias, down_bias;
  Parameters encoding;
};

struct Weights {
  at::Tensor embedding;   // (V, C)
  at::Tensor final_norm;  // (C)
  at::Tensor head;        // (V, C); undefined where it is the embedding
  std::vector<LayerWeights> layers;
  Parameters encoding;    // shared by all layers
};

// Canonical names are Llama's ("model.layers.0.self_attn.q_proj.weight"), and
// "model.layers.N.encoding.NAME", "model.encoding.NAME" for the encoding's.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  bool optional = false;
  bool trainable = true;
  bool decays = true;  // weight decay applies: matrices, not norms or biases
  ParameterSpec::Init init = ParameterSpec::Init::normal;
  double low = 0, high = 1;
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

std::int64_t parameter_count(const NamedTensors& tensors);

}  // namespace phasescope::model
