#include "analysis/tensors.h"

#include <ATen/ATen.h>

#include "formats/error.h"

namespace phasescope::analysis {
namespace {

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "F64";
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kByte:
      return "U8";
    default:
      throw formats::internal_error("a tensor has a type that replies do not carry");
  }
}

}  // namespace

double relative_difference(const at::Tensor& value, const at::Tensor& reference) {
  // Of a device both come to the host at once.
  const at::Tensor both =
      at::stack({(value - reference).abs().max(), reference.abs().max()}).to(at::kCPU);
  return both[0].item<double>() == 0 ? 0 : (both[0] / both[1]).item<double>();
}

protocol::TensorRef tensor_ref(const std::string& name, const at::Tensor& tensor) {
  at::Tensor plain = tensor.detach().to(at::kCPU).contiguous();
  if (plain.scalar_type() == at::kBool) plain = plain.to(at::kByte);
  auto keeper = std::make_shared<const at::Tensor>(plain);
  return protocol::TensorRef::view(name, dtype_name(plain.scalar_type()), plain.sizes().vec(),
                                   plain.const_data_ptr(), keeper);
}

}  // namespace phasescope::analysis
