#include "model/attention/turned.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

// 1 + temperature ln(1 + floor((i + from) / length)), or the smooth form, (N, 1) or (B, 1, N, 1).
at::Tensor temperatures(const AttentionConfig& a, const at::Tensor& ids, at::ScalarType dtype) {
  const at::Tensor lengths =
      (ids.to(at::kDouble) + static_cast<double>(a.temperature_from)) / a.temperature_length;
  const at::Tensor logarithms =
      a.temperature_smooth ? at::log(lengths.clamp_min(1)) : at::log1p(at::floor(lengths));
  const at::Tensor factors = (1 + a.temperature * logarithms).to(table_dtype(dtype)).unsqueeze(-1);
  return ids.dim() == 2 ? factors.unsqueeze(1) : factors;
}

void multiply_queries(const AttentionConfig& a, const at::Tensor& factors,
                      AttentionProgram& program) {
  // What a variant alone adds by the query is multiplied where it is; else the whole score is.
  const bool whole = a.temperature_smooth && !program.is<PlainProgram>();
  bool by_query = false;
  for_each_added(program, [&](const TensorInfo& info, at::Tensor& x) {
    if (!whole || info.query_dim < 0 || program.tokens.defined()) return;
    by_query = true;
    x = (x * factors).to(x.scalar_type());
  });
  if (whole && !by_query) {
    const at::Tensor rows = factors.squeeze(-1);
    at::Tensor& factor = program.tokens.factor;
    const at::Tensor own = rows.dim() == 1 ? rows.view({1, 1, -1}) : rows;
    factor = factor.defined() ? factor * own : own.expand({-1, program.q.size(1), -1});
    return;
  }
  program.q = (program.q * factors).to(program.q.scalar_type());
  program.transformed = true;
}

}  // namespace

at::Tensor of_unit_square(const at::Tensor& x, double eps) {
  return x * at::rsqrt(x.square().mean(-1, true) + eps);
}

bool has_temperature(const AttentionConfig& a, std::int64_t layer) {
  return a.temperature != 0 &&
         (a.temperature_layers.empty() || names_layer(a.temperature_layers, layer));
}

void change_turned(const ModelConfig& config, std::int64_t layer, const at::Tensor& ids,
                   at::ScalarType dtype, AttentionProgram& program) {
  if (config.attention.qk_norm_after && program.transformed) {
    const auto normed = [&config](const at::Tensor& x) {
      return of_unit_square(x, config.norm_eps);
    };
    program.q = normed(program.q), program.k = normed(program.k);
    const at::NoGradGuard shown_alone;
    program.q_normed = normed(program.q_plain), program.k_normed = normed(program.k_plain);
  }
  if (!has_temperature(config.attention, layer)) return;
  const at::Tensor factors = temperatures(config.attention, ids, dtype);
  const std::int64_t rows = program.q.size(2);
  multiply_queries(config.attention, factors.narrow(-2, factors.size(-2) - rows, rows), program);
}

}  // namespace phasescope::model
