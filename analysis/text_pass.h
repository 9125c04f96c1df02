#pragma once
// One text's pass through a model: what every analysis reads. Kept in memory where it is small, so
// that views of one text share it; otherwise run again for each visit, one layer at a time.
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/texts.h"
#include "model/checkpoints/open_model.h"
#include "model/decoder.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

using AttentionPointer = std::shared_ptr<const model::LayerAttention>;

// Whose attention is looked at: that of the model's one stack or of its decoder, of the encoder
// before a decoder, or of the decoder to the encoder's output.
enum class Stack { main, encoder, cross };

// As `capture` has it: "dec", "enc" or "cross"; empty for a model of one stack.
std::string name_of(Stack stack, const model::ModelConfig& config);
// The stack with this name; empty: the default. Throws Error "bad_usage" where the model has none,
// which names the request's field that said it.
Stack stack_named(const std::string& name, const model::ModelConfig& config,
                  const std::string& field = "stack");
// How many layers it has.
std::int64_t layers_of(Stack stack, const model::ModelConfig& config);
// Whether a query sees the tokens before it alone.
bool is_causal(Stack stack, const model::ModelConfig& config);

// Throws Error "not_applicable" where some heads have no maps: layers with a state, or with fewer
// heads.
void require_all_heads(const model::Model& model);
// Throws Error "bad_usage" for a layer that has a state in place of attention.
void require_maps(const model::Model& model, std::int64_t layer);

// (1, N) int64.
at::Tensor ids_tensor(std::span<const std::int64_t> ids);

// What an encoding needs to say its frequencies and initial state for a text of `tokens` tokens.
model::StartContext start_context(const model::Decoder& decoder, std::int64_t tokens,
                                  at::ScalarType angle_dtype);

// The same for the encoding of a layer, which may have tensors of its own.
model::StartContext start_context_of(const model::Decoder& decoder, std::int64_t layer,
                                     std::int64_t tokens, at::ScalarType angle_dtype);

// `options` with what the text holds beside its ids.
model::ForwardOptions with_inputs_of(const Text& text, model::ForwardOptions options);

class TextPass {
 public:
  using LayerVisitor = std::function<void(const AttentionPointer& attention)>;
  using PositionVisitor = std::function<void(std::int64_t index, const model::PositionState&)>;

  // ids (B, N) int64, checked here. `keep_bytes`: the pass is kept if it needs no more than this.
  TextPass(std::shared_ptr<const model::Model> model, at::Tensor ids,
           model::ForwardOptions options = {}, std::int64_t keep_bytes = std::int64_t{192} << 20);

  const model::Model& model() const { return *model_; }
  const std::shared_ptr<const model::Model>& shared_model() const { return model_; }
  const at::Tensor& ids() const { return ids_; }
  // Queries of a stack.
  std::int64_t tokens(Stack stack = Stack::main) const {
    const bool given = stack != Stack::encoder && options_.decoder_ids.defined();
    return (given ? options_.decoder_ids : ids_).size(1);
  }
  const model::ForwardOptions& options() const { return options_; }

  // Calls the visitor for every layer in order. Cancelling is asked between layers. `probes`: what
  // the visitor will ask each layer for, so that a pass that runs for it can measure it on its way.
  // Throws Error "not_applicable" for models in which a layer has no maps, or fewer heads than
  // others: most readers count on a map of every head of every layer.
  void visit_layers(const LayerVisitor& visitor, const model::ProbeRequest* probes = nullptr,
                    Stack stack = Stack::main);
  // The same for readers that take the layers that have maps, and the heads that these have. Layers
  // after `last`, where it is given, are not visited, and not run for it.
  void visit_layers_with_maps(const LayerVisitor& visitor,
                              const model::ProbeRequest* probes = nullptr,
                              Stack stack = Stack::main,
                              std::optional<std::int64_t> last = std::nullopt);
  // The position states 0 (initial) .. n (after n layers), of encodings that have any.
  void visit_positions(const PositionVisitor& visitor);
  // One layer's attention. Of a pass that is not kept, or has not run and would read its weights
  // from a mapped file, the layers after it are not run, and it is kept alone until another one is
  // asked for or release(), where it needs no more than a whole pass may. Throws Error "bad_usage"
  // where there is no such layer, or it has no maps.
  AttentionPointer layer(std::int64_t index, Stack stack = Stack::main);

  // (B, N, C) after the final norm.
  const at::Tensor& hidden();
  // (B, N, V); made anew at every call.
  at::Tensor logits();
  // Loss in nats of each predicted token, (B, N - 1). Throws Error "not_applicable" where there is
  // none.
  at::Tensor losses();
  // Why losses() has none, as a clause ("it has no head"); empty where it has them.
  std::string loss_obstacle() const;

  // Whom forward passes report to from now on, and who may cancel them; null for nobody.
  void watch(protocol::Progress* progress);
  // Runs what has not run yet.
  void run();
  // Drops what a pass that is not kept still holds; it runs again for who asks again.
  void release();
  std::int64_t kept_bytes() const;
  // What ran attention, of all layers; empty where nothing has run yet.
  const model::AllRan& kernels() const { return kernels_; }

 private:
  class Recorder;

  std::int64_t estimated_bytes() const;
  std::int64_t layer_bytes() const;
  AttentionPointer layer_alone(std::int64_t index, Stack stack);
  bool reads_from_file() const { return !model_->decoder.weights().files.empty(); }
  void run_until(std::int64_t last, const LayerVisitor& visitor, const model::ProbeRequest* probes,
                 Stack stack);
  std::vector<AttentionPointer>& kept(Stack stack);
  void run_with(const LayerVisitor* layers, const PositionVisitor* positions,
                const model::ProbeRequest* probes = nullptr, Stack stack = Stack::main);

  std::shared_ptr<const model::Model> model_;
  at::Tensor ids_;
  model::ForwardOptions options_;
  std::int64_t keep_bytes_;
  bool keep_ = false;
  bool has_run_ = false;
  AttentionPointer alone_;  // of a pass that is not kept, the layer that was asked for last
  Stack stack_of_alone_ = Stack::main;
  std::array<std::vector<AttentionPointer>, 3> layers_;  // by stack
  // With their indices: layers without positions have none.
  std::vector<std::pair<std::int64_t, model::PositionState>> positions_;
  at::Tensor hidden_;
  model::AllRan kernels_;
};

// As long as it lives, a pass reports to `progress` and is cancelled by it; afterwards by nobody. A
// pass that is not kept runs again for each of its readers, each from 0 to 1: they watch it in
// turn.
class Watching {
 public:
  Watching(TextPass& pass, protocol::Progress& progress) : pass_(pass) { pass_.watch(&progress); }
  ~Watching() { pass_.watch(nullptr); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  TextPass& pass_;
};

// Who watches a pass through it hears nothing of how far the pass is, and cancels it all the same:
// for what runs within a step that says itself how far it is.
class CancelOnly final : public protocol::Progress {
 public:
  explicit CancelOnly(const protocol::Progress& whole) : whole_(whole) {}
  void progress(double, std::string_view) override {}
  bool cancelled() const override { return whole_.cancelled(); }

 private:
  const protocol::Progress& whole_;
};

}  // namespace phasescope::analysis
