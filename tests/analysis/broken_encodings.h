#pragma once
// Encodings that break one statement each, for the checks that must fail on them.
#include <functional>
#include <memory>

#include "model/encoding.h"

namespace phasescope::analysis::testing {

// An encoding that hands everything on to another one.
class Wrapped : public model::Encoding {
 public:
  Wrapped(std::shared_ptr<const model::Encoding> inner, const model::ModelConfig& config)
      : Encoding(inner->options(), config), inner_(std::move(inner)) {}

  const model::EncodingInfo& info() const override { return inner_->info(); }
  at::Tensor frequencies(const model::StartContext& context) const override {
    return inner_->frequencies(context);
  }
  model::PositionState start(const model::StartContext& context) const override {
    return inner_->start(context);
  }
  model::AttentionProgram program(const model::Parameters& layer, const at::Tensor& q,
                                  const at::Tensor& k,
                                  const model::PositionState& state) const override {
    return inner_->program(layer, q, k, state);
  }
  void after_attention(const model::Parameters& layer, const at::Tensor& averaged,
                       model::PositionState& state) const override {
    inner_->after_attention(layer, averaged, state);
  }
  void after_mlp(const model::Parameters& layer, const model::MlpContext& context,
                 model::PositionState& state) const override {
    inner_->after_mlp(layer, context, state);
  }

 protected:
  std::shared_ptr<const model::Encoding> inner_;
};

// After each layer the state is changed by `change` too.
class ChangedState final : public Wrapped {
 public:
  using Change = std::function<at::Tensor(const at::Tensor& z)>;
  ChangedState(std::shared_ptr<const model::Encoding> inner, const model::ModelConfig& config,
               Change change)
      : Wrapped(std::move(inner), config), change_(std::move(change)) {}
  void after_mlp(const model::Parameters& layer, const model::MlpContext& context,
                 model::PositionState& state) const override;

 private:
  Change change_;
};

// q and k are turned the other way: distances change their sign.
class TurnedBack final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  model::PositionState start(const model::StartContext& context) const override;
};

// The state after a layer mixed over its planes: equivariant for one rotation of all planes, broken
// by a shift, which turns each plane by an angle of its own.
at::Tensor planes_mixed(const at::Tensor& z);
// The state of the n-th token in memory scaled by something that depends on n.
at::Tensor scaled_by_index(const at::Tensor& z);

}  // namespace phasescope::analysis::testing
