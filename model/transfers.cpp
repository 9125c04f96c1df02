#include "model/transfers.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <string_view>

namespace phasescope::model {
namespace {

// LibTorch calls functions, which know no object.
std::atomic<std::int64_t> copied_to_device, copied_to_host;

bool is_tensor(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const auto inputs = call.inputs();
  if (name == "aten::copy_" && inputs.size() > 1 && is_tensor(inputs[0]) && is_tensor(inputs[1])) {
    const bool to_host = inputs[0].toTensor().is_cpu(), of_host = inputs[1].toTensor().is_cpu();
    if (to_host != of_host) ++(to_host ? copied_to_host : copied_to_device);
  } else if (name == "aten::_local_scalar_dense" && !inputs.empty() && is_tensor(inputs[0])) {
    if (!inputs[0].toTensor().is_cpu()) ++copied_to_host;
  }
  return nullptr;
}

}  // namespace

Transfers::Transfers() {
  copied_to_device = copied_to_host = 0;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

Transfers::~Transfers() { at::removeCallback(handle_); }

std::int64_t Transfers::to_device() const { return copied_to_device; }
std::int64_t Transfers::to_host() const { return copied_to_host; }

}  // namespace phasescope::model
