#include "model/encodings/rope_scaling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "model/encodings/rotation.h"

namespace phasescope::model {

std::vector<OptionInfo> rope_options() {
  const double none = std::numeric_limits<double>::infinity();
  const double tiny = std::numeric_limits<double>::min();
  return {
      {"base", 10000.0, "base of the frequencies base^(-2m/d)", {}, tiny, none},
      {"layout", "half", "channels of plane m: (m, m + d/2) or (2m, 2m + 1)",
       {"half", "interleaved"}},
      {"shift", 0, "position ids start here"},
      {"scaling", "none", "how it is stretched to longer texts",
       {"none", "linear", "ntk", "dynamic", "yarn"}},
      {"factor", 1.0, "of the stretching", {}, tiny, none},
      {"trained_context", 0, "length before stretching (dynamic, yarn); 0: the model's context",
       {}, 0, none},
      {"beta_fast", 32.0, "yarn: planes that turn more often keep their frequency", {}, tiny, none},
      {"beta_slow", 1.0, "yarn: planes that turn less often are interpolated", {}, tiny, none},
      {"attention_factor", 0.0, "yarn: multiplies q and k; 0: 0.1 ln(factor) + 1", {}, 0, none},
      {"truncate", true, "yarn: the ramp's ends are rounded to whole planes"},
  };
}

RopeScaling::RopeScaling(const Json& options, const ModelConfig& model)
    : head_dim_(model.head_dim),
      trained_(options.at("trained_context").get<std::int64_t>()),
      kind_(options.at("scaling").get<std::string>()),
      base_(options.at("base").get<double>()),
      factor_(options.at("factor").get<double>()),
      beta_fast_(options.at("beta_fast").get<double>()),
      beta_slow_(options.at("beta_slow").get<double>()),
      attention_factor_(options.at("attention_factor").get<double>()),
      truncate_(options.at("truncate").get<bool>()) {
  if (trained_ == 0) trained_ = model.context;
}

at::Tensor RopeScaling::frequencies(std::int64_t length, at::ScalarType dtype) const {
  if (kind_ == "yarn") return yarn_frequencies(dtype);
  const at::Tensor plain = rope_frequencies(grown_base(length), head_dim_, dtype);
  return kind_ == "linear" ? plain / factor_ : plain;
}

double RopeScaling::magnitude() const {
  if (kind_ != "yarn") return 1.0;
  if (attention_factor_ > 0) return attention_factor_;
  return factor_ > 1 ? 0.1 * std::log(factor_) + 1.0 : 1.0;
}

double RopeScaling::grown_base(std::int64_t length) const {
  const double d = static_cast<double>(head_dim_);
  if (kind_ == "ntk") return base_ * std::pow(factor_, d / (d - 2));
  if (kind_ == "dynamic") {
    const double trained = static_cast<double>(trained_);
    const double reached = std::max(static_cast<double>(length), trained) / trained;
    return base_ * std::pow(factor_ * reached - (factor_ - 1), d / (d - 2));
  }
  return base_;
}

// arXiv 2309.00071, Eq. 17-23, with the ramp linear in the plane index as Hugging Face has it.
at::Tensor RopeScaling::yarn_frequencies(at::ScalarType dtype) const {
  const double d = static_cast<double>(head_dim_);
  const auto plane_of_turns = [&](double turns) {
    return d * std::log(static_cast<double>(trained_) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base_));
  };
  double low = plane_of_turns(beta_fast_);
  double high = plane_of_turns(beta_slow_);
  if (truncate_) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d - 1);
  if (low == high) high += 0.001;
  const at::Tensor planes = at::arange(head_dim_ / 2, at::TensorOptions(dtype));
  const at::Tensor keep = 1 - at::clamp((planes - low) / (high - low), 0, 1);
  const at::Tensor plain = rope_frequencies(base_, head_dim_, dtype);
  return plain / factor_ * (1 - keep) + plain * keep;
}

}  // namespace phasescope::model
