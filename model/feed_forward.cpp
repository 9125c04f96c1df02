#include "model/feed_forward.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "model/rms_norm.h"

namespace phasescope::model {
namespace {

constexpr double kGeluConstant = 0.79788456;  // sqrt(2 / pi), rounded as some checkpoints have it

// The scores (tokens, experts) with -inf for experts outside a token's best groups.
at::Tensor in_best_groups(const ExpertsConfig& config, const at::Tensor& scores) {
  const at::Tensor by_group = scores.unflatten(-1, {config.groups, -1});
  const at::Tensor ranks =
      config.groups_by_two ? std::get<0>(at::topk(by_group, 2, -1)).sum(-1) : by_group.amax(-1);
  const at::Tensor best = std::get<1>(at::topk(ranks, config.groups_per_token, -1));
  const at::Tensor open = at::zeros_like(ranks, at::kBool).scatter(-1, best, true);
  return by_group
      .masked_fill(open.logical_not().unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .flatten(-2);
}

// down(act(gate x) * up x) of one expert, or with clamped parts where there is a limit.
at::Tensor expert_output(const ModelConfig& config, const ExpertWeights& w, const at::Tensor& x,
                         double limit, std::optional<at::ScalarType> product_dtype) {
  const at::Tensor gate = product(x, w.gate, w.gate_bias, product_dtype);
  const at::Tensor up = product(x, w.up, w.up_bias, product_dtype);
  if (limit <= 0) {
    return product(activated(gate, config.mlp.activation) * up, w.down, w.down_bias, product_dtype);
  }
  const at::Tensor clamped = gate.clamp_max(limit);
  const at::Tensor glu = clamped * at::sigmoid(clamped * config.experts.alpha);
  return product((up.clamp(-limit, limit) + 1) * glu, w.down, w.down_bias, product_dtype);
}

// What experts that `chosen` names make of x (tokens, C): of all tokens each, and taken where it is
// theirs. Which these are stays on the device, where a number that the host asks for waits for all
// that was enqueued, once for each expert; `count / per_token` times the products are the price.
at::Tensor of_all(const ModelConfig& config, const LayerWeights& w, const at::Tensor& x,
                  const ChosenExperts& chosen, std::optional<at::ScalarType> product_dtype,
                  at::ScalarType out) {
  const ExpertsConfig& experts = config.experts;
  at::Tensor sum = at::zeros(x.sizes(), x.options().dtype(out));
  for (std::int64_t n = 0; n < experts.count; ++n) {
    const at::Tensor own = chosen.experts.eq(n);  // (tokens, per_token), one of a row at most
    const at::Tensor here = own.any(-1, /*keepdim=*/true);  // (tokens, 1)
    const at::Tensor weight = chosen.weights.masked_fill(own.logical_not(), 0).sum(-1, true);
    const at::Tensor read = experts.weighted_inputs ? x * weight.to(x.scalar_type()) : x;
    at::Tensor y = expert_output(config, w.experts[static_cast<std::size_t>(n)], read,
                                 experts.limit, product_dtype)
                       .to(out);
    if (!experts.weighted_inputs) y = y * weight.to(out);
    // Not a product with 0: an expert may overflow on a token that is not its own.
    sum = sum + y.masked_fill(here.logical_not(), 0);
  }
  return sum;
}

// What the chosen experts make of x (tokens, C), each reading its own tokens alone.
at::Tensor of_chosen(const ModelConfig& config, const LayerWeights& w, const at::Tensor& x,
                     const ChosenExperts& chosen, std::optional<at::ScalarType> product_dtype,
                     at::ScalarType out) {
  if (!x.is_cpu()) return of_all(config, w, x, chosen, product_dtype, out);
  const ExpertsConfig& experts = config.experts;
  at::Tensor sum = at::zeros(x.sizes(), x.options().dtype(out));
  for (std::int64_t n = 0; n < experts.count; ++n) {
    // (rows, 2)
    const at::Tensor places = chosen.experts.eq(n).nonzero();
    if (places.size(0) == 0) continue;
    const at::Tensor token = places.select(1, 0);
    const at::Tensor weight = chosen.weights.index({token, places.select(1, 1)}).unsqueeze(1);
    const at::Tensor read = x.index_select(0, token);
    const ExpertWeights& own = w.experts[static_cast<std::size_t>(n)];
    const at::Tensor y =
        experts.weighted_inputs
            ? expert_output(config, own, read * weight.to(read.scalar_type()), experts.limit,
                            product_dtype)
                  .to(out)
            : expert_output(config, own, read, experts.limit, product_dtype).to(out) *
                  weight.to(out);
    sum = sum.index_add(0, token, y);
  }
  return sum;
}

// What is left of gates (..., F) above the quantile `share` of a normal distribution with their
// mean and deviation.
at::Tensor above_quantile(const at::Tensor& gates, double share) {
  if (share == 0) return gates;
  const double deviations = at::special_ndtri(at::scalar_tensor(share, at::kDouble)).item<double>();
  const at::Tensor mean = gates.mean(-1, true);
  const at::Tensor deviation = (gates - mean).square().mean(-1, true).sqrt();
  return at::relu(gates - (mean + deviation * deviations));
}

at::Tensor mlp_output(const ModelConfig& config, const LayerWeights& weights, const at::Tensor& x,
                      std::optional<at::ScalarType> product_dtype, at::ScalarType out,
                      double sparsity) {
  const at::Tensor up = product(x, weights.up, weights.up_bias, product_dtype);
  const std::string& activation = config.mlp.activation;
  const auto gate = [&] {
    return above_quantile(product(x, weights.gate, weights.gate_bias, product_dtype), sparsity);
  };
  const at::Tensor inner =
      config.mlp.gated ? activated(gate(), activation) * up : activated(up, activation);
  const at::Tensor made = product(inner, weights.down, weights.down_bias, product_dtype).to(out);
  return weights.mlp_scale.defined() ? made * weights.mlp_scale : made;
}

at::Tensor of_experts(const ModelConfig& config, const LayerWeights& w, const at::Tensor& given,
                      std::optional<at::ScalarType> product_dtype, at::ScalarType out) {
  const ExpertsConfig& experts = config.experts;
  const at::Tensor x = given.flatten(0, -2);  // (tokens, C)
  const ChosenExperts chosen = choose_experts(experts, w, x, product_dtype);
  at::Tensor sum = of_chosen(config, w, x, chosen, product_dtype, out);
  if (experts.shared_width > 0) {
    at::Tensor shared = expert_output(config, w.shared_expert, x, 0, product_dtype).to(out);
    if (experts.shared_gate) {
      shared = shared * at::sigmoid(product(x, w.shared_expert_gate, {}, product_dtype)).to(out);
    }
    sum = sum + shared;
  }
  for (std::int64_t n = 0; n < experts.shared_count; ++n) {
    const ExpertWeights& own = w.shared_experts[static_cast<std::size_t>(n)];
    sum = sum + expert_output(config, own, x, 0, product_dtype).to(out) *
                    chosen.shared.narrow(-1, n, 1).to(out);
  }
  return sum.view(given.sizes());
}

// The weights of the chosen experts and of those that every token has, from all logits.
ChosenExperts with_shared(const ExpertsConfig& config, const LayerWeights& weights,
                          const at::Tensor& logits, ChosenExperts chosen) {
  const at::Tensor joint = at::cat(
      {logits.gather(-1, chosen.experts), logits.narrow(-1, config.count, config.shared_count)},
      -1);
  const at::Tensor shares = at::softmax(at::log_sigmoid(joint), -1) * config.scale *
                            weights.router_total.to(joint.scalar_type());
  chosen.weights = shares.narrow(-1, 0, config.per_token);
  chosen.shared = shares.narrow(-1, config.per_token, config.shared_count);
  return chosen;
}

}  // namespace

at::Tensor activated(const at::Tensor& x, const std::string& name) {
  if (name == "gelu") return at::gelu(x);
  if (name == "gelu_tanh") return at::gelu(x, "tanh");
  if (name == "gelu_tanh_short") {
    return 0.5 * x * (1 + at::tanh(kGeluConstant * x * (1 + 0.044715 * x * x)));
  }
  if (name == "relu") return at::relu(x);
  if (name == "relu_squared") return at::relu(x).square();
  if (name == "quick_gelu") return x * at::sigmoid(1.702 * x);
  if (name == "tanh") return at::tanh(x);
  return at::silu(x);
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   std::optional<at::ScalarType> product_dtype) {
  if (!product_dtype) return at::linear(x, weight, bias);
  return at::linear(x.to(*product_dtype), weight.to(*product_dtype),
                    bias.defined() ? bias.to(*product_dtype) : bias);
}

at::Tensor soft_capped(const at::Tensor& x, double cap) {
  return cap > 0 ? cap * at::tanh(x / cap) : x;
}

ChosenExperts choose_experts(const ExpertsConfig& config, const LayerWeights& weights,
                             const at::Tensor& x, std::optional<at::ScalarType> product_dtype) {
  const at::Tensor all = soft_capped(product(x, weights.router, weights.router_bias, product_dtype),
                                     config.router_cap);
  const at::Tensor logits = all.narrow(-1, 0, config.count);
  const at::Tensor scores =
      config.router == "sigmoid" ? at::sigmoid(logits) : at::softmax(logits, -1);
  at::Tensor ranked = weights.choice_bias.defined()
                          ? scores + weights.choice_bias.to(scores.scalar_type())
                          : scores;
  if (config.groups > 1) ranked = in_best_groups(config, ranked);
  ChosenExperts chosen;
  chosen.experts = std::get<1>(at::topk(ranked, config.per_token, -1));
  if (config.shared_count > 0) return with_shared(config, weights, all, std::move(chosen));
  chosen.weights = scores.gather(-1, chosen.experts);
  if (config.normalised) chosen.weights = chosen.weights / chosen.weights.sum(-1, true);
  if (config.scale != 1) chosen.weights = chosen.weights * config.scale;
  return chosen;
}

at::Tensor feed_forward(const ModelConfig& config, const LayerWeights& weights, const at::Tensor& x,
                        std::optional<at::ScalarType> product_dtype, at::ScalarType out,
                        double sparsity) {
  if (weights.router.defined() && !config.experts.beside) {
    return of_experts(config, weights, x, product_dtype, out);
  }
  return mlp_output(config, weights, x, product_dtype, out, sparsity);
}

at::Tensor experts_beside(const ModelConfig& config, const LayerWeights& w,
                          const at::Tensor& stream, const at::Tensor& of_mlp,
                          std::optional<at::ScalarType> product_dtype) {
  const at::ScalarType out = stream.scalar_type();
  const double eps = config.norm_eps;
  const at::Tensor x = stream.flatten(0, -2);
  const at::Tensor plain = x * at::rsqrt(x.square().mean(-1, true) + eps);
  const at::Tensor read = plain * (w.router_scale / std::sqrt(static_cast<double>(config.width)));
  ChosenExperts chosen = choose_experts(config.experts, w, read, product_dtype);
  chosen.weights = chosen.weights * w.expert_scale.index({chosen.experts});
  const at::Tensor sum =
      of_chosen(config, w, rms_norm(x, w.experts_norm, eps, out), chosen, product_dtype, out);
  return rms_norm(of_mlp, w.mlp_alone_norm, eps, out) +
         rms_norm(sum, w.experts_output_norm, eps, out).view(stream.sizes());
}

}  // namespace phasescope::model
