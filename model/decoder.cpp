#include "model/decoder.h"

#include <ATen/ATen.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "model/feed_forward.h"
#include "model/forward_checks.h"
#include "model/forward_inputs.h"
#include "model/key_value_cache.h"
#include "model/stack_pass.h"

namespace phasescope::model {
namespace {

// The text itself, behind the token a decoder starts with.
at::Tensor shifted_right(const at::Tensor& ids, std::int64_t start) {
  return at::cat({at::full({ids.size(0), 1}, start, ids.options()), ids.slice(1, 0, -1)}, 1);
}

}  // namespace

Observer* Observer::encoder() { return nullptr; }
bool Observer::wants_cross_attention(std::int64_t) { return false; }
void Observer::on_cross_attention(const std::shared_ptr<const LayerAttention>&) {}
void Observer::on_hidden(std::int64_t, const at::Tensor&) {}
void Observer::on_streams(std::int64_t, const at::Tensor&) {}
void Observer::on_final_norm(const at::Tensor&) {}
bool Observer::wants_attention(std::int64_t) { return false; }
const ProbeRequest* Observer::wants_probes(std::int64_t) { return nullptr; }
void Observer::on_attention(const std::shared_ptr<const LayerAttention>&) {}
void Observer::on_position(std::int64_t, const PositionState&) {}

void AttentionHook::before(const LayerInput&, AttentionProgram&) {}
void AttentionHook::after(std::int64_t, const AttentionProgram&, const at::Tensor&,
                          AttentionResult&) {}

Decoder::Decoder(ModelConfig config, std::shared_ptr<const Encoding> encoding, Weights weights)
    : config_(std::move(config)),
      encoding_(std::move(encoding)),
      local_encoding_(make_local_encoding(config_)),
      weights_(std::move(weights)) {
  for (auto& group : make_group_encodings(config_)) group_encodings_.emplace_back(std::move(group));
  if (config_.encoder_layers == 0) return;
  encoder_config_ = std::make_shared<const ModelConfig>(config_.encoder());
  encoder_encoding_ = make_encoding(*encoder_config_);
}

const Encoding& Decoder::encoding_of(std::int64_t layer) const {
  const std::int64_t group = config_.encoding_group_of(layer);
  if (group >= 0) return *group_encodings_[static_cast<std::size_t>(group)];
  return local_encoding_ && config_.is_local(layer) ? *local_encoding_ : *encoding_;
}

const Repairs& Decoder::repairs_of(std::int64_t layer) const {
  return model::repairs_of(encoding_of(layer), *encoding_);
}

void Decoder::check_ids(const at::Tensor& ids) const {
  if (ids.dim() != 2 || ids.scalar_type() != at::kLong) {
    throw formats::bad_input("token ids must be rows of whole numbers", "ids");
  }
  if (ids.numel() == 0) {
    throw formats::bad_input("the text has no tokens; give at least one", "ids");
  }
  for (const at::Tensor& id : {ids.min(), ids.max()}) {  // read before ids go to a device
    const std::int64_t value = id.item<std::int64_t>();
    if (value >= 0 && value < config_.vocab_size) continue;
    throw formats::bad_input("token id " + std::to_string(value) +
                                 " is outside the model's vocabulary of " +
                                 std::to_string(config_.vocab_size),
                             "ids");
  }
}

at::Tensor Decoder::hidden(const at::Tensor& ids, const ForwardOptions& given,
                           Observer* observer) const {
  check_ids(ids);
  check_options(given, config_, ids);
  ForwardOptions options = given;
  place_cells(*encoding_, options);
  if (options.axis_positions.defined()) options.position_ids = options.axis_positions[0];
  if (options.cache != nullptr) check_cached_pass(options);
  const Stack decoder{config_, *encoding_, local_encoding_.get(), group_encodings_, weights_};
  const auto run = [&](const ForwardOptions& own, Memory memory, const at::Tensor& read) {
    if (own.cache != nullptr) own.cache->begin(read);
    const at::Tensor x =
        std::make_shared<StackPass>(*this, decoder, own, std::move(memory), observer)->run(read);
    if (own.cache != nullptr) own.cache->advance(read.size(1));
    return x;
  };
  if (!encoder_encoding_) return run(options, Memory{}, ids);

  static const std::vector<std::shared_ptr<const Encoding>> no_groups;
  const Stack encoder{*encoder_config_, *encoder_encoding_, nullptr, no_groups, weights_.encoder};
  Observer* const of_encoder = observer != nullptr ? observer->encoder() : nullptr;
  const auto encoded = [&] {
    ForwardOptions own = options;
    own.cache = nullptr;
    return std::make_shared<StackPass>(*this, encoder, own, Memory{}, of_encoder)->run(ids);
  };
  at::Tensor made;
  at::Tensor& hidden_of_encoder = options.cache != nullptr ? options.cache->encoded() : made;
  const bool read_before = options.cache != nullptr && options.cache->length() > 0;
  if (!read_before) hidden_of_encoder = encoded();
  Memory memory{hidden_of_encoder,
                options.key_mask.defined() ? options.key_mask.ne(0) : at::Tensor(),
                options.position_ids};
  ForwardOptions own = options;  // what was given speaks of the encoder's text
  own.position_ids = options.decoder_position_ids;
  own.axis_positions = own.layer_position_ids = own.key_mask = own.token_types = own.mask =
      own.initial_state = at::Tensor();
  const at::Tensor read = options.decoder_ids.defined() ? options.decoder_ids
                                                        : shifted_right(ids, config_.decoder_start);
  check_ids(read);
  if (read.size(0) != ids.size(0)) {
    throw formats::bad_input("there must be as many texts for the decoder as for the encoder",
                             "decoder_input_ids");
  }
  check_position_ids(own.position_ids, read, "decoder_position_ids");
  return run(own, std::move(memory), read);
}

at::Tensor Decoder::pooled(const at::Tensor& hidden, const at::Tensor& key_mask) const {
  if (config_.head.pool == "none") return hidden;
  at::Tensor scores = at::matmul(hidden, weights_.pool.transpose(0, 1));  // (B, N, 1)
  if (key_mask.defined()) {
    const at::Tensor padded = key_mask.eq(0).unsqueeze(-1).to(scores.device());
    scores = scores.masked_fill(padded, -std::numeric_limits<double>::infinity());
  }
  return (at::softmax(scores, 1) * hidden).sum(1, /*keepdim=*/true);
}

at::Tensor Decoder::logits(const at::Tensor& hidden, const ForwardOptions& options) const {
  if (!config_.head.present) {
    throw formats::bad_input("this model has no head, so it has no logits", "logits");
  }
  at::Tensor x = hidden;
  if (config_.head.transform) {
    x = activated(
        product(x, weights_.head_transform, weights_.head_transform_bias, options.product_dtype),
        config_.mlp.activation);
    x = normed(config_, x.to(dtype()), weights_.head_norm, weights_.head_norm_bias, dtype());
  }
  const at::Tensor& head = weights_.head.defined() ? weights_.head : weights_.embedding;
  at::Tensor logits = product(x, head, weights_.head_bias, options.product_dtype).to(dtype());
  if (config_.head.scale != 1) logits = logits * config_.head.scale;
  return soft_capped(logits, config_.head.soft_cap);
}

at::Tensor Decoder::forward(const at::Tensor& ids, const ForwardOptions& options,
                            Observer* observer) const {
  return logits(pooled(hidden(ids, options, observer), options.key_mask), options);
}

}  // namespace phasescope::model
