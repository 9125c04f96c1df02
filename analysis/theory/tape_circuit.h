#pragma once
// tape.circuit: four layers of TAPE solve the word problem of the permutations of five things
// (TAPE, arXiv 2501.00712, Theorem 4.1 and Appendix B.1, corrected).
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/random.h"
#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck tape_circuit();

// Tokens 0..9 are the transpositions (a b), a < b, in lexicographic order; token 10 is [bos].
inline constexpr std::int64_t kCircuitBos = 10;
std::array<std::int64_t, 2> transposition(std::int64_t token);
// Row n of Xi: delta_a - delta_b in R^6; that of [bos] is zero. (11, 6) float64.
at::Tensor circuit_vectors();

// Inputs and outputs of the layers: x (N, C) and e (N, L, 6). Before layer 1 x is one-hot (11) and
// e is [Xi; I] (17 rows).
struct CircuitState {
  at::Tensor x, e;
};
CircuitState circuit_input(const std::vector<std::int64_t>& word, at::ScalarType dtype);

// What is changed on purpose. `diagonal`: M of layer 2 keeps its diagonal, as printed; `sharp`: e
// is multiplied by i after layer 3 (Remark B.2), for a margin that stays.
struct CircuitOptions {
  bool diagonal = false, sharp = false;
};
// Layer 1 to 4 under a mask (N, N) bool with a diagonal. `tokens`: the one-hot x of layer 1, which
// layer 2 reads again.
CircuitState circuit_layer(int layer, const CircuitState& state, const at::Tensor& tokens,
                           const at::Tensor& mask, const CircuitOptions& options = {});

struct CircuitRun {
  std::vector<CircuitState> states;  // before layer 1 and after each
  at::Tensor weight;                 // (N) layer 4's on [bos]
  at::Tensor logit;                  // (N) +0.5 for the identity, at most -0.5 otherwise
  at::Tensor margin;                 // (N) weight - 1/i, whose sign is the label
};
CircuitRun run_circuit(const std::vector<std::int64_t>& word, at::ScalarType dtype,
                       const CircuitOptions& options = {});

// Whether the product of the transpositions up to each token is the identity.
std::vector<bool> circuit_labels(const std::vector<std::int64_t>& word);

// A word that returns to the identity again and again and leaves it by an adjacent transposition.
std::vector<std::int64_t> returning_word(Random& random, std::int64_t length);

struct CircuitErrors {
  std::int64_t identities = 0, missed = 0;  // positions whose label is 1, and those labelled 0
  std::int64_t others = 0, false_identities = 0;
  std::int64_t nearest = 0;  // positions whose logit is -0.5
};
CircuitErrors circuit_errors(const std::vector<std::int64_t>& word, const CircuitRun& run);

// (e^l - 1)(i - 1)/(i (e^l + i - 1)) for the logit l.
double circuit_margin(double logit, double i);

}  // namespace phasescope::analysis
