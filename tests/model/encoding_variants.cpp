#include "encoding_variants.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "golden.h"
#include "model/attention/fused_attention.h"

namespace phasescope::model {
namespace {

// Random everywhere: at their own initialisation some updates are zero and would hide.
Weights random_weights(const ModelConfig& config, const Encoding& encoding) {
  Weights weights = init_weights(config, encoding, 3);
  std::uint64_t seed = 11;
  for (LayerWeights& layer : weights.layers) {
    for (auto& [name, tensor] : layer.encoding) {
      at::manual_seed(seed++);
      if (tensor.dim() == 2) tensor = at::randn_like(tensor) * 0.3;
    }
  }
  return weights;
}

}  // namespace

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (const EncodingEntry& entry : encodings()) {
    const EncodingInfo& info = *entry.info;
    Json base = Json::object();
    // Texts here are longer than the tiny configuration's context.
    if (info.key == "learned") base["max_positions"] = 128;
    list.push_back({info.key, info.key, base});
    for (const OptionInfo& option : info.options) {
      for (const std::string& choice : option.choices) {
        if (option.fallback == choice) continue;
        Json options = base;
        options[option.key] = choice;
        if (option.key == "scaling") options["factor"] = 2.0;
        list.push_back({info.key + "_" + option.key + "_" + choice, info.key, options});
      }
    }
  }
  list.push_back({"rope_partial", "rope", {{"partial_rotary_factor", 0.5}}});
  list.push_back({"rope_values", "rope", {{"rotate_values", true}}});
  list.push_back({"cape_conv_fire", "cape", {{"form", "conv"}, {"base", "fire"}}});
  // Past it at the short lengths of gradients too, or at the long ones alone.
  for (const std::string activation : {"relu", "leaky_relu"}) {
    list.push_back({"fire_far_past_its_threshold_" + activation,
                    "fire",
                    {{"threshold", 5.5}, {"activation", activation}}});
  }
  list.push_back({"fire_past_its_threshold", "fire", {{"threshold", 20.5}}});
  list.push_back(
      {"cape_fire_past_its_threshold", "cape", {{"base", "fire"}, {"base_threshold", 20.5}}});
  list.push_back({"cape_rotated", "cape", {{"rotate", true}}});
  list.push_back({"tape_without_equivariance", "tape", {{"equivariance", false}}});
  list.push_back(
      {"tape_channels_interleaved", "tape", {{"equivariance", false}, {"layout", "interleaved"}}});
  list.push_back({"tape_adavector_rowsum",
                  "tape",
                  {{"tensor_form", "adavector"}, {"post_attention_linear", "rowsum"}}});
  list.push_back({"ape_sequence_no_decay", "ape_sequence", {{"decay", 1.0}}});
  list.push_back({"rope_nope_every_other", "rope_nope", {{"nope_every", 2}}});
  list.push_back({"rope_nope_temperature",
                  "rope_nope",
                  {{"nope_every", 2}, {"temperature", 0.5}, {"temperature_length", 3.0}}});
  list.push_back({"fox_rotated", "fox", {{"rotate", true}}});
  list.push_back({"rope_fewer_planes", "rope", {{"turning_planes", 0.5}}});
  list.push_back({"rope_learned_angles", "rope", {{"stored_angles", true}}});
  list.push_back({"fope_of_many_planes", "fope", {{"base", 10.0}, {"learned", true}}});
  list.push_back({"relative_logits_of_few_distances", "relative_logits", {{"extent", 5}}});
  list.push_back({"alibi_scaled", "alibi", {{"scaled", true}}});
  list.push_back({"tapa_gain", "tapa", {{"phase_gain", 0.3}}});
  list.push_back({"tapa_norm", "tapa", {{"phase_norm", 0.3}}});
  for (const auto& [name, expression] : {
           std::pair{"formula_term", "score = content*log1p(i) - tanh(dot(q[:2], k[:2]))"},
           std::pair{"formula_rotated",
                     "param w[head, plane] ~ ones; score = scale*sum(inphase(q,k)*cos(lam*w) + "
                     "quadrature(q,k)*sin(lam*w)) - 0.1*lam"},
           std::pair{"formula_of_heads",
                     "param w[head, head] ~ normal(0.3); score = own(linear(w, heads(content)))"},
       }) {
    list.push_back({name, "formula", {{"expression", expression}}});
  }
  return list;
}

namespace {

// What has no fused form, and whose.
const std::map<std::string, std::set<std::string>>& without_fused_form() {
  static const std::map<std::string, std::set<std::string>> list = {
      {"a term that is no table of distances",
       {"ape_grid", "ape_grid_distance_manhattan", "ape_grid_start_identity",
        "ape_grid_start_public_rope", "ape_tree", "ape_tree_numbering_depth_first",
        "ape_tree_paths_public", "ape_tree_start_identity", "ape_tree_start_public_rope",
        "ape_tree_steps_public", "cape_conv_fire", "cape_form_conv", "tape_circuit"}},
      {"a distance that is counted from the scores of all keys between", {"cope"}},
      {"a formula that is neither a table of distances nor a known form",
       {"formula_of_heads", "formula_term"}},
      {"a map that was read from a file", {"imported_tensors_maps"}},
      {"a product of matrices of all tokens between a key and its query", {"path"}},
      {"a piece of what the keys nearer to the query have left", {"stick_breaking"}},
  };
  return list;
}

}  // namespace

std::string plain_on_cpu(const std::string& variant) {
  for (const auto& [what, names] : without_fused_form()) {
    if (names.contains(variant)) return what + " has no fused form";
  }
  return "";
}

std::string plain_on_cuda(const std::string& variant) {
  // Its queries and keys have a fourth of a head's channels, of which the tiny model has eight.
  if (variant == "tape_tensor_form_L4R1") {
    return "heads of 2 channels with values of 8 have no form in the CUDA kernels";
  }
  // Those that go by nothing but r, of few distances, are a table of each query's own there.
  if (variant == "shaw") {
    return "relative keys of either side have no form in the CUDA kernels";
  }
  if (variant == "transformer_xl") {
    return "numbers of tokens beside relative keys have no form in the CUDA kernels";
  }
  return plain_on_cpu(variant);
}

std::shared_ptr<const Model> tiny_model(const Variant& variant, at::ScalarType dtype) {
  const ModelConfig config = tiny_config(variant.encoding, variant.options);
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  return model_of(config, converted(random_weights(config, *encoding), dtype), variant.name);
}

std::vector<at::Tensor> output_and_gradients(const LayerAttention& layer, at::ScalarType dtype,
                                             Backend backend) {
  const bool as_it_is = dtype == layer.v().scalar_type();
  AttentionProgram program = as_it_is ? layer.program() : in_dtype(layer.program(), dtype);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : {program.q, program.k, layer.v().to(dtype)}) {
    leaves.push_back(x.detach().clone().requires_grad_());
  }
  program.q = leaves[0];
  program.k = leaves[1];
  const at::Tensor out = attention(program, leaves[2], {.backend = backend}).out;
  EXPECT_EQ(out.scalar_type(), dtype);
  const at::Tensor weights = at::arange(out.numel(), at::kDouble).cos().view(out.sizes());
  (out * weights.to(dtype)).sum().backward();
  std::vector<at::Tensor> result{out.detach()};
  for (const at::Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

}  // namespace phasescope::model
