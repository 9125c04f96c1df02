#include "model/decoder.h"

#include <ATen/ATen.h>

#include <utility>

#include "formats/error.h"
#include "model/rms_norm.h"

namespace phasescope::model {
namespace {

at::Tensor activated(const at::Tensor& x, const std::string& name) {
  if (name == "gelu") return at::gelu(x);
  if (name == "gelu_tanh") return at::gelu(x, "tanh");
  if (name == "relu") return at::relu(x);
  return at::silu(x);
}

// x W^T + b, the product in `product` where that is asked for; the result stays in that dtype.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   std::optional<at::ScalarType> product_dtype) {
  if (!product_dtype) return at::linear(x, weight, bias);
  return at::linear(x.to(*product_dtype), weight.to(*product_dtype),
                    bias.defined() ? bias.to(*product_dtype) : bias);
}

// One forward pass: what its steps share.
class Pass {
 public:
  Pass(const Decoder& decoder, const ForwardOptions& options, Observer* observer)
      : config_(decoder.config()),
        encoding_(decoder.encoding()),
        weights_(decoder.weights()),
        dtype_(decoder.dtype()),
        options_(options),
        observer_(observer) {}

  at::Tensor run(const at::Tensor& ids) {
    const StartContext context = start_context(ids.size(1));
    at::Tensor x = encoding_.embed(at::embedding(weights_.embedding, ids), context);
    PositionState state = encoding_.start(context);
    if (options_.initial_state.defined()) state.z = options_.initial_state;
    report(0, x, state);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      if (options_.cancelled && options_.cancelled()) throw formats::cancelled();
      x = run_layer(layer, x, state);
      report(layer + 1, x, state);
      if (options_.progress) {
        options_.progress(static_cast<double>(layer + 1) / static_cast<double>(config_.layers));
      }
    }
    x = rms_norm(x, weights_.final_norm, config_.norm_eps, dtype_);
    if (observer_ != nullptr) observer_->on_final_norm(x);
    return x;
  }

 private:
  StartContext start_context(std::int64_t length) const {
    StartContext context;
    context.positions = {length, options_.shift, options_.position_ids};
    context.dtype = dtype_;
    context.angle_dtype = options_.angle_dtype.value_or(dtype_);
    context.shared = &weights_.encoding;
    return context;
  }

  void report(std::int64_t index, const at::Tensor& x, const PositionState& state) const {
    if (observer_ == nullptr) return;
    observer_->on_hidden(index, x);
    if (state.z.defined()) observer_->on_position(index, state);
  }

  at::Tensor run_layer(std::int64_t index, const at::Tensor& x, PositionState& state) const {
    const LayerWeights& w = weights_.layers[static_cast<std::size_t>(index)];
    MlpContext context;
    context.attention_output = attend(index, w, x, state);
    const at::Tensor middle = x + context.attention_output;
    context.mlp_output = feed_forward(w, middle);
    encoding_.after_mlp(w.encoding, context, state);
    return middle + context.mlp_output;
  }

  // (B, N, heads * d) -> (B, heads, N, d)
  at::Tensor split_heads(const at::Tensor& x) const {
    return x.unflatten(-1, {-1, config_.head_dim}).transpose(1, 2);
  }

  at::Tensor attend(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
                    PositionState& state) const {
    const at::Tensor normed = rms_norm(x, w.attention_norm, config_.norm_eps, product_dtype());
    const auto projected = [&](const at::Tensor& weight, const at::Tensor& bias) {
      return split_heads(product(normed, weight, bias, options_.product_dtype).to(dtype_));
    };
    AttentionProgram program = encoding_.program(w.encoding, projected(w.wq, w.bq),
                                                 projected(w.wk, w.bk), state);
    program.mask = options_.mask;
    const at::Tensor v = projected(w.wv, w.bv);
    const bool observed = observer_ != nullptr && observer_->wants_attention(index);
    const AttentionResult result = attention(
        program, v,
        {.backend = options_.backend, .want_lse = observed, .want_entropy = observed});
    encoding_.after_attention(w.encoding, result.state, state);
    if (observed) {
      observer_->on_attention(std::make_shared<LayerAttention>(
          index, program, v, result.lse, result.entropy, options_.backend, result.kernel));
    }
    const at::Tensor joined = result.out.transpose(1, 2).flatten(2);
    return product(joined, w.wo, w.bo, options_.product_dtype).to(dtype_);
  }

  at::Tensor feed_forward(const LayerWeights& w, const at::Tensor& x) const {
    const at::Tensor normed = rms_norm(x, w.mlp_norm, config_.norm_eps, product_dtype());
    const at::Tensor gate =
        activated(product(normed, w.gate, w.gate_bias, options_.product_dtype), config_.activation);
    const at::Tensor up = product(normed, w.up, w.up_bias, options_.product_dtype);
    return product(gate * up, w.down, w.down_bias, options_.product_dtype).to(dtype_);
  }

  at::ScalarType product_dtype() const { return options_.product_dtype.value_or(dtype_); }

  const ModelConfig& config_;
  const Encoding& encoding_;
  const Weights& weights_;
  at::ScalarType dtype_;
  const ForwardOptions& options_;
  Observer* observer_;
};

void check_options(const ForwardOptions& options, std::int64_t length) {
  const at::Tensor& ids = options.position_ids;
  if (ids.defined() && (ids.dim() != 1 || ids.size(0) != length)) {
    throw formats::bad_input("position ids must be one for each of the " + std::to_string(length) +
                                 " tokens",
                             "position_ids");
  }
  const at::Tensor& mask = options.mask;
  if (mask.defined() && (mask.dim() != 2 || mask.size(0) != length || mask.size(1) != length)) {
    throw formats::bad_input("the mask must have a row and a column for each token", "mask");
  }
}

}  // namespace

void Observer::on_hidden(std::int64_t, const at::Tensor&) {}
void Observer::on_final_norm(const at::Tensor&) {}
bool Observer::wants_attention(std::int64_t) { return false; }
void Observer::on_attention(const std::shared_ptr<const LayerAttention>&) {}
void Observer::on_position(std::int64_t, const PositionState&) {}

Decoder::Decoder(ModelConfig config, std::shared_ptr<const Encoding> encoding, Weights weights)
    : config_(std::move(config)), encoding_(std::move(encoding)), weights_(std::move(weights)) {}

void Decoder::check_ids(const at::Tensor& ids) const {
  if (ids.dim() != 2 || ids.scalar_type() != at::kLong) {
    throw formats::bad_input("token ids must be rows of whole numbers", "ids");
  }
  if (ids.numel() == 0) {
    throw formats::bad_input("the text has no tokens; give at least one", "ids");
  }
  for (const at::Tensor& id : {ids.min(), ids.max()}) {
    const std::int64_t value = id.item<std::int64_t>();
    if (value >= 0 && value < config_.vocab_size) continue;
    throw formats::bad_input("token id " + std::to_string(value) +
                                 " is outside the model's vocabulary of " +
                                 std::to_string(config_.vocab_size),
                             "ids");
  }
}

at::Tensor Decoder::hidden(const at::Tensor& ids, const ForwardOptions& options,
                           Observer* observer) const {
  check_ids(ids);
  check_options(options, ids.size(1));
  return Pass(*this, options, observer).run(ids);
}

at::Tensor Decoder::logits(const at::Tensor& hidden, const ForwardOptions& options) const {
  const at::Tensor& head = weights_.head.defined() ? weights_.head : weights_.embedding;
  return product(hidden, head, {}, options.product_dtype).to(dtype());
}

at::Tensor Decoder::forward(const at::Tensor& ids, const ForwardOptions& options,
                            Observer* observer) const {
  return logits(hidden(ids, options, observer), options);
}

}  // namespace phasescope::model
