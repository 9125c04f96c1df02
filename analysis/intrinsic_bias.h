#pragma once
// What RoPE's rotation makes of the mean content: the intrinsic distance bias (TAPA, arXiv
// 2509.12635, Definition 2.1), from q and k before the rotation. lambda is a model's distance:
// plane d turns by lambda theta_d.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/text_pass.h"

namespace phasescope::analysis {

// Channels of the planes of a rotation: (2d, 2d + 1), or (d, d + D/2).
enum class PlaneLayout { interleaved, half };

// The two channels of every plane: x with the channels in its first dimension, or in its last.
struct PlaneChannels {
  at::Tensor first, second;
};
PlaneChannels plane_channels(const at::Tensor& x, PlaneLayout layout, std::int64_t dim = 0);

// A_d = q_2d k_2d + q_2d+1 k_2d+1 and B_d = q_2d k_2d+1 - q_2d+1 k_2d of pairs of rows, (P, D/2).
struct PlaneProducts {
  at::Tensor a, b;
};
PlaneProducts plane_products(const at::Tensor& q, const at::Tensor& k, PlaneLayout layout);

// Means of A_d and B_d of each plane.
struct PlaneMeans {
  std::vector<double> mu, nu;
  double mean_mu() const;
  double mean_nu() const;
};

// sqrt(D) Gamma(lambda) = (1/sqrt D) (mu_0 sum cos(lambda theta_d) + nu_0 sum sin(lambda theta_d)),
// with mu_0, nu_0 the means over planes: the mean score if all planes have the same means.
std::vector<double> sqrt_d_gamma(const PlaneMeans& means, std::span<const double> frequencies,
                                 std::span<const double> distances);
// (1/sqrt D) sum (mu_d cos(lambda theta_d) + nu_d sin(lambda theta_d)): the mean score if the means
// do not depend on distance.
std::vector<double> per_plane_bias(const PlaneMeans& means, std::span<const double> frequencies,
                                   std::span<const double> distances);

// How a model rotates: frequencies in radians a token, the layout of its planes, and |z|^2 (the
// square of YaRN's factor).
struct Rotation {
  std::vector<double> frequencies;
  PlaneLayout layout = PlaneLayout::half;
  double gain = 1;
  std::vector<std::int64_t> layers;  // those with maps that the model's encoding turns so
};
// Of the layers that have the model's own encoding; empty where that does not rotate q and k by
// fixed angles.
std::optional<Rotation> rotation_of(TextPass& pass);
// Empty also where some layer with maps has another encoding, or heads of another width.
std::optional<Rotation> rotation_of_all(TextPass& pass);

// Where a rotation's regimes lie in a model's distances (TAPA, Section 2): 1 / theta_0 is 2 pi over
// the angle after the slowest one of the series, which is 2 pi base where nothing is scaled. Local
// to 2 pi (1 / theta_0)^(1/4) / 8 of the paper's distances, which are a model's over 2 pi.
struct Regimes {
  double local_to = 0, ultra_from = 0;
};
Regimes regimes_of(std::span<const double> frequencies);

// base^(-2d/D), d = 0 .. planes - 1.
std::vector<double> frequencies_of_base(double base, std::size_t planes);

// Exact means over all causal pairs of one layer, for every head; O(N D).
std::vector<PlaneMeans> causal_plane_means(const model::LayerAttention& attention,
                                           PlaneLayout layout);

// 0, and `count` distances evenly spread in the logarithm of [1, last].
std::vector<double> log_distances(double last, std::int64_t count);

}  // namespace phasescope::analysis
