#include "model/encodings/orthogonal_powers.h"

#include <ATen/ATen.h>

#include <utility>

#include "model/encodings/rotation.h"

namespace phasescope::model {

namespace {

// Planes (2m, 2m + 1) turned by `angles` (dim / 2).
at::Tensor turning_by(const at::Tensor& angles, std::int64_t dim) {
  const at::Tensor half = angles / 2;
  const at::Tensor first = at::arange(0, dim, 2, at::kLong);
  at::Tensor generator = at::zeros({dim, dim}, at::kDouble);
  generator.index_put_({first + 1, first}, half);
  generator.index_put_({first, first + 1}, -half);
  return generator;
}

}  // namespace

OptionInfo ape_base_option() { return base_option("base of RoPE's angles, which it starts with"); }

OptionInfo start_option(const std::string& matrices) {
  return {"start",
          "rope",
          matrices +
              " at the start: RoPE's rotation, the public code's reading of it, or near the "
              "identity",
          {"rope", "public_rope", "identity"}};
}

OptionInfo decay_option(const std::string& unit) {
  return {"decay", 0.98, "multiplies the score for each " + unit + "; 1: off", {}, kAboveZero, 1};
}

at::Tensor rope_generator(double base, std::int64_t dim) {
  return turning_by(rope_frequencies(base, dim, at::kDouble), dim);
}

at::Tensor start_generator(const std::string& start, double base, std::int64_t dim) {
  if (start == "rope") return rope_generator(base, dim);
  if (start != "public_rope") return {};
  const at::Tensor even = at::arange(dim / 2, at::kLong).floor_divide(2) * 2;
  return turning_by(-rope_frequencies(base, dim, at::kDouble).index_select(0, even), dim);
}

at::Tensor orthogonal_powers(const at::Tensor& generator, std::int64_t largest,
                             at::ScalarType dtype) {
  const at::Tensor a = generator.to(at::kDouble);
  at::Tensor power = at::linalg_matrix_exp(a - a.transpose(-1, -2));
  const at::ScalarType kept = table_dtype(dtype);
  std::vector<at::Tensor> powers = {power.to(kept)};
  for (std::int64_t reached = 1; reached < largest; reached = 2 * reached + 1) {
    power = at::matmul(power, power);
    powers.push_back(power.to(kept));
  }
  return at::stack(powers);
}

at::Tensor raised(const at::Tensor& x, const at::Tensor& powers, const at::Tensor& exponents) {
  const at::Tensor by_text = exponents.dim() == 2 ? exponents : exponents.unsqueeze(0);
  at::Tensor result = x.to(powers.scalar_type());
  for (std::int64_t bit = 0; bit < powers.size(0); ++bit) {
    const at::Tensor wanted = by_text.bitwise_right_shift(at::Scalar(bit)).bitwise_and(1).ne(0);
    result = at::where(wanted.unsqueeze(1).unsqueeze(-1),
                       at::matmul(result, powers[bit].transpose(-1, -2)), result);
  }
  return result.to(x.scalar_type());
}

TermProgram decaying(double decay, std::function<at::Tensor(const TermRegion&)> distance) {
  TermProgram term;
  term.arrays = 4;
  term.score = [decay, distance = std::move(distance)](const TermRegion& region) {
    const at::Tensor steps = distance(region).to(region.content.scalar_type());
    return region.content * at::pow(at::Scalar(decay), steps).unsqueeze(1);
  };
  return term;
}

}  // namespace phasescope::model
