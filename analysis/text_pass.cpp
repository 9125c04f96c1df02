#include "analysis/text_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/model_sides.h"
#include "formats/error.h"
#include "model/host_memory.h"
#include "model/loss.h"

namespace phasescope::analysis {

at::Tensor ids_tensor(std::span<const std::int64_t> ids) {
  at::Tensor out = at::empty({1, static_cast<std::int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), out.data_ptr<std::int64_t>());
  return out;
}

std::string name_of(Stack stack, const model::ModelConfig& config) {
  if (config.encoder_layers == 0) return {};
  return stack == Stack::encoder ? "enc" : stack == Stack::cross ? "cross" : "dec";
}

Stack stack_named(const std::string& name, const model::ModelConfig& config,
                  const std::string& field) {
  if (name.empty()) return Stack::main;
  if (config.encoder_layers == 0) {
    throw formats::bad_usage("\"" + name +
                                 "\" is a part of an encoder-decoder, and this model is " +
                                 "one stack of layers",
                             field, field == "head" ? "leave it out: L0H0" : "leave it out");
  }
  for (const Stack stack : {Stack::main, Stack::encoder, Stack::cross}) {
    if (name == name_of(stack, config)) return stack;
  }
  throw formats::bad_usage("there is no part \"" + name + "\" of an encoder-decoder", field,
                           "enc, dec or cross");
}

std::int64_t layers_of(Stack stack, const model::ModelConfig& config) {
  return stack == Stack::encoder ? config.encoder_layers : config.layers;
}

bool is_causal(Stack stack, const model::ModelConfig& config) {
  return stack == Stack::main && config.attention.causal;
}

model::ForwardOptions with_inputs_of(const Text& text, model::ForwardOptions options) {
  const auto row = [](const std::vector<std::int64_t>& values) {
    return values.empty() ? at::Tensor() : ids_tensor(values);
  };
  options.position_ids = row(text.position_ids);
  options.token_types = row(text.token_types);
  options.decoder_ids = row(text.decoder_ids);
  options.decoder_position_ids = row(text.decoder_position_ids);
  if (!text.patches.empty()) {
    const auto tokens = static_cast<std::int64_t>(text.ids.size());
    options.patches = at::tensor(text.patches).view({1, tokens, -1});
  }
  return options;
}

model::StartContext start_context(const model::Decoder& decoder, std::int64_t tokens,
                                  at::ScalarType angle_dtype) {
  model::StartContext context;
  context.positions.length = tokens, context.positions.device = decoder.device();
  context.dtype = decoder.dtype();
  context.angle_dtype = angle_dtype;
  context.shared = &decoder.weights().encoding;
  return context;
}

model::StartContext start_context_of(const model::Decoder& decoder, std::int64_t layer,
                                     std::int64_t tokens, at::ScalarType angle_dtype) {
  static const model::Parameters none;
  model::StartContext context = start_context(decoder, tokens, angle_dtype);
  if (decoder.config().encoding_group_of(layer) >= 0) {
    context.shared = &none;
  } else if (&decoder.encoding_of(layer) != &decoder.encoding()) {
    context.shared = &decoder.weights().local_encoding;
  }
  return context;
}

// Hands on what the forward pass shows, and keeps it where asked to: of the decoder and of its
// attention to an encoder. What the encoder shows goes to a part of it.
class TextPass::Recorder final : public model::Observer {
 public:
  Recorder(TextPass& pass, const LayerVisitor* layers, const PositionVisitor* positions,
           const model::ProbeRequest* probes, Stack stack)
      : pass_(pass),
        layers_(layers),
        positions_(positions),
        probes_(probes),
        stack_(stack),
        encoder_(*this) {}

  Observer* encoder() override { return &encoder_; }
  bool wants_attention(std::int64_t) override { return wants(Stack::main); }
  bool wants_cross_attention(std::int64_t) override { return wants(Stack::cross); }
  const model::ProbeRequest* wants_probes(std::int64_t) override { return probes_of(Stack::main); }
  void on_attention(const AttentionPointer& attention) override { take(Stack::main, attention); }
  void on_cross_attention(const AttentionPointer& attention) override {
    take(Stack::cross, attention);
  }
  void on_position(std::int64_t index, const model::PositionState& state) override {
    if (pass_.keep_) pass_.positions_.emplace_back(index, state);
    if (positions_ != nullptr) (*positions_)(index, state);
  }

 private:
  class OfEncoder final : public model::Observer {
   public:
    explicit OfEncoder(Recorder& whole) : whole_(whole) {}
    bool wants_attention(std::int64_t) override { return whole_.wants(Stack::encoder); }
    const model::ProbeRequest* wants_probes(std::int64_t) override {
      return whole_.probes_of(Stack::encoder);
    }
    void on_attention(const AttentionPointer& attention) override {
      whole_.take(Stack::encoder, attention);
    }

   private:
    Recorder& whole_;
  };

  bool visits(Stack stack) const { return layers_ != nullptr && stack == stack_; }
  bool wants(Stack stack) const { return pass_.keep_ || visits(stack); }
  const model::ProbeRequest* probes_of(Stack stack) const {
    return visits(stack) ? probes_ : nullptr;
  }
  void take(Stack stack, const AttentionPointer& attention) {
    if (pass_.keep_) pass_.kept(stack).push_back(attention);
    if (visits(stack)) (*layers_)(attention);
  }

  TextPass& pass_;
  const LayerVisitor* layers_;
  const PositionVisitor* positions_;
  const model::ProbeRequest* probes_;
  Stack stack_;
  OfEncoder encoder_;
};

TextPass::TextPass(std::shared_ptr<const model::Model> model, at::Tensor ids,
                   model::ForwardOptions options, std::int64_t keep_bytes)
    : model_(std::move(model)),
      ids_(std::move(ids)),
      options_(std::move(options)),
      keep_bytes_(keep_bytes) {
  model_->decoder.check_ids(ids_);
  keep_ = estimated_bytes() <= keep_bytes;
}

// q, k and v before and after the rotation, and the states, in what the model computes in;
// log-sum-exp and entropy in float32 at least.
std::int64_t TextPass::estimated_bytes() const {
  const model::ModelConfig& config = model_->config();
  const auto item = static_cast<std::int64_t>(at::elementSize(model_->decoder.dtype()));
  const std::int64_t of_a_row = std::max<std::int64_t>(4, item) / item;
  const std::int64_t queries = 2 * config.heads * (config.head_dim + of_a_row);
  const std::int64_t keys = 3 * config.kv_heads * config.head_dim;
  const std::int64_t state = model_->encoding().has_state() ? config.heads * config.head_dim : 0;
  const std::int64_t rows = ids_.size(0) * tokens(), read = ids_.numel();
  // A state is kept before every layer and behind the last one.
  const std::int64_t own = rows * (config.layers * (queries + keys + state) + state + config.width);
  const bool cross = config.encoder_layers > 0;
  const std::int64_t encoder = read * config.encoder_layers * (queries + keys);
  return (own + encoder + (cross ? config.layers * (rows * queries + read * keys) : 0)) * item;
}

// An upper bound of what one layer of any stack holds.
std::int64_t TextPass::layer_bytes() const {
  const model::ModelConfig& config = model_->config();
  const std::int64_t layers = config.layers + config.encoder_layers;
  return (estimated_bytes() + layers - 1) / std::max<std::int64_t>(1, config.layers);
}

std::int64_t TextPass::kept_bytes() const {
  if (keep_ && has_run_) return estimated_bytes();
  return alone_ ? layer_bytes() : 0;
}

std::vector<AttentionPointer>& TextPass::kept(Stack stack) {
  return layers_[static_cast<std::size_t>(stack)];
}

void TextPass::run_with(const LayerVisitor* layers, const PositionVisitor* positions,
                        const model::ProbeRequest* probes, Stack stack) {
  const at::NoGradGuard no_gradients;
  layers_ = {};
  positions_.clear();
  Recorder recorder(*this, layers, positions, probes, stack);
  kernels_.clear();
  model::ForwardOptions options = options_;
  options.kernels = &kernels_;
  hidden_ = model_->decoder.hidden(ids_, options, &recorder);
  if (options_.kernels != nullptr) options_.kernels->insert(kernels_.begin(), kernels_.end());
  has_run_ = true;
  if (keep_) alone_.reset();  // all layers are there
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

void TextPass::release() {
  if (keep_) return;
  alone_.reset();
  hidden_ = at::Tensor();
  has_run_ = false;
}

void require_all_heads(const model::Model& model) {
  const std::string why = missing_heads(model.config());
  if (why.empty()) return;
  throw formats::Error(
      "not_applicable",
      "this reads the maps of all heads of all layers, but of " + model.report.name + " " + why,
      "model", "maps and head statistics show the heads that there are");
}

void require_maps(const model::Model& model, std::int64_t layer) {
  if (has_head(model.config(), layer, 0)) return;
  throw formats::bad_usage(
      model.report.name + ": " + words_of_no_maps(layer), "head",
      "the first layer that has some is " + std::to_string(first_layer_with_maps(model.config())));
}

void TextPass::visit_layers(const LayerVisitor& visitor, const model::ProbeRequest* probes,
                            Stack stack) {
  require_all_heads(*model_);
  visit_layers_with_maps(visitor, probes, stack);
}

void TextPass::visit_layers_with_maps(const LayerVisitor& visitor,
                                      const model::ProbeRequest* probes, Stack stack,
                                      std::optional<std::int64_t> last) {
  if (!keep_ || !has_run_) {
    if (last) return run_until(*last, visitor, probes, stack);
    return run_with(&visitor, nullptr, probes, stack);
  }
  for (const AttentionPointer& attention : kept(stack)) {
    if (options_.cancelled && options_.cancelled()) throw formats::cancelled();
    if (!last || attention->layer() <= *last) visitor(attention);
  }
}

void TextPass::visit_positions(const PositionVisitor& visitor) {
  if (!keep_ || !has_run_) {
    run_with(nullptr, &visitor);
    return;
  }
  for (const auto& [index, state] : positions_) visitor(index, state);
}

AttentionPointer TextPass::layer(std::int64_t index, Stack stack) {
  const std::int64_t layers = layers_of(stack, model_->config());
  if (index < 0 || index >= layers) {
    const std::string& name = model_->report.name;
    throw formats::bad_usage("there is no layer " + std::to_string(index) + "; " +
                                 (stack == Stack::encoder ? "the encoder of " + name : name) +
                                 " has " + std::to_string(layers) + ", counted from 0",
                             "head");
  }
  if (stack == Stack::main) require_maps(*model_, index);
  if (!keep_ || (!has_run_ && reads_from_file())) return layer_alone(index, stack);
  run();
  const auto found = std::ranges::find(kept(stack), index, &model::LayerAttention::layer);
  return found == kept(stack).end() ? nullptr : *found;
}

AttentionPointer TextPass::layer_alone(std::int64_t index, Stack stack) {
  if (alone_ && alone_->layer() == index && stack_of_alone_ == stack) return alone_;
  alone_.reset();
  AttentionPointer found;
  const LayerVisitor pick = [&](const AttentionPointer& attention) {
    if (attention->layer() == index) found = attention;
  };
  run_until(index, pick, nullptr, stack);
  if (layer_bytes() <= keep_bytes_) alone_ = found, stack_of_alone_ = stack;
  return found;
}

// The layers that come after it are stopped like those of a pass that is cancelled.
void TextPass::run_until(std::int64_t last, const LayerVisitor& visitor,
                         const model::ProbeRequest* probes, Stack stack) {
  bool reached = false;
  const LayerVisitor before_end = [&](const AttentionPointer& attention) {
    if (attention->layer() <= last) visitor(attention);
    reached = reached || attention->layer() >= last;
  };
  const auto cancelled = options_.cancelled;
  const auto is_cancelled = [&] { return cancelled && cancelled(); };
  options_.cancelled = [&] { return reached || is_cancelled(); };
  const auto forget = [&] {
    options_.cancelled = cancelled;
    layers_ = {};
    positions_.clear();
  };
  try {
    run_with(&before_end, nullptr, probes, stack);
    options_.cancelled = cancelled;
  } catch (const formats::Error& error) {
    forget();
    if (!reached || error.code() != "cancelled" || is_cancelled()) throw;
    if (options_.kernels != nullptr) options_.kernels->insert(kernels_.begin(), kernels_.end());
  } catch (...) {  // a visitor's, or LibTorch's
    forget();
    throw;
  }
}

const at::Tensor& TextPass::hidden() {
  run();
  return hidden_;
}

at::Tensor TextPass::logits() {
  const at::NoGradGuard no_gradients;
  return model::on_host(model_->decoder.logits(hidden(), options_));
}

at::Tensor TextPass::losses() {
  const at::NoGradGuard no_gradients;
  if (const std::string why = loss_obstacle(); !why.empty()) {
    throw formats::Error("not_applicable", "the model has no loss of the next token: " + why,
                         "loss");
  }
  return model::on_host(model::token_losses_of(model_->decoder, hidden(), ids_, options_));
}

std::string TextPass::loss_obstacle() const {
  if (options_.decoder_ids.defined()) return "its decoder reads ids of its own, not the text";
  if (tokens() < 2) return "the text has one token";
  const std::int64_t known = tokens_with_logits(model_->config());
  if (known < model_->config().vocab_size && ids_.slice(1, 1).max().item<std::int64_t>() >= known) {
    return "a token of the text is beyond the " + std::to_string(known) + " that have a logit";
  }
  return analysis::loss_obstacle(model_->config());
}

}  // namespace phasescope::analysis
