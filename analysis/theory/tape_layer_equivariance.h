#pragma once
// tape.layer_equivariance: each layer alone meets both equivariances (TAPE, arXiv 2501.00712, Lemma
// B.6 and Equations 4 and 5).
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/tape_circuit.h"

namespace phasescope::analysis {

TheoryCheck tape_layer_equivariance();

// One layer of the circuit on its own inputs.
struct CircuitLayerCase {
  int layer = 1;
  CircuitState input;
  at::Tensor tokens;  // (N, 11), the one-hot x of layer 1
  at::Tensor mask;    // (N, N) bool
};
struct LayerResidual {
  double x = 0, e = 0;  // largest differences
  double largest() const;
};
// Under a permutation of the tokens, the mask permuted with them unless `permute_mask` is false.
LayerResidual permuted_layer(const CircuitLayerCase& layer, const at::Tensor& permutation,
                             bool permute_mask = true);
// e times `turn` on the right, (6, 6), or (N, 6, 6) for one a token.
LayerResidual turned_layer(const CircuitLayerCase& layer, const at::Tensor& turn);

// The circuit's four layers on a word.
std::vector<CircuitLayerCase> circuit_layers(const std::vector<std::int64_t>& word,
                                             at::ScalarType dtype);

}  // namespace phasescope::analysis
