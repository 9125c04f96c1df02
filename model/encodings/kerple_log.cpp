#include "model/encodings/kerple_log.h"

#include <ATen/ATen.h>

#include "model/encodings/kerple.h"

namespace phasescope::model {
namespace {

const EncodingInfo& kerple_log_info() {
  static const EncodingInfo info = {
      .key = "kerple_log",
      .title = "Kerple, logarithmic",
      .formula = "s_ij = q_i.k_j / sqrt(d) - p_h ln(1 + a_h (i - j)), p and a at least 0.01",
      .source = "arXiv 2205.09921, Eq. 6",
      .departure = "",
      .options = {},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

class KerpleLog final : public Kerple {
 public:
  KerpleLog(const Json& options, const ModelConfig& model) : Kerple(options, model, 1, kNoLimit) {}

  const EncodingInfo& info() const override { return kerple_log_info(); }

 private:
  at::Tensor growth(const at::Tensor& a, const at::Tensor& distance) const override {
    return at::log1p(a * distance);
  }
};

std::unique_ptr<Encoding> make_kerple_log(const Json& options, const ModelConfig& model) {
  return std::make_unique<KerpleLog>(options, model);
}

}  // namespace

EncodingEntry kerple_log_entry() { return {&kerple_log_info(), &make_kerple_log}; }

}  // namespace phasescope::model
