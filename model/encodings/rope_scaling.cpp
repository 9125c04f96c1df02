#include "model/encodings/rope_scaling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/error.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {

OptionInfo shift_option() {
  constexpr auto kFarthest = static_cast<double>(kFarthestShift);
  return {"shift", 0, "position ids start here", {}, -kFarthest, kFarthest};
}

std::vector<OptionInfo> rope_options() {
  const OptionNeed stretched = {"scaling",
                                {"linear", "ntk", "dynamic", "yarn", "llama3", "longrope"}};
  const OptionNeed yarn = {"scaling", {"yarn"}}, llama3 = {"scaling", {"llama3"}};
  const OptionNeed longrope = {"scaling", {"longrope"}}, scaled = {"scaling", {"yarn", "longrope"}};
  return {
      base_option(),
      layout_option(),
      shift_option(),
      {"scaling",
       "none",
       "how it is stretched to longer texts",
       {"none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope"}},
      only_where(stretched, {"factor", 1.0, "of the stretching", {}, kAboveZero, kNoLimit}),
      only_where(stretched, {"trained_context",
                             0,
                             "length before stretching; 0: the model's context",
                             {},
                             0,
                             kNoLimit}),
      only_where(yarn, {"beta_fast",
                        32.0,
                        "yarn: planes that turn more often keep their frequency",
                        {},
                        kAboveZero,
                        kNoLimit}),
      only_where(yarn, {"beta_slow",
                        1.0,
                        "yarn: planes that turn less often are interpolated",
                        {},
                        kAboveZero,
                        kNoLimit}),
      only_where(scaled, {"attention_factor",
                          0.0,
                          "multiplies q and k; 0: 0.1 ln(factor) + 1 (yarn), sqrt(1 + ln(factor) / "
                          "ln(trained_context)) (longrope)",
                          {},
                          0,
                          kNoLimit}),
      only_where(yarn, {"truncate", true, "yarn: the ramp's ends are rounded to whole planes"}),
      only_where(yarn, {"ramp",
                        "planes",
                        "yarn: linear in the plane's number, or in its turns over trained_context",
                        {"planes", "turns"}}),
      only_where(llama3, {"low_freq_factor",
                          1.0,
                          "llama3: planes of fewer turns over trained_context are interpolated",
                          {},
                          kAboveZero,
                          kNoLimit}),
      only_where(llama3, {"high_freq_factor",
                          4.0,
                          "llama3: planes of more turns keep their frequency",
                          {},
                          kAboveZero,
                          kNoLimit}),
      only_where(longrope, {"short_factor", Json::array(),
                            "longrope: divides each plane's frequency up to trained_context"}),
      only_where(longrope, {"long_factor", Json::array(), "longrope: the same for longer texts"}),
      {"partial_rotary_factor",
       1.0,
       "share of the head's channels, the first ones, that turn",
       {},
       kAboveZero,
       1},
      {"turning_planes",
       1.0,
       "p-RoPE: share of the planes, the fastest ones, that turn; the others have frequency 0",
       {},
       kAboveZero,
       1},
  };
}

namespace {

std::vector<double> numbers(const Json& list, const char* key, std::int64_t planes) {
  std::vector<double> values;
  for (const Json& value : list) {
    if (!value.is_number() || !(value.get<double>() > 0)) {
      throw formats::bad_input("must hold numbers above 0, has " + value.dump(), key);
    }
    values.push_back(value.get<double>());
  }
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != planes) {
    throw formats::bad_input("has " + std::to_string(values.size()) + " values, but " +
                                 std::to_string(planes) + " planes turn",
                             key);
  }
  return values;
}

}  // namespace

std::vector<std::string> idle_scalings(const Json& options) {
  const std::string kind = options.at("scaling").get<std::string>();
  const bool by_factor = kind == "linear" || kind == "ntk" || kind == "yarn" || kind == "llama3";
  if (by_factor && options.at("factor").get<double>() == 1 &&
      options.value("attention_factor", 0.0) == 0) {
    return {"the scaling " + kind +
            " has the factor 1, which changes nothing: set encoding.factor"};
  }
  if (kind == "longrope" && options.at("short_factor").empty() &&
      options.at("long_factor").empty()) {
    return {
        "the scaling longrope has no lists, so no frequency is divided: set "
        "encoding.short_factor and encoding.long_factor"};
  }
  return {};
}

at::Tensor yarn_by_turns(const at::Tensor& plain, double factor, std::int64_t trained, double fast,
                         double slow) {
  const at::Tensor turns = plain * (static_cast<double>(trained) / (2 * std::numbers::pi));
  const at::Tensor keep = at::clamp((turns - slow) / (fast - slow), 0, 1);
  return plain / factor * (1 - keep) + plain * keep;
}

RopeScaling::RopeScaling(const Json& options, const ModelConfig& model)
    // Files give a fraction of a whole number, which may come out a little below it.
    : turned_(static_cast<std::int64_t>(std::floor(
          static_cast<double>(model.head_dim) * options.at("partial_rotary_factor").get<double>() +
          1e-6))),
      trained_(options.at("trained_context").get<std::int64_t>()),
      kind_(options.at("scaling").get<std::string>()),
      base_(options.at("base").get<double>()),
      factor_(options.at("factor").get<double>()),
      beta_fast_(options.at("beta_fast").get<double>()),
      beta_slow_(options.at("beta_slow").get<double>()),
      attention_factor_(options.at("attention_factor").get<double>()),
      low_freq_factor_(options.at("low_freq_factor").get<double>()),
      high_freq_factor_(options.at("high_freq_factor").get<double>()),
      turning_(options.at("turning_planes").get<double>()),
      truncate_(options.at("truncate").get<bool>()),
      by_turns_(options.at("ramp").get<std::string>() == "turns") {
  if (trained_ == 0) trained_ = model.context;
  if (turned_ < 2 || turned_ % 2 != 0) {
    throw formats::bad_input("rope turns pairs of channels, so their number must be even, but is " +
                             std::to_string(turned_));
  }
  if (kind_ == "llama3" && high_freq_factor_ < low_freq_factor_) {
    throw formats::bad_input("high_freq_factor must not be below low_freq_factor");
  }
  if (kind_ == "longrope" && attention_factor_ <= 0 && trained_ < 2) {
    throw formats::bad_input(
        "longrope divides by the logarithm of the trained context, so that must "
        "be at least 2",
        "rope.trained_context");
  }
  short_factor_ = numbers(options.at("short_factor"), "rope.short_factor", turned_ / 2);
  long_factor_ = numbers(options.at("long_factor"), "rope.long_factor", turned_ / 2);
}

at::Tensor RopeScaling::frequencies(std::int64_t length, const at::TensorOptions& options) const {
  const at::Tensor all = of_all_planes(length, options);
  if (turning_ == 1) return all;
  const std::int64_t planes = all.size(0);
  // A fraction of a whole number may come out a little below one, and counts as it.
  const auto turning =
      static_cast<std::int64_t>(std::floor(static_cast<double>(planes) * turning_ + 1e-6));
  return at::cat({all.narrow(0, 0, turning), at::zeros({planes - turning}, all.options())});
}

at::Tensor RopeScaling::of_all_planes(std::int64_t length, const at::TensorOptions& options) const {
  if (kind_ == "yarn") return yarn_frequencies(options);
  if (kind_ == "llama3") return llama3_frequencies(options);
  if (kind_ == "longrope") return longrope_frequencies(length, options);
  const at::Tensor plain = rope_frequencies(grown_base(length), turned_, options);
  return kind_ == "linear" ? plain / factor_ : plain;
}

double RopeScaling::magnitude() const {
  if (kind_ != "yarn" && kind_ != "longrope") return 1.0;
  if (attention_factor_ > 0) return attention_factor_;
  if (factor_ <= 1) return 1.0;
  if (kind_ == "yarn") return 0.1 * std::log(factor_) + 1.0;
  return std::sqrt(1 + std::log(factor_) / std::log(static_cast<double>(trained_)));
}

double RopeScaling::grown_base(std::int64_t length) const {
  const double d = static_cast<double>(turned_);
  if (kind_ == "ntk") return base_ * std::pow(factor_, d / (d - 2));
  if (kind_ == "dynamic") {
    const double trained = static_cast<double>(trained_);
    const double reached = std::max(static_cast<double>(length), trained) / trained;
    return base_ * std::pow(factor_ * reached - (factor_ - 1), d / (d - 2));
  }
  return base_;
}

// arXiv 2309.00071, Eq. 17-23; the ramp linear in the number of turns as there, or in the plane's
// number as Hugging Face has it.
at::Tensor RopeScaling::yarn_frequencies(const at::TensorOptions& options) const {
  const double d = static_cast<double>(turned_);
  const at::Tensor plain = rope_frequencies(base_, turned_, options);
  if (by_turns_) return yarn_by_turns(plain, factor_, trained_, beta_fast_, beta_slow_);
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
  const at::Tensor planes = at::arange(turned_ / 2, options);
  const at::Tensor keep = 1 - at::clamp((planes - low) / (high - low), 0, 1);
  return plain / factor_ * (1 - keep) + plain * keep;
}

// Planes of many turns over the trained length keep their frequency, those of few are divided by
// the factor, with a linear ramp between, which may have no width (Llama 4 Scout). The same for
// texts of any length.
at::Tensor RopeScaling::llama3_frequencies(const at::TensorOptions& options) const {
  const at::Tensor plain = rope_frequencies(base_, turned_, options);
  const at::Tensor wavelength = 2 * std::numbers::pi / plain;
  const at::Tensor turns = static_cast<double>(trained_) / wavelength;
  const double width = high_freq_factor_ - low_freq_factor_;
  const at::Tensor keep = width == 0 ? turns.gt(low_freq_factor_).to(plain.scalar_type())
                                     : at::clamp((turns - low_freq_factor_) / width, 0, 1);
  return plain / factor_ * (1 - keep) + plain * keep;
}

// arXiv 2402.13753. The long factors hold for all positions as soon as the text is longer than the
// trained length.
at::Tensor RopeScaling::longrope_frequencies(std::int64_t length,
                                             const at::TensorOptions& options) const {
  const at::Tensor plain = rope_frequencies(base_, turned_, options);
  const std::vector<double>& factors = length > trained_ ? long_factor_ : short_factor_;
  return factors.empty() ? plain : plain / at::tensor(factors, at::kDouble).to(options);
}

}  // namespace phasescope::model
