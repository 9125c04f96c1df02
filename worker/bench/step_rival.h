// What somebody without our trainer would write: the same model and step in LibTorch's own
// operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "model/decoder.h"
#include "training/adamw.h"
#include "training/batch.h"
#include "training/run_config.h"

namespace phasescope::worker {

inline constexpr const char* kPlainLoop = "plain LibTorch loop, SDPA";

// A loop of embedding, at::rms_norm, at::linear, rotations by cosines and sines that were made
// before, at::scaled_dot_product_attention, at::cross_entropy_loss, autograd, clipping and
// at::_fused_adamw_. In bfloat16 as autocast has it: products and attention are bfloat16, weights,
// sums of layers, norms and the loss float32.
class PlainLoop {
 public:
  // Empty for a model that the loop is written for: a causal decoder with RMS norms before each
  // part, gated or not, RoPE in halves without scaling or no encoding; else what it has no code
  // for.
  static std::string obstacle(const model::ModelConfig& config);

  // Begins with copies of the decoder's weights.
  PlainLoop(const model::Decoder& decoder, const training::TrainSection& train);

  // One step; the mean loss in nats before it.
  double step(const training::Batch& batch, double rate);

 private:
  at::Tensor loss_of(const at::Tensor& ids, const at::Tensor& targets) const;
  at::Tensor product(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor rotated(const at::Tensor& x) const;
  at::Tensor mlp(const model::LayerWeights& layer, const at::Tensor& x) const;

  model::ModelConfig config_;
  model::Weights weights_;
  at::Tensor cosines_, sines_;  // (context, d / 2); undefined without rotations
  training::AdamW optimiser_;
  double clip_;
  at::ScalarType dtype_;  // of products
};

}  // namespace phasescope::worker
