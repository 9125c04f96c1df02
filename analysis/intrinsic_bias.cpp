#include "analysis/intrinsic_bias.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "analysis/model_sides.h"
#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Whether every score is q.k / sqrt(D) of rotated q and k and nothing else, of all pairs.
bool scores_are_plain(const model::ModelConfig& config) {
  const model::AttentionConfig& attention = config.attention;
  const double usual = 1 / std::sqrt(static_cast<double>(config.head_dim));
  const bool windows =
      (attention.window > 0 || attention.chunk > 0) && !attention.local_layers.empty();
  const bool scaled = std::abs(config.score_scale() - usual) > 1e-6 * usual;
  return !windows && !scaled && attention.soft_cap == 0 && attention.log_scale == 0 &&
         attention.temperature == 0 && !attention.qk_norm_after && !attention.scale_by_layer &&
         !attention.layer_gain;
}

// The layers with maps that have the model's encoding, and heads of its width.
std::vector<std::int64_t> layers_of_encoding(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool own = &model.decoder.encoding_of(layer) == &model.encoding() &&
                     config.shape_of(layer).head_dim == config.head_dim;
    if (own && has_head(config, layer, 0)) layers.push_back(layer);
  }
  return layers;
}

}  // namespace

PlaneChannels plane_channels(const at::Tensor& x, PlaneLayout layout, std::int64_t dim) {
  const std::int64_t planes = x.size(dim) / 2;
  if (layout == PlaneLayout::half) {
    return {x.narrow(dim, 0, planes), x.narrow(dim, planes, planes)};
  }
  return {x.slice(dim, 0, 2 * planes, 2), x.slice(dim, 1, 2 * planes, 2)};
}

PlaneProducts plane_products(const at::Tensor& q, const at::Tensor& k, PlaneLayout layout) {
  const PlaneChannels x = plane_channels(q, layout, -1), y = plane_channels(k, layout, -1);
  return {x.first * y.first + x.second * y.second, x.first * y.second - x.second * y.first};
}

double PlaneMeans::mean_mu() const { return mean_of(mu); }
double PlaneMeans::mean_nu() const { return mean_of(nu); }

std::vector<double> sqrt_d_gamma(const PlaneMeans& means, std::span<const double> frequencies,
                                 std::span<const double> distances) {
  const PlaneMeans equal{std::vector<double>(frequencies.size(), means.mean_mu()),
                         std::vector<double>(frequencies.size(), means.mean_nu())};
  return per_plane_bias(equal, frequencies, distances);
}

std::vector<double> per_plane_bias(const PlaneMeans& means, std::span<const double> frequencies,
                                   std::span<const double> distances) {
  const double root = std::sqrt(2.0 * static_cast<double>(frequencies.size()));
  std::vector<double> out;
  for (const double distance : distances) {
    double sum = 0;
    for (std::size_t d = 0; d < frequencies.size(); ++d) {
      const double angle = distance * frequencies[d];
      sum += means.mu[d] * std::cos(angle) + means.nu[d] * std::sin(angle);
    }
    out.push_back(sum / root);
  }
  return out;
}

std::optional<Rotation> rotation_of(TextPass& pass) {
  const model::Encoding& encoding = pass.model().encoding();
  const model::ModelConfig& config = pass.model().config();
  if (!encoding.has_state() || !scores_are_plain(config)) return std::nullopt;
  Rotation rotation;
  rotation.layers = layers_of_encoding(pass.model());
  bool fixed = true;
  at::Tensor first;
  pass.visit_positions([&](std::int64_t index, const model::PositionState& state) {
    if (index < config.layers && !model::names_layer(rotation.layers, index)) return;
    if (!first.defined()) first = state.z;
    // Whatever the layers share beside z makes more of q and k than a rotation does.
    fixed = fixed && first.defined() && state.z.is_same(first) && !state.table.defined();
  });
  if (!first.defined() || !fixed || rotation.layers.empty()) return std::nullopt;
  const model::StartContext context =
      start_context(pass.model().decoder, pass.tokens(), at::kDouble);
  const at::Tensor frequencies = encoding.frequencies(context);
  if (!frequencies.defined() || 2 * frequencies.numel() != config.head_dim) return std::nullopt;
  rotation.frequencies = to_vector<double>(frequencies);
  rotation.layout = encoding.options().value("layout", "half") == "interleaved"
                        ? PlaneLayout::interleaved
                        : PlaneLayout::half;
  rotation.gain = first.to(at::kDouble).square().sum(-2).mean().item<double>();
  return rotation;
}

std::optional<Rotation> rotation_of_all(TextPass& pass) {
  std::optional<Rotation> rotation = rotation_of(pass);
  const model::ModelConfig& config = pass.model().config();
  for (std::int64_t layer = 0; layer < config.layers && rotation; ++layer) {
    const bool maps = has_head(config, layer, 0);
    if (maps && !model::names_layer(rotation->layers, layer)) rotation.reset();
  }
  return rotation;
}

Regimes regimes_of(std::span<const double> frequencies) {
  const double slowest = frequencies.back();
  const auto steps = static_cast<double>(frequencies.size()) - 1;
  const double step = steps > 0 ? std::pow(slowest / frequencies.front(), 1 / steps) : 1;
  const double scale = 1 / (slowest * step);  // 1 / theta_0, in the paper's distances
  const double turn = 2 * std::numbers::pi;
  return {turn * std::pow(scale, 0.25) / 8, turn * scale};
}

std::vector<double> frequencies_of_base(double base, std::size_t planes) {
  std::vector<double> out;
  for (std::size_t d = 0; d < planes; ++d) {
    out.push_back(std::pow(base, -static_cast<double>(d) / static_cast<double>(planes)));
  }
  return out;
}

std::vector<PlaneMeans> causal_plane_means(const model::LayerAttention& attention,
                                           PlaneLayout layout) {
  const at::NoGradGuard no_gradients;
  const at::Tensor q = attention.q()[0].to(at::kDouble);
  at::Tensor k = attention.k()[0].to(at::kDouble).cumsum(1);  // over keys 0..i
  k = k.repeat_interleave(attention.heads() / attention.kv_heads(), 0);
  const PlaneProducts sums = plane_products(q, k, layout);
  const auto tokens = static_cast<double>(attention.length());
  const double pairs = tokens * (tokens + 1) / 2;
  std::vector<PlaneMeans> means;
  for (std::int64_t head = 0; head < attention.heads(); ++head) {
    means.push_back({to_vector<double>(sums.a[head].sum(0) / pairs),
                     to_vector<double>(sums.b[head].sum(0) / pairs)});
  }
  return means;
}

std::vector<double> log_distances(double last, std::int64_t count) {
  std::vector<double> distances{0};
  for (std::int64_t n = 0; n < count; ++n) {
    const double share = count > 1 ? static_cast<double>(n) / static_cast<double>(count - 1) : 0;
    distances.push_back(std::exp(share * std::log(last)));
  }
  return distances;
}

}  // namespace phasescope::analysis
