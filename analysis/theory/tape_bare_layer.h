#pragma once
// One bare layer of TAPE's proofs (arXiv 2501.00712, Section B.1.1) in any dtype: f = FFN(A) with
// A_i = sum_j a_ij W_V x_j + x_i, scores x_i W_Q (e_i e_j^T) W_K x_j.
#include <ATen/core/Tensor.h>

#include "analysis/random.h"

namespace phasescope::analysis {

struct BareLayer {
  at::Tensor wq, wk, wv;      // (C, C)
  at::Tensor w1, b1, w2, b2;  // (F, C), (F), (C, F), (C)
  bool attention_residual = true, mlp_residual = true;

  // Matrices with entries of variance one over their rows' length.
  static BareLayer drawn(Random& random, std::int64_t channels, std::int64_t units);
};

struct BareRun {
  at::Tensor out;       // (N, C) after the MLP
  at::Tensor attended;  // (N, C) before it
  at::Tensor weights;   // (N, N)
};
// x (N, C), e (N, C, R), mask (N, N) bool, true where a row sees a column; bias (N, N) is added to
// the scores, undefined for none.
BareRun run_bare(const BareLayer& layer, const at::Tensor& x, const at::Tensor& e,
                 const at::Tensor& mask, const at::Tensor& bias = {});

// Every row sees itself and about half of the rows before it.
at::Tensor sparse_mask(Random& random, std::int64_t tokens);
at::Tensor causal_mask(std::int64_t tokens);

}  // namespace phasescope::analysis
