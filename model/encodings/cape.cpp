#include "model/encodings/cape.h"

#include <ATen/ATen.h>

#include <cmath>

#include "formats/error.h"

namespace phasescope::model {
namespace {

const EncodingInfo& cape_info() {
  static const EncodingInfo info = {
      .key = "cape",
      .title = "CAPE (context-adaptive bias, published as DAPE too)",
      .formula = "concat_residual: s = A + B + f([A, B]), A and B the content scores and base "
                 "biases of all heads of a pair, f = Linear(D, H) leaky(Linear(2H, D))",
      .source = "arXiv 2405.14722, Eq. 4-5",
      .departure = "",
      .options = {{"base", "kerple_log", "the bias that is corrected", {"alibi", "kerple_log"}},
                  {"form", "concat_residual", "what f reads and is added to",
                   {"concat_residual", "concat", "add_residual", "content"}},
                  {"hidden", 32, "D, width of f's hidden layer", {}, 1, 4096}},
      .shift_invariant = true,
      .has_state = false,
  };
  return info;
}

CapeProgram::Form form_of(const std::string& name) {
  if (name == "concat") return CapeProgram::Form::concat;
  if (name == "add_residual") return CapeProgram::Form::add_residual;
  if (name == "content") return CapeProgram::Form::content;
  return CapeProgram::Form::concat_residual;
}

std::unique_ptr<Encoding> make_base(const std::string& key, const ModelConfig& model) {
  ModelConfig config = model;
  config.encoding = {key, Json::object()};
  return make_encoding(config);
}

class Cape final : public Encoding {
 public:
  Cape(const Json& options, const ModelConfig& model)
      : Encoding(options, model), form_(form_of(text("form"))) {
    if (form_ != CapeProgram::Form::content) base_ = make_base(text("base"), model);
  }

  const EncodingInfo& info() const override { return cape_info(); }

  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    if (base_) specs = base_->parameters();
    const std::int64_t inputs = reads_both() ? 2 * heads_ : heads_;
    const std::int64_t hidden = integer("hidden");
    const double bound1 = 1.0 / std::sqrt(static_cast<double>(inputs));
    const double bound2 = 1.0 / std::sqrt(static_cast<double>(hidden));
    const auto uniform = [&](const char* name, std::vector<std::int64_t> shape, double bound) {
      const bool matrix = shape.size() == 2;
      specs.push_back({.name = name, .shape = std::move(shape),
                       .init = ParameterSpec::Init::uniform, .low = -bound, .high = bound,
                       .decays = matrix});
    };
    uniform("mlp.0.weight", {hidden, inputs}, bound1);
    uniform("mlp.0.bias", {hidden}, bound1);
    uniform("mlp.2.weight", {heads_, hidden}, bound2);
    uniform("mlp.2.bias", {heads_}, bound2);
    return specs;
  }

  // Of the base: what the correction adds depends on the content.
  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        at::ScalarType dtype) const override {
    return base_ ? base_->bias_table(layer, length, dtype) : at::Tensor();
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program;
    program.kind = AttentionProgram::Kind::cape;
    program.q = program.q_plain = q;
    program.k = program.k_plain = k;
    program.scale = scale_;
    program.positions = state.positions;
    program.cape = {form_,
                    bias_table(layer, state.positions.largest_distance() + 1, q.scalar_type()),
                    layer.at("mlp.0.weight"), layer.at("mlp.0.bias"), layer.at("mlp.2.weight"),
                    layer.at("mlp.2.bias")};
    return program;
  }

  void constrain(Parameters& layer) const override {
    if (base_) base_->constrain(layer);
  }

 private:
  bool reads_both() const {
    return form_ == CapeProgram::Form::concat_residual || form_ == CapeProgram::Form::concat;
  }

  CapeProgram::Form form_;
  std::unique_ptr<Encoding> base_;
};

std::unique_ptr<Encoding> make_cape(const Json& options, const ModelConfig& model) {
  return std::make_unique<Cape>(options, model);
}

}  // namespace

EncodingEntry cape_entry() { return {&cape_info(), &make_cape}; }

}  // namespace phasescope::model
