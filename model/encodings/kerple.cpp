#include "model/encodings/kerple.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

// The public code clamps both parameters here, and writes the clamped values back.
constexpr double kSmallest = 0.01;

}  // namespace

Kerple::Kerple(const Json& options, const ModelConfig& model, double widest, double largest)
    : Encoding(options, model), widest_(widest), largest_(largest) {}

std::vector<ParameterSpec> Kerple::parameters() const {
  const auto uniform = [&](const char* name, double high) {
    return ParameterSpec{.name = name,
                         .shape = {heads_},
                         .init = ParameterSpec::Init::uniform,
                         .low = 0,
                         .high = high,
                         .decays = false};
  };
  return {uniform("p", 2), uniform("a", widest_)};
}

at::Tensor Kerple::bias_table(const Parameters& layer, std::int64_t length,
                              const at::TensorOptions& options) const {
  const at::Tensor p = layer.at("p").to(at::kDouble).clamp_min(kSmallest).unsqueeze(1);
  const at::Tensor a = layer.at("a").to(at::kDouble).clamp(kSmallest, largest_).unsqueeze(1);
  const at::Tensor distance = distances(length, options.device()).unsqueeze(0);
  return (-p * growth(a, distance)).to(table_options(options));
}

AttentionProgram Kerple::program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                                 const PositionState& state) const {
  AttentionProgram program = unrotated(q, k, state);
  program.variant =
      TableProgram{bias_table(layer, state.positions.largest_distance() + 1, q.options())};
  return program;
}

void Kerple::constrain(Parameters& layer) const {
  const at::NoGradGuard no_grad;
  layer.at("p").clamp_min_(kSmallest);
  layer.at("a").clamp_(kSmallest, largest_);
}

std::vector<EncodingCost> Kerple::cost(const CostSizes& sizes) const {
  return {score_cost("bias on the scores", sizes, 1)};
}

}  // namespace phasescope::model
