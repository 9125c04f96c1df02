#include "model/encodings/kerple_power.h"

#include <ATen/ATen.h>

#include "model/encodings/kerple.h"

namespace phasescope::model {
namespace {

// a up to here, the kernel is conditionally positive definite.
constexpr double kLargestPower = 2.0;

const EncodingInfo& kerple_power_info() {
  static const EncodingInfo info = {
      .key = "kerple_power",
      .title = "Kerple, power",
      .formula = "s_ij = q_i.k_j / sqrt(d) - p_h (i - j)^a_h, p at least 0.01, a in 0.01..2",
      .source = "arXiv 2205.09921, Eq. 5",
      .departure = "",
      .options = {},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

class KerplePower final : public Kerple {
 public:
  KerplePower(const Json& options, const ModelConfig& model)
      : Kerple(options, model, kLargestPower, kLargestPower) {}

  const EncodingInfo& info() const override { return kerple_power_info(); }

 private:
  at::Tensor growth(const at::Tensor& a, const at::Tensor& distance) const override {
    return at::pow(distance, a);
  }
};

std::unique_ptr<Encoding> make_kerple_power(const Json& options, const ModelConfig& model) {
  return std::make_unique<KerplePower>(options, model);
}

}  // namespace

EncodingEntry kerple_power_entry() { return {&kerple_power_info(), &make_kerple_power}; }

}  // namespace phasescope::model
