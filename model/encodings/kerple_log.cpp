#include "model/encodings/kerple_log.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace phasescope::model {
namespace {

// The public code clamps both parameters here, and writes the clamped values back.
constexpr double kSmallest = 0.01;

const EncodingInfo& kerple_log_info() {
  static const EncodingInfo info = {
      .key = "kerple_log",
      .title = "Kerple, logarithmic",
      .formula = "s_ij = q_i.k_j / sqrt(d) - p_h ln(1 + a_h (i - j)), p and a at least 0.01",
      .source = "arXiv 2205.09921, Eq. 6",
      .departure = "",
      .options = {},
      .shift_invariant = true,
      .has_state = false,
  };
  return info;
}

class KerpleLog final : public Encoding {
 public:
  KerpleLog(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return kerple_log_info(); }

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
             .high = 1,
             .decays = false}};
  }

  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        at::ScalarType dtype) const override {
    const at::Tensor p = layer.at("p").to(dtype).clamp_min(kSmallest).unsqueeze(1);
    const at::Tensor a = layer.at("a").to(dtype).clamp_min(kSmallest).unsqueeze(1);
    const at::Tensor distance = distances(length, dtype).unsqueeze(0);
    return -p * at::log1p(a * distance);
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program;
    program.kind = AttentionProgram::Kind::table;
    program.q = program.q_plain = q;
    program.k = program.k_plain = k;
    program.scale = scale_;
    program.table.values =
        bias_table(layer, state.positions.largest_distance() + 1, q.scalar_type());
    program.positions = state.positions;
    return program;
  }

  void constrain(Parameters& layer) const override {
    const at::NoGradGuard no_grad;
    layer.at("p").clamp_min_(kSmallest);
    layer.at("a").clamp_min_(kSmallest);
  }
};

std::unique_ptr<Encoding> make_kerple_log(const Json& options, const ModelConfig& model) {
  return std::make_unique<KerpleLog>(options, model);
}

}  // namespace

EncodingEntry kerple_log_entry() { return {&kerple_log_info(), &make_kerple_log}; }

}  // namespace phasescope::model
