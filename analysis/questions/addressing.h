#pragma once
// Does a head address by distance, by key, or by what only the pair can say: least squares of its
// scores s_ij = r_i + t_{i-j} + c_j + e_ij over the pairs 0 <= i - j < W. Softmax does not see r.
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/text_pass.h"
#include "protocol/messages/addressing.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

// All that least squares need of one head's scores in one text, each row's mean taken off.
struct ScoreMarginals {
  std::int64_t tokens = 0, within = 0;  // N, W
  std::vector<double> by_distance;      // (N) sums over the pairs of a distance
  std::vector<double> by_key;           // (N) sums over the rows that see a key
  double square = 0;                    // of the scores less their row's mean
  double between_rows = 0;              // sum over rows of n_i (mean of the row - mean)^2
  double raw_square = 0;                // of the scores as they are

  double pairs() const;
};

// Sums of squares of sets of effects, less that of the rows: SS(r,t) - SS(r), and so on.
struct AddressingSums {
  double within = 0, distance_first = 0, key_first = 0, both = 0;
};
// Normal equations with the counts of a triangle (or band), by conjugate gradients; a product with
// them is six prefix sums, so that O(N) numbers and steps suffice.
AddressingSums addressing_sums(const ScoreMarginals& marginals);

struct AddressingOptions {
  bool content = false;     // of the content score alone
  std::int64_t within = 0;  // W; 0: all pairs
  std::vector<std::int64_t> layers, heads;
  std::uint64_t seed = 0;
};

// The marginals of every head of a layer, (heads), row block by row block in float64; cancelling is
// asked for each. windows (heads), or none: a head sees keys nearer than this alone; -1 for all.
std::vector<ScoreMarginals> marginals_of(
    const model::LayerAttention& attention, const AddressingOptions& options,
    const protocol::Progress& progress = protocol::NoProgress(),
    const std::vector<std::int64_t>& windows = {});

// One forward pass a text. Sums of squares are added over texts, then divided; ratio intervals by
// text. Throws Error "not_applicable" for models that see both ways.
protocol::AddressingResult analyse_addressing(const std::vector<std::shared_ptr<TextPass>>& passes,
                                              const AddressingOptions& options,
                                              protocol::Progress& progress);

}  // namespace phasescope::analysis
