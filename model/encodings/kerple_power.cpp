#include "model/encodings/kerple_power.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace phasescope::model {
namespace {

// p > 0 and 0 < a <= 2, where the kernel is conditionally positive definite; kept off 0 as
// kerple_log's.
constexpr double kSmallest = 0.01;
constexpr double kLargestPower = 2.0;

const EncodingInfo& kerple_power_info() {
  static const EncodingInfo info = {
      .key = "kerple_power",
      .title = "Kerple, power",
      .formula = "s_ij = q_i.k_j / sqrt(d) - p_h (i - j)^a_h, p at least 0.01, a in 0.01..2",
      .source = "arXiv 2205.09921, Eq. 5",
      .departure = "",
      .options = {},
      .shift_invariant = true,
      .has_state = false,
  };
  return info;
}

class KerplePower final : public Encoding {
 public:
  KerplePower(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return kerple_power_info(); }

  std::vector<ParameterSpec> parameters() const override {
    using Init = ParameterSpec::Init;
    return {{.name = "p",
             .shape = {heads_},
             .init = Init::uniform,
             .low = 0,
             .high = 2,
             .decays = false},
            {.name = "a",
             .shape = {heads_},
             .init = Init::uniform,
             .low = 0,
             .high = 2,
             .decays = false}};
  }

  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        at::ScalarType dtype) const override {
    const at::Tensor p = layer.at("p").to(dtype).clamp_min(kSmallest).unsqueeze(1);
    const at::Tensor a = layer.at("a").to(dtype).clamp(kSmallest, kLargestPower).unsqueeze(1);
    const at::Tensor distance = distances(length, dtype).unsqueeze(0);
    return -p * at::pow(distance, a);
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.kind = AttentionProgram::Kind::table;
    program.table.values =
        bias_table(layer, state.positions.largest_distance() + 1, q.scalar_type());
    return program;
  }

  void constrain(Parameters& layer) const override {
    const at::NoGradGuard no_grad;
    layer.at("p").clamp_min_(kSmallest);
    layer.at("a").clamp_(kSmallest, kLargestPower);
  }
};

std::unique_ptr<Encoding> make_kerple_power(const Json& options, const ModelConfig& model) {
  return std::make_unique<KerplePower>(options, model);
}

}  // namespace

EncodingEntry kerple_power_entry() { return {&kerple_power_info(), &make_kerple_power}; }

}  // namespace phasescope::model
