#include "analysis/text_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "analysis/model_sides.h"
#include "formats/error.h"
#include "model/loss.h"

namespace phasescope::analysis {

at::Tensor ids_tensor(std::span<const std::int64_t> ids) {
  at::Tensor out = at::empty({1, static_cast<std::int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), out.data_ptr<std::int64_t>());
  return out;
}

model::ForwardOptions with_inputs_of(const Text& text, model::ForwardOptions options) {
  const auto row = [](const std::vector<std::int64_t>& values) {
    return values.empty() ? at::Tensor() : ids_tensor(values);
  };
  options.position_ids = row(text.position_ids);
  options.token_types = row(text.token_types);
  options.decoder_ids = row(text.decoder_ids);
  return options;
}

model::StartContext start_context(const model::Decoder& decoder, std::int64_t tokens,
                                  at::ScalarType angle_dtype) {
  model::StartContext context;
  context.positions.length = tokens;
  context.dtype = decoder.dtype();
  context.angle_dtype = angle_dtype;
  context.shared = &decoder.weights().encoding;
  return context;
}

// Hands on what the forward pass shows, and keeps it where asked to.
class TextPass::Recorder final : public model::Observer {
 public:
  Recorder(TextPass& pass, const LayerVisitor* layers, const PositionVisitor* positions,
           const model::ProbeRequest* probes)
      : pass_(pass), layers_(layers), positions_(positions), probes_(probes) {}

  bool wants_attention(std::int64_t) override { return pass_.keep_ || layers_ != nullptr; }
  const model::ProbeRequest* wants_probes(std::int64_t) override { return probes_; }
  void on_attention(const AttentionPointer& attention) override {
    pass_.kernel_ = attention->kernel();
    if (pass_.keep_) pass_.layers_.push_back(attention);
    if (layers_ != nullptr) (*layers_)(attention);
  }
  void on_position(std::int64_t index, const model::PositionState& state) override {
    if (pass_.keep_) pass_.positions_.push_back(state);
    if (positions_ != nullptr) (*positions_)(index, state);
  }

 private:
  TextPass& pass_;
  const LayerVisitor* layers_;
  const PositionVisitor* positions_;
  const model::ProbeRequest* probes_;
};

TextPass::TextPass(std::shared_ptr<const model::Model> model, at::Tensor ids,
                   model::ForwardOptions options, std::int64_t keep_bytes)
    : model_(std::move(model)), ids_(std::move(ids)), options_(std::move(options)) {
  model_->decoder.check_ids(ids_);
  keep_ = estimated_bytes() <= keep_bytes;
}

// q, k and v before and after the rotation, log-sum-exp and entropy, and the states.
std::int64_t TextPass::estimated_bytes() const {
  const model::ModelConfig& config = model_->config();
  const std::int64_t item = model_->decoder.dtype() == at::kDouble ? 8 : 4;
  const std::int64_t queries = 2 * config.heads * config.head_dim + 2 * config.heads;
  const std::int64_t keys = 3 * config.kv_heads * config.head_dim;
  const std::int64_t state =
      model_->encoding().info().has_state ? config.heads * config.head_dim : 0;
  return ids_.numel() * (config.layers * (queries + keys + state) + config.width) * item;
}

std::int64_t TextPass::kept_bytes() const { return keep_ && has_run_ ? estimated_bytes() : 0; }

void TextPass::run_with(const LayerVisitor* layers, const PositionVisitor* positions,
                        const model::ProbeRequest* probes) {
  const at::NoGradGuard no_gradients;
  layers_.clear();
  positions_.clear();
  Recorder recorder(*this, layers, positions, probes);
  hidden_ = model_->decoder.hidden(ids_, options_, &recorder);
  has_run_ = true;
}

void TextPass::watch(protocol::Progress* progress) {
  options_.progress = nullptr;
  options_.cancelled = nullptr;
  if (progress == nullptr) return;
  options_.progress = [progress](double done) { progress->progress(done, "reading the text"); };
  options_.cancelled = [progress] { return progress->cancelled(); };
}

void TextPass::run() {
  if (!has_run_) run_with(nullptr, nullptr);
}

void TextPass::visit_layers(const LayerVisitor& visitor, const model::ProbeRequest* probes) {
  if (!keep_ || !has_run_) {
    run_with(&visitor, nullptr, probes);
    return;
  }
  for (const AttentionPointer& attention : layers_) {
    if (options_.cancelled && options_.cancelled()) throw formats::cancelled();
    visitor(attention);
  }
}

void TextPass::visit_positions(const PositionVisitor& visitor) {
  if (!keep_ || !has_run_) {
    run_with(nullptr, &visitor);
    return;
  }
  for (std::size_t n = 0; n < positions_.size(); ++n) {
    visitor(static_cast<std::int64_t>(n), positions_[n]);
  }
}

AttentionPointer TextPass::layer(std::int64_t index) {
  if (index < 0 || index >= model_->config().layers) {
    throw formats::bad_usage("there is no layer " + std::to_string(index) + "; the model has " +
                                 std::to_string(model_->config().layers) + ", counted from 0",
                             "head");
  }
  if (keep_) {
    run();
    return layers_[static_cast<std::size_t>(index)];
  }
  AttentionPointer found;
  const LayerVisitor pick = [&](const AttentionPointer& attention) {
    if (attention->layer() == index) found = attention;
  };
  run_with(&pick, nullptr);
  return found;
}

const at::Tensor& TextPass::hidden() {
  run();
  return hidden_;
}

at::Tensor TextPass::logits() {
  const at::NoGradGuard no_gradients;
  return model_->decoder.logits(hidden(), options_);
}

at::Tensor TextPass::losses() {
  const at::NoGradGuard no_gradients;
  if (const std::string why = loss_obstacle(); !why.empty()) {
    throw formats::bad_input("the model has no loss of the next token: " + why, "loss");
  }
  return model::token_losses_of(model_->decoder, hidden(), ids_, options_);
}

std::string TextPass::loss_obstacle() const {
  if (options_.decoder_ids.defined()) return "its decoder reads ids of its own, not the text";
  return analysis::loss_obstacle(model_->config());
}

}  // namespace phasescope::analysis
