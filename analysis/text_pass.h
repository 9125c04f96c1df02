#pragma once
// One text's pass through a model: what every analysis reads. Kept in memory where it is small, so
// that views of one text share it; otherwise run again for each visit, one layer at a time.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/texts.h"
#include "model/decoder.h"
#include "model/open_model.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

using AttentionPointer = std::shared_ptr<const model::LayerAttention>;

// (1, N) int64.
at::Tensor ids_tensor(std::span<const std::int64_t> ids);

// What an encoding needs to say its frequencies and initial state for a text of `tokens` tokens.
model::StartContext start_context(const model::Decoder& decoder, std::int64_t tokens,
                                  at::ScalarType angle_dtype);

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
  // Of the stack that is observed: the decoder's in an encoder-decoder.
  std::int64_t tokens() const {
    return (options_.decoder_ids.defined() ? options_.decoder_ids : ids_).size(1);
  }
  const model::ForwardOptions& options() const { return options_; }

  // Calls the visitor for every layer in order. Cancelling is asked between layers. `probes`: what
  // the visitor will ask each layer for, so that a pass that runs for it can measure it on its way.
  void visit_layers(const LayerVisitor& visitor, const model::ProbeRequest* probes = nullptr);
  // The position states 0 (initial) .. n (after n layers), of encodings that have any.
  void visit_positions(const PositionVisitor& visitor);
  // One layer's attention.
  AttentionPointer layer(std::int64_t index);

  // (B, N, C) after the final norm.
  const at::Tensor& hidden();
  // (B, N, V); made anew at every call.
  at::Tensor logits();
  // Loss in nats of each predicted token, (B, N - 1). Throws Error "bad_input" where there is none.
  at::Tensor losses();
  // Why losses() has none, as a clause ("it has no head"); empty where it has them.
  std::string loss_obstacle() const;

  // Whom forward passes report to from now on, and who may cancel them; null for nobody.
  void watch(protocol::Progress* progress);
  // Runs what has not run yet.
  void run();
  std::int64_t kept_bytes() const;
  // Which implementation ran attention; empty where no layer has been looked at yet.
  const std::string& kernel() const { return kernel_; }

 private:
  class Recorder;

  std::int64_t estimated_bytes() const;
  void run_with(const LayerVisitor* layers, const PositionVisitor* positions,
                const model::ProbeRequest* probes = nullptr);

  std::shared_ptr<const model::Model> model_;
  at::Tensor ids_;
  model::ForwardOptions options_;
  bool keep_ = false;
  bool has_run_ = false;
  std::vector<AttentionPointer> layers_;
  std::vector<model::PositionState> positions_;
  at::Tensor hidden_;
  std::string kernel_;
};

}  // namespace phasescope::analysis
