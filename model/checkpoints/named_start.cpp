#include "model/checkpoints/named_start.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <cmath>

#include "formats/counter_random.h"

namespace phasescope::model {
namespace {

using Coefficients = std::array<double, 8>;

double polynomial(const Coefficients& c, double x) {
  double value = 0;
  for (auto one = c.rbegin(); one != c.rend(); ++one) value = value * x + *one;
  return value;
}

double quotient(const Coefficients& above, const Coefficients& below, double x) {
  return polynomial(above, x) / polynomial(below, x);
}

// |p - 1/2| <= 0.425, in r = 0.180625 - (p - 1/2)^2.
constexpr Coefficients kMiddleAbove = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                       1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                       4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                       3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr Coefficients kMiddleBelow = {1.0,
                                       4.2313330701600911252e+1,
                                       6.8718700749205790830e+2,
                                       5.3941960214247511077e+3,
                                       2.1213794301586595867e+4,
                                       3.9307895800092710610e+4,
                                       2.8729085735721942674e+4,
                                       5.2264952788528545610e+3};
// Further out, in sqrt(-ln(min(p, 1 - p))) - 1.6 up to 5, and - 5 beyond.
constexpr Coefficients kOuterAbove = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                      5.76949722146069140550e0,  3.64784832476320460504e0,
                                      1.27045825245236838258e0,  2.41780725177450611770e-1,
                                      2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kOuterBelow = {1.0,
                                      2.05319162663775882187e0,
                                      1.67638483018380384940e0,
                                      6.89767334985100004550e-1,
                                      1.48103976427480074590e-1,
                                      1.51986665636164571966e-2,
                                      5.47593808499534494600e-4,
                                      1.05075007164441684324e-9};
constexpr Coefficients kFarAbove = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                    1.78482653991729133580e0,  2.96560571828504891230e-1,
                                    2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                    2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kFarBelow = {1.0,
                                    5.99832206555887937690e-1,
                                    1.36929880922735805310e-1,
                                    1.48753612908506148525e-2,
                                    7.86869131145613259100e-4,
                                    1.84631831751005468180e-5,
                                    1.42151175831644588870e-7,
                                    2.04426310338993978564e-15};

// A value for each of some entries, `value` a function of a number in (0, 1).
template <class Function>
at::Tensor filled(const TensorSpec& spec, std::uint64_t seed, std::int64_t first,
                  std::int64_t count, Function&& value) {
  constexpr std::int64_t kEntriesOfATask = 1 << 15;
  at::Tensor tensor = at::empty({count}, at::TensorOptions(at::kFloat));
  const formats::CounterRandom random(seed, name_hash(spec.name));
  auto* entries = tensor.data_ptr<float>();
  at::parallel_for(0, count, kEntriesOfATask, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t n = from; n < to; ++n) {
      entries[n] = static_cast<float>(value(random.unit(static_cast<std::uint64_t>(first + n))));
    }
  });
  return tensor;
}

at::Tensor drawn_by_name(const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed) {
  std::int64_t count = 1;
  for (const std::int64_t size : spec.shape) count *= size;
  return entries_by_name(spec, config, seed, 0, count).view(spec.shape);
}

}  // namespace

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) return q * quotient(kMiddleAbove, kMiddleBelow, 0.180625 - q * q);
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double size =
      r <= 5 ? quotient(kOuterAbove, kOuterBelow, r - 1.6) : quotient(kFarAbove, kFarBelow, r - 5);
  return q < 0 ? -size : size;
}

std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

at::Tensor entries_by_name(const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed,
                           std::int64_t begin, std::int64_t count) {
  using Init = ParameterSpec::Init;
  if (spec.start.defined()) {
    const at::Tensor whole = spec.start.to(at::kFloat).expand(spec.shape).contiguous();
    return whole.view({-1}).narrow(0, begin, count).clone();
  }
  const auto normal = [&](double deviation) {
    return filled(spec, seed, begin, count,
                  [=](double u) { return deviation * normal_quantile(u); });
  };
  switch (spec.init) {
    case Init::zeros:
      return at::zeros({count}, at::TensorOptions(at::kFloat));
    case Init::ones:
      return at::ones({count}, at::TensorOptions(at::kFloat));
    case Init::uniform:
      return filled(spec, seed, begin, count,
                    [&](double u) { return spec.low + (spec.high - spec.low) * u; });
    case Init::residual_normal:
      return normal(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers)));
    case Init::normal:
      return normal(spec.low > 0 ? spec.low : config.init_std);
  }
  return {};
}

Weights weights_by_name(const ModelConfig& config, const Encoding& encoding, std::uint64_t seed) {
  Weights weights = empty_weights(config);
  for (const TensorSpec& spec : tensor_specs(config, encoding)) {
    if (!spec.optional) tensor_at(weights, spec.name) = drawn_by_name(spec, config, seed);
  }
  return weights;
}

}  // namespace phasescope::model
