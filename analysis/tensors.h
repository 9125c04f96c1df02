#pragma once
// Between torch tensors and plain arrays.
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/tensor.h"

namespace phasescope::analysis {

// The values of a tensor of any shape and strides, row-major, converted to T.
template <class T>
std::vector<T> to_vector(const at::Tensor& tensor) {
  const at::Tensor plain =
      tensor.detach().to(at::kCPU, c10::CppTypeToScalarType<T>::value).contiguous();
  const T* values = plain.const_data_ptr<T>();
  return std::vector<T>(values, values + plain.numel());
}

// Puts the values of a tensor of any shape behind those of an array.
inline void append(std::vector<double>& to, const at::Tensor& from) {
  const std::vector<double> values = to_vector<double>(from);
  to.insert(to.end(), values.begin(), values.end());
}

// Largest absolute difference over the largest magnitude of `reference`; 0 where nothing differs,
// of a reference that is 0 throughout too.
double relative_difference(const at::Tensor& value, const at::Tensor& reference);

// A tensor of a reply that shares the torch tensor's memory where it is contiguous. Floating types
// keep their dtype; booleans become U8.
protocol::TensorRef tensor_ref(const std::string& name, const at::Tensor& tensor);

}  // namespace phasescope::analysis
