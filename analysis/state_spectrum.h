#pragma once
// Of a position state (TAPE, arXiv 2501.00712): what its dot products are by distance, and at which
// frequencies along the text it turns.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace phasescope::analysis {

// The power spectrum of a state z (B or 1, H or 1, N, 2, d/2), batch entry 0: (N + 1) float64 at
// frequencies pi n / N, summed over heads and channels.
at::Tensor power_of_state(const at::Tensor& z);

// Mean of the dot products over `heads` heads and all pairs of tokens, at each of the `distances`
// (int64): the sums over pairs are an autocorrelation, which the transform of the power (N + 1)
// gives without N x N products.
std::vector<double> mean_by_distance(const at::Tensor& power, std::int64_t heads,
                                     const at::Tensor& distances);

// Where spectra of a text are shown, as indices of its frequencies: evenly in the logarithm, from
// one turn in the text to half a turn a token, but no closer to each other than the transform has
// frequencies.
std::vector<std::int64_t> spectrum_places(std::int64_t tokens);

// Share of the power between each place and the next: (places - 1).
std::vector<double> spectrum_shares(const at::Tensor& power,
                                    const std::vector<std::int64_t>& places);

}  // namespace phasescope::analysis
