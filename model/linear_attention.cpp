#include "model/linear_attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "model/feed_forward.h"
#include "model/rms_norm.h"

namespace phasescope::model {
namespace {

constexpr double kLengthEps = 1e-6;  // of the squared length of q and k

at::Tensor of_unit_length(const at::Tensor& x) {
  return x * at::rsqrt(x.square().sum(-1, true) + kLengthEps);
}

// What the rule reads, each (B, heads, N, ...): q and k (.., d_k), v (.., d_v), decay and beta
// (..).
struct RuleInputs {
  at::Tensor q, k, v, decay, beta;
};

// o (B, heads, N, d_v). `state` (B, heads, d_k, d_v) is that before the tokens, undefined for none,
// and becomes that after them.
at::Tensor run_rule(const RuleInputs& in, at::Tensor& state) {
  if (!state.defined()) {
    state = at::zeros({in.q.size(0), in.q.size(1), in.q.size(3), in.v.size(3)}, in.q.options());
  }
  std::vector<at::Tensor> outputs;
  for (std::int64_t n = 0; n < in.q.size(2); ++n) {
    const auto at_token = [n](const at::Tensor& x) { return x.select(2, n); };
    state = state * at_token(in.decay).unsqueeze(-1).unsqueeze(-1);
    const at::Tensor key = at_token(in.k).unsqueeze(-1);
    const at::Tensor known = (state * key).sum(-2);  // S^T k
    const at::Tensor change = (at_token(in.v) - known) * at_token(in.beta).unsqueeze(-1);
    state = state + key * change.unsqueeze(-2);
    outputs.push_back((state * at_token(in.q).unsqueeze(-1)).sum(-2));
  }
  return at::stack(outputs, 2);
}

}  // namespace

at::Tensor causal_convolution(const at::Tensor& x, const at::Tensor& weight, at::Tensor& last) {
  const std::int64_t kernel = weight.size(1), tokens = x.size(1);
  const at::Tensor padded =
      last.defined() ? at::cat({last, x}, 1) : at::constant_pad_nd(x, {0, 0, kernel - 1, 0});
  last = padded.narrow(1, tokens, kernel - 1);
  at::Tensor sum;
  for (std::int64_t n = 0; n < kernel; ++n) {
    const at::Tensor part = padded.narrow(1, n, tokens) * weight.select(1, n);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

at::Tensor linear_attention(const ModelConfig& config, const LayerWeights& weights,
                            const at::Tensor& given, const at::Tensor& present,
                            std::optional<at::ScalarType> product_dtype, at::ScalarType out,
                            LinearState* kept) {
  const LinearConfig& linear = config.linear;
  LinearState none;
  LinearState& before = kept != nullptr ? *kept : none;
  const at::Tensor x =
      present.defined() ? given.masked_fill(present.logical_not().unsqueeze(-1), 0.0) : given;
  // What a state has lost stays lost for all later tokens, and an output of nearly nothing is
  // divided by its size: all is computed in float64, the projections too unless another dtype is
  // asked for.
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const at::ScalarType inner = product_dtype.value_or(at::kDouble);
  const auto project = [&](const at::Tensor& weight) {
    return wide(product(x, weight, {}, inner));
  };
  const at::Tensor u = at::silu(
      causal_convolution(project(weights.linear_qkv), wide(weights.linear_conv), before.last));
  const std::int64_t keys = linear.key_heads * linear.key_dim;
  // (B, N, heads * d) -> (B, value heads, N, d): value head h reads key head h / group.
  const std::int64_t group = linear.value_heads / linear.key_heads;
  const auto key_heads = [&](std::int64_t first) {
    return u.narrow(-1, first, keys)
        .unflatten(-1, {linear.key_heads, linear.key_dim})
        .repeat_interleave(group, 2)
        .transpose(1, 2);
  };
  RuleInputs in;
  in.q = of_unit_length(key_heads(0)) / std::sqrt(static_cast<double>(linear.key_dim));
  in.k = of_unit_length(key_heads(keys));
  in.v = u.narrow(-1, 2 * keys, linear.value_heads * linear.value_dim)
             .unflatten(-1, {linear.value_heads, linear.value_dim})
             .transpose(1, 2);
  const at::Tensor rate = at::softplus(project(weights.linear_a) + wide(weights.linear_dt_bias));
  in.decay = at::exp(-at::exp(wide(weights.linear_log_decay)) * rate).transpose(1, 2);
  in.beta = at::sigmoid(project(weights.linear_b)).transpose(1, 2);
  const at::Tensor o = run_rule(in, before.state).transpose(1, 2);  // (B, N, heads, d_v)
  const at::Tensor z = project(weights.linear_z).unflatten(-1, {linear.value_heads, -1});
  const at::Tensor gated =
      plain_rms_norm(o, wide(weights.linear_norm), config.norm_eps) * at::silu(z);
  return product(gated.flatten(-2).to(out), weights.linear_out, {}, product_dtype).to(out);
}

}  // namespace phasescope::model
