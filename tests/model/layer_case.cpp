#include "layer_case.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "golden.h"

namespace phasescope::model {

ModelConfig layer_config(const std::string& encoding, const Json& options, std::int64_t heads,
                         std::int64_t head_dim) {
  ModelConfig config = tiny_config(encoding, options);
  config.heads = config.kv_heads = heads;
  config.head_dim = head_dim;
  config.width = heads * head_dim;
  return config;
}

Layer layer_of(const ModelConfig& config, const Parameters& parameters, at::Tensor q, at::Tensor k,
               at::Tensor v, at::ScalarType dtype, const Parameters& shared,
               const at::Tensor& ids) {
  for (at::Tensor* x : {&q, &k, &v}) {
    if (x->dim() == 3) *x = x->unsqueeze(0);
    *x = x->to(dtype);
  }
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  Parameters cast;
  for (const auto& [name, tensor] : parameters) cast[name] = tensor.to(dtype);
  Parameters shared_cast;
  for (const auto& [name, tensor] : shared) shared_cast[name] = tensor.to(dtype);
  StartContext context;
  context.positions.length = q.size(2);
  context.positions.ids = ids;
  context.dtype = context.angle_dtype = dtype;
  context.shared = &shared_cast;
  return {encoding->program(cast, q, k, encoding->start(context)), v};
}

at::Tensor causal_part(const at::Tensor& scores) { return scores.tril(); }

at::Tensor all_scores(const Layer& layer) {
  const Range all{0, layer.program.q.size(2)};
  return plain_scores(layer.program, {0, layer.program.q.size(1)}, all, all).nan_to_num(0, 0, 0);
}

void expect_layer(const ModelConfig& config, const Parameters& parameters, const std::string& file,
                  const std::string& inputs, const std::string& scores, const std::string& out,
                  double float32_loss) {
  const at::Tensor q = golden_tensor(file, inputs + "q");
  const at::Tensor k = golden_tensor(file, inputs + "k");
  const std::string v_name = inputs + "v";
  const at::Tensor v =
      has_golden_tensor(file, v_name) ? golden_tensor(file, v_name) : at::zeros_like(q);
  const Layer exact = layer_of(config, parameters, q, k, v, at::kDouble);
  const at::Tensor ours = all_scores(exact);
  at::Tensor reference = golden_tensor(file, scores).to(at::kDouble);
  if (reference.dim() == 3) reference = reference.unsqueeze(0);
  // Stored as float32 for some lengths: then no better than its rounding and the code's own loss.
  const bool rounded = golden_tensor(file, scores).scalar_type() == at::kFloat;
  const double float32_tolerance = std::max(1e-5, 3 * float32_loss);
  const std::string& key = config.encoding.key;
  const double of_scores = noted(key, file, rounded ? "f32" : "f64",
                                 relative_error(causal_part(ours), causal_part(reference)));
  EXPECT_LT(of_scores, rounded ? float32_tolerance : kExact) << file << " " << scores;
  std::printf("%-50s %-22s %s %.1e\n", file.c_str(), scores.c_str(), rounded ? "f32" : "f64",
              of_scores);
  if (!has_golden_tensor(file, out)) return;
  at::Tensor expected = golden_tensor(file, out);
  if (expected.dim() == 3) expected = expected.unsqueeze(0);
  const at::Tensor exactly = attention(exact.program, exact.v, {.backend = Backend::plain}).out;
  EXPECT_LT(noted(key, file, "f64", relative_error(exactly, expected)), kExact)
      << file << " " << out;
  double worst = 0;
  const Layer single = layer_of(config, parameters, q, k, v, at::kFloat);
  for (const Backend backend : {Backend::plain, Backend::fused}) {
    const at::NoGradGuard no_grad;
    const double error = noted(
        key, file, "f32",
        relative_error(attention(single.program, single.v, {.backend = backend}).out, expected));
    EXPECT_LT(error, float32_tolerance) << file << " " << out;
    worst = std::max(worst, error);
  }
  std::printf("%-50s %-22s f64 %.1e f32 %.1e\n", file.c_str(), out.c_str(),
              relative_error(exactly, expected), worst);
}

double recorded_loss(const char* name, const char* length) {
  const Json cases = formats::json_from_file(golden("papers/dape/cases.json"));
  return cases.at(name).at(length).at("f32_minus_f64").get<double>();
}

Parameters correction(const std::string& file, const std::string& prefix) {
  return {{"mlp.0.weight", golden_tensor(file, prefix + "0.weight")},
          {"mlp.0.bias", golden_tensor(file, prefix + "0.bias")},
          {"mlp.2.weight", golden_tensor(file, prefix + "2.weight")},
          {"mlp.2.bias", golden_tensor(file, prefix + "2.bias")}};
}

}  // namespace phasescope::model
