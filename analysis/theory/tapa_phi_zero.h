#pragma once
// tapa.phi_zero: without a phase TAPA is plain attention of its amplitude part (TAPA, arXiv
// 2509.12635, after Definition 3.1).
#include <ATen/core/Tensor.h>

#include "analysis/theory/check.h"
#include "model/config.h"

namespace phasescope::analysis {

TheoryCheck tapa_phi_zero();

// Scores (P) that an encoding of `config` (TAPA) gives rows of q at positions i and rows of k at
// positions j; q, k (P, D), one head.
at::Tensor tapa_scores(const model::ModelConfig& config, const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& i, const at::Tensor& j);
// q_A.k_A / sqrt(t D) of each row.
at::Tensor tapa_amplitudes(const model::ModelConfig& config, const at::Tensor& q,
                           const at::Tensor& k);
// Rows with the phase part 0.
at::Tensor without_phase(const model::ModelConfig& config, const at::Tensor& x);

// The statement on pairs; `zero` makes a row's phase 0, and is exchanged by tests.
CheckResult judge_phi_zero(const model::ModelConfig& config, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& i, const at::Tensor& j,
                           at::Tensor (*zero)(const model::ModelConfig&, const at::Tensor&));

}  // namespace phasescope::analysis
