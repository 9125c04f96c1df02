#include "model/encodings/rotation.h"

#include <ATen/ATen.h>

namespace phasescope::model {

at::Tensor rotate(const at::Tensor& x, const at::Tensor& z, RotationLayout layout) {
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

at::Tensor rope_frequencies(double base, std::int64_t head_dim, at::ScalarType dtype) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::TensorOptions(at::kLong)).to(dtype) / head_dim;
  return 1.0 / at::pow(at::Scalar(base), exponents);
}

at::Tensor position_values(const StartContext& context, std::int64_t extra_shift) {
  const Positions& positions = context.positions;
  const at::Tensor ids =
      positions.consecutive()
          ? at::arange(positions.shift, positions.shift + positions.length, at::kLong)
          : positions.ids;
  return (ids + extra_shift).to(context.angle_dtype);
}

at::Tensor rotation_state(const at::Tensor& positions, const at::Tensor& frequencies,
                          at::ScalarType dtype) {
  const at::Tensor angles = (positions.unsqueeze(1) * frequencies.unsqueeze(0)).to(dtype);
  const at::Tensor z = at::stack({angles.cos(), angles.sin()}, 1);  // (N, 2, d/2)
  return z.unsqueeze(0).unsqueeze(0);
}

}  // namespace phasescope::model
