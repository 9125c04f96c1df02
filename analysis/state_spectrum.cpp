#include "analysis/state_spectrum.h"

#include <ATen/ATen.h>

#include <cmath>

#include "analysis/tensors.h"

namespace phasescope::analysis {

at::Tensor power_of_state(const at::Tensor& z) {
  const at::Tensor heads = z[0].flatten(-2).to(at::kDouble).transpose(1, 2);  // (H, 2 planes, N)
  const std::int64_t tokens = heads.size(2);
  at::Tensor power = at::zeros({tokens + 1}, at::kDouble);
  for (const at::Tensor& channels : heads.flatten(0, 1).split(64)) {
    power += at::fft_rfft(channels, 2 * tokens).abs().square().sum(0);
  }
  return power;
}

std::vector<double> mean_by_distance(const at::Tensor& power, std::int64_t heads,
                                     const at::Tensor& distances) {
  const std::int64_t tokens = power.size(0) - 1;
  const at::Tensor pairs = at::arange(tokens, 0, -1, at::kDouble) * heads;
  const at::Tensor means = at::fft_irfft(power, 2 * tokens).slice(0, 0, tokens) / pairs;
  return to_vector<double>(means.index_select(0, distances));
}

std::vector<std::int64_t> spectrum_places(std::int64_t tokens) {
  constexpr int kPlaces = 96;
  std::vector<std::int64_t> places;
  for (int n = 0; n <= kPlaces; ++n) {
    const double share = n / double{kPlaces};
    const auto place = static_cast<std::int64_t>(
        std::llround(2 * std::pow(static_cast<double>(tokens) / 2, share)));
    if (place <= tokens && (places.empty() || place > places.back())) places.push_back(place);
  }
  return places;
}

std::vector<double> spectrum_shares(const at::Tensor& power,
                                    const std::vector<std::int64_t>& places) {
  auto values = to_vector<double>(power);
  for (std::size_t n = 1; n + 1 < values.size(); ++n) values[n] *= 2;  // both signs of a frequency
  double all = 0;
  for (const double x : values) all += x;
  std::vector<double> shares;
  for (std::size_t n = 0; n + 1 < places.size(); ++n) {
    double sum = 0;
    for (std::int64_t at = places[n]; at < places[n + 1]; ++at) {
      sum += values[static_cast<std::size_t>(at)];
    }
    shares.push_back(sum / all);
  }
  return shares;
}

}  // namespace phasescope::analysis
