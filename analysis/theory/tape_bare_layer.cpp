#include "analysis/theory/tape_bare_layer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

BareLayer BareLayer::drawn(Random& random, std::int64_t channels, std::int64_t units) {
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return normal_tensor(random, {rows, columns}) / std::sqrt(static_cast<double>(columns));
  };
  BareLayer layer;
  layer.wq = matrix(channels, channels), layer.wk = matrix(channels, channels);
  layer.wv = matrix(channels, channels);
  layer.w1 = matrix(units, channels), layer.b1 = normal_tensor(random, {units});
  layer.w2 = matrix(channels, units), layer.b2 = normal_tensor(random, {channels});
  return layer;
}

BareRun run_bare(const BareLayer& layer, const at::Tensor& x, const at::Tensor& e,
                 const at::Tensor& mask, const at::Tensor& bias) {
  const at::Tensor q = at::einsum("na,nar->nr", {at::matmul(x, layer.wq.t()), e});
  const at::Tensor k = at::einsum("na,nar->nr", {at::matmul(x, layer.wk.t()), e});
  at::Tensor scores = at::matmul(q, k.t());
  if (bias.defined()) scores = scores + bias;
  scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  BareRun out;
  out.weights = at::softmax(scores, 1);
  out.attended = at::matmul(out.weights, at::matmul(x, layer.wv.t()));
  if (layer.attention_residual) out.attended = out.attended + x;
  const at::Tensor hidden = at::leaky_relu(at::matmul(out.attended, layer.w1.t()) + layer.b1, 0.01);
  out.out = at::matmul(hidden, layer.w2.t()) + layer.b2;
  if (layer.mlp_residual) out.out = out.out + out.attended;
  return out;
}

at::Tensor causal_mask(std::int64_t tokens) { return at::ones({tokens, tokens}, at::kBool).tril(); }

at::Tensor sparse_mask(Random& random, std::int64_t tokens) {
  at::Tensor mask = at::eye(tokens, at::kBool).clone();
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      if (random.uniform() < 0.5) mask[i][j] = true;
    }
  }
  return mask;
}

}  // namespace phasescope::analysis
