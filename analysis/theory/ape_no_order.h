#pragma once
// ape.no_order: attention alone ignores the order of its keys (APE, arXiv 2312.16045, Equation 2).
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::model {
class Decoder;
}

namespace phasescope::analysis {

TheoryCheck ape_no_order();

// Bare attention of Equation 2: softmax((X Q)(Y K)^T / sqrt C) (Y V), C channels. `mask`: (m, n)
// bool, true where a row sees a column; undefined for all.
struct BareAttention {
  at::Tensor q, k, v;  // (C, C)
  at::Tensor of(const at::Tensor& x, const at::Tensor& y, const at::Tensor& mask = {}) const;
  // Keys from `keys`, values from `values`.
  at::Tensor of(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values,
                const at::Tensor& mask) const;
};

// What of these rows does under a permutation of Y; each a largest difference.
struct OrderResiduals {
  double keys = 0;        // atn(X, pY) - atn(X, Y)
  double own = 0;         // atn(pY, pY) - p atn(Y, Y)
  double causal = 0;      // the same under a causal mask
  double last_row = 0;    // of the last row, earlier rows permuted, causal
  double two_layers = 0;  // the same after two layers with residuals
  double keys_alone = 0;  // keys permuted without their values
};
OrderResiduals order_residuals(const BareAttention& attention, const at::Tensor& x,
                               const at::Tensor& y, const at::Tensor& permutation,
                               const at::Tensor& early_permutation);

// How much order enters a model: the largest difference of its outputs, relative to the largest of
// them, when ids are permuted in place (the positions stay).
struct OrderInModel {
  double largest = 0;
  std::vector<double> by_token;  // of each token, where it stood before
};
OrderInModel order_in_model(const model::Decoder& decoder, const at::Tensor& ids,
                            const std::vector<std::int64_t>& permutation);

}  // namespace phasescope::analysis
