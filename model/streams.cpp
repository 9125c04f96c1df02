#include "model/streams.h"

#include <ATen/ATen.h>

#include <vector>

#include "model/feed_forward.h"
#include "model/rms_norm.h"

namespace phasescope::model {
namespace {

constexpr double kLeastSquare = 1e-5;  // of a stream that is scaled

// Projections of streams 1, 2, ..., each with the root mean square of the first at every token.
std::vector<at::Tensor> alike(const at::Tensor& first, const std::vector<at::Tensor>& others,
                              const std::vector<at::Tensor>& weights,
                              std::optional<at::ScalarType> product_dtype) {
  const at::Tensor magnitude = first.square().mean(-1, true).sqrt();
  std::vector<at::Tensor> list = {first};
  for (std::size_t n = 0; n < weights.size(); ++n) {
    const at::Tensor own =
        product(others[n], weights[n], {}, product_dtype).to(first.scalar_type());
    list.push_back(own * magnitude / own.square().mean(-1, true).clamp_min(kLeastSquare).sqrt());
  }
  return list;
}

// tanh of a projection of x (B, N, C) to a number for each stream.
at::Tensor routes(const ModelConfig& config, const LayerWeights& w, const at::Tensor& x,
                  std::optional<at::ScalarType> product_dtype) {
  const at::Tensor read =
      rms_norm(x, w.stream_router_norm, config.norm_eps, x.scalar_type()) / config.width;
  return at::tanh(product(read, w.stream_router, {}, product_dtype).to(x.scalar_type()));
}

}  // namespace

at::Tensor begin_streams(const Weights& weights, const at::Tensor& x,
                         std::optional<at::ScalarType> product_dtype) {
  const std::vector<at::Tensor> same(weights.streams_in.size(), x);
  return at::stack(alike(x, same, weights.streams_in, product_dtype));
}

at::Tensor predicted_streams(const ModelConfig& config, const LayerWeights& weights,
                             const at::Tensor& streams,
                             std::optional<at::ScalarType> product_dtype) {
  const std::int64_t count = config.streams.count;
  const at::Tensor read = routes(config, weights, streams[config.streams.active], product_dtype);
  const at::Tensor coefficients = product(read, weights.stream_prediction, {}, product_dtype)
                                      .to(streams.scalar_type())
                                      .unflatten(-1, {count, count});  // (B, N, to, from)
  const at::Tensor by_token = streams.permute({1, 2, 0, 3});           // (B, N, from, C)
  return streams + at::matmul(coefficients, by_token).permute({2, 0, 1, 3});
}

at::Tensor corrected_streams(const ModelConfig& config, const LayerWeights& weights,
                             const at::Tensor& predicted, const at::Tensor& result,
                             std::optional<at::ScalarType> product_dtype) {
  const at::Tensor coefficients = product(routes(config, weights, result, product_dtype),
                                          weights.stream_correction, {}, product_dtype)
                                      .to(predicted.scalar_type()) +
                                  1;  // (B, N, S)
  const at::Tensor unforeseen = result - predicted[config.streams.active];
  return predicted + coefficients.permute({2, 0, 1}).unsqueeze(-1) * unforeseen;
}

at::Tensor joined_streams(const Weights& weights, const at::Tensor& streams,
                          std::optional<at::ScalarType> product_dtype) {
  std::vector<at::Tensor> list = streams.unbind();
  const at::Tensor first = list.front();
  list.erase(list.begin());
  return at::stack(alike(first, list, weights.streams_out, product_dtype)).mean(0);
}

}  // namespace phasescope::model
