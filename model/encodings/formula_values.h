#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "formats/formula/terms.h"
#include "model/encoding.h"
#include "model/encodings/rotation.h"

// Values of a formula by tensor operations, with gradients.

namespace phasescope::model {

// What a formula is evaluated on: texts, heads, queries, keys and channels, each of size 1 where
// nothing depends on it: (B, heads, rows, columns, numbers). What it does not read may be missing.
struct FormulaAxes {
  at::Tensor q, k, content;  // (B, heads, rows, 1, d), (B, heads, 1, columns, d), (.., 1)
  at::Tensor distance, difference, query_place, key_place;
  std::int64_t first_head = 0, heads = 1;
  double length = 0;
  at::ScalarType dtype = at::kDouble;
  at::Device device = at::kCPU;

  at::TensorOptions options() const { return at::TensorOptions(dtype).device(device); }
};

class FormulaValues {
 public:
  // The parameters by name; all of them outlive this.
  FormulaValues(const formula::Formula& formula, const Parameters& parameters, FormulaAxes axes,
                RotationLayout layout);

  // (B, heads, rows, columns, numbers), of the axes' dtype.
  at::Tensor of(int id) const;
  at::Tensor of(const formula::Terms& terms) const;
  // A parameter as it is stored, within its limits.
  at::Tensor parameter(int index) const;

 private:
  at::Tensor of_node(const formula::Node& node, const std::vector<at::Tensor>& values) const;
  at::Tensor of_two(const formula::Node& node, const at::Tensor& a, const at::Tensor& b) const;
  at::Tensor of_parameter(int index) const;
  at::Tensor power(const formula::Node& node, const at::Tensor& base,
                   const at::Tensor& exponent) const;
  at::Tensor looked_up(int index, const at::Tensor& places) const;
  at::Tensor bucket(const formula::Node& node, const at::Tensor& distance) const;
  at::Tensor planes(const at::Tensor& x, bool second) const;

  const formula::Formula& f_;
  const Parameters& parameters_;
  FormulaAxes axes_;
  RotationLayout layout_;
};

// Arrays of (rows, columns) that a term's evaluation may hold at once, of all heads.
std::int64_t formula_arrays(const formula::Formula& formula);

}  // namespace phasescope::model
