#include "model/encodings/rotation.h"

#include <ATen/ATen.h>

#include "formats/error.h"

namespace phasescope::model {

namespace {

at::Tensor rotate_all(const at::Tensor& x, const at::Tensor& z, RotationLayout layout) {
  const at::Tensor c = z.select(-2, 0);
  const at::Tensor s = z.select(-2, 1);
  if (layout == RotationLayout::half) {
    const std::int64_t planes = z.size(-1);
    const at::Tensor a = x.narrow(-1, 0, planes);
    const at::Tensor b = x.narrow(-1, planes, planes);
    return at::cat({a * c - b * s, b * c + a * s}, -1);
  }
  const at::Tensor pairs = x.unflatten(-1, {z.size(-1), 2});
  const at::Tensor a = pairs.select(-1, 0);
  const at::Tensor b = pairs.select(-1, 1);
  return at::stack({a * c - b * s, b * c + a * s}, -1).flatten(-2);
}

// c x + s R(x), R a quarter turn of each plane.
at::Tensor turn_by_channel(const at::Tensor& x, const at::Tensor& z, RotationLayout layout) {
  const at::Tensor quarter =
      layout == RotationLayout::half
          ? at::cat(
                {-x.narrow(-1, x.size(-1) / 2, x.size(-1) / 2), x.narrow(-1, 0, x.size(-1) / 2)},
                -1)
          : at::stack({-x.slice(-1, 1, x.size(-1), 2), x.slice(-1, 0, x.size(-1), 2)}, -1)
                .flatten(-2);
  return z.select(-2, 0) * x + z.select(-2, 1) * quarter;
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, const at::Tensor& z, RotationLayout layout) {
  if (z.size(-1) == x.size(-1)) return turn_by_channel(x, z, layout);
  const std::int64_t turned = 2 * z.size(-1);
  if (turned == x.size(-1)) return rotate_all(x, z, layout);
  return at::cat(
      {rotate_all(x.narrow(-1, 0, turned), z, layout), x.narrow(-1, turned, x.size(-1) - turned)},
      -1);
}

OptionInfo base_option(const std::string& help) {
  return {"base", 10000.0, help, {}, kAboveZero, kNoLimit};
}

OptionInfo layout_option() {
  return {"layout",
          "half",
          "channels of plane m: (m, m + d/2) or (2m, 2m + 1)",
          {"half", "interleaved"}};
}

RotationLayout layout_of(const Json& options) {
  return options.at("layout") == "half" ? RotationLayout::half : RotationLayout::interleaved;
}

void require_pairs(const char* key, std::int64_t head_dim) {
  if (head_dim % 2 == 0) return;
  throw formats::bad_input(std::string(key) +
                           " turns pairs of channels, so the head size must be even, but is " +
                           std::to_string(head_dim));
}

void require_key_heads(const char* key, std::int64_t heads, std::int64_t key_heads) {
  if (key_heads == heads) return;
  throw formats::bad_input(std::string(key) + " needs a key head for every head, but there are " +
                           std::to_string(key_heads) + " for " + std::to_string(heads));
}

at::Tensor rope_frequencies(double base, std::int64_t head_dim, const at::TensorOptions& options) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, options.dtype(at::kLong)).to(options.dtype().toScalarType()) /
      head_dim;
  return 1.0 / at::pow(at::Scalar(base), exponents);
}

double farthest_apart(const Positions& positions) {
  const PositionExtent ends = positions.measured();
  if (ends.reach <= std::int64_t{1} << 24) return static_cast<double>(ends.reach);
  return static_cast<double>(ends.greatest) - static_cast<double>(ends.least);
}

at::Tensor position_ids(const Positions& positions) {
  return positions.consecutive() ? at::arange(positions.shift, positions.shift + positions.length,
                                              positions.options(at::kLong))
                                 : positions.ids;
}

at::Tensor position_ids(const StartContext& context, std::int64_t extra_shift) {
  return position_ids(context.positions) + extra_shift;
}

at::Tensor position_values(const StartContext& context, std::int64_t extra_shift) {
  return position_ids(context, extra_shift).to(context.angle_dtype);
}

at::Tensor table_rows(const StartContext& context, std::int64_t extra_shift, std::int64_t rows) {
  const at::Tensor ids = position_ids(context, extra_shift);
  if (ids.numel() == 0) return ids;
  const PositionExtent ends = context.positions.measured();
  for (const std::int64_t row : {ends.least + extra_shift, ends.greatest + extra_shift}) {
    if (row >= 0 && row < rows) continue;
    throw formats::bad_input("position " + std::to_string(row - extra_shift) +
                                 " lies outside the table of " +
                                 std::to_string(rows - extra_shift) + " positions",
                             "positions");
  }
  return ids;
}

at::Tensor sinusoids(const at::Tensor& positions, double base, std::int64_t width) {
  const at::Tensor angles =
      positions.unsqueeze(-1) * rope_frequencies(base, width, positions.options());
  return at::stack({angles.sin(), angles.cos()}, -1).flatten(-2);
}

at::Tensor turned(const at::Tensor& angles, at::ScalarType dtype) {
  return at::stack({angles.cos(), angles.sin()}, -2).to(dtype);
}

at::Tensor rotation_state(const at::Tensor& positions, const at::Tensor& frequencies,
                          at::ScalarType dtype) {
  const at::Tensor z = turned(positions.unsqueeze(-1) * frequencies, dtype);  // ([B,] N, 2, planes)
  return positions.dim() == 2 ? z.unsqueeze(1) : z.unsqueeze(0).unsqueeze(0);
}

}  // namespace phasescope::model
