#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Operators of one device that the CPU's kernels compute: for tests that register a device.

namespace phasescope::model {

// A tensor of the device with the one that the CPU gets in its place.
struct Stand {
  at::Tensor given, stand_in;
};

template <class Each>
c10::IValue with_tensors(const c10::IValue& value, const Each& each) {
  const auto changed = [&each](const at::Tensor& x) { return x.defined() ? each(x) : x; };
  if (value.isTensor()) return changed(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& x : value.toTensorVector()) list.push_back(changed(x));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector()) {
      list.push_back(x ? std::optional(changed(*x)) : x);
    }
    return list;
  }
  if (value.isDevice()) return at::Device(at::kCPU);
  return value;
}

// Runs an operator on stand-ins of the device's tensors. What it returns comes from `back`, but for
// arguments that it returns: those are given back themselves. Returns all stand-ins.
template <class There, class Back>
std::vector<Stand> run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                              const There& there, const Back& back) {
  std::vector<Stand> stands;
  torch::jit::Stack inner;
  const std::size_t count = op.schema().arguments().size();
  for (const c10::IValue& argument : torch::jit::last(*stack, count)) {
    inner.push_back(with_tensors(argument, [&](const at::Tensor& x) {
      stands.push_back({x, there(x)});
      return stands.back().stand_in;
    }));
  }
  torch::jit::drop(*stack, count);
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(inner);
  }
  for (const c10::IValue& result : inner) {
    stack->push_back(with_tensors(result, [&](const at::Tensor& x) {
      for (const Stand& one : stands) {
        if (x.is_same(one.stand_in)) return one.given;
      }
      return back(x);
    }));
  }
  return stands;
}

// Every operator that the CPU has a kernel of and that `wanted` says yes to.
inline void register_for(torch::Library& library, torch::CppFunction (*made)(),
                         const std::function<bool(const c10::OperatorHandle&)>& wanted) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name :
       dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !wanted(*op)) continue;
    const std::string own = name.name.substr(6);
    library.impl((name.overload_name.empty() ? own : own + "." + name.overload_name).c_str(),
                 made());
  }
}

// Operators whose result's size, or the result itself, is a matter of values: on a device each of
// them waits for it.
inline bool reads_values(const std::string& name) {
  static const std::set<std::string> names = {"aten::_local_scalar_dense",
                                              "aten::nonzero",
                                              "aten::masked_select",
                                              "aten::_unique",
                                              "aten::_unique2",
                                              "aten::equal",
                                              "aten::unique_dim",
                                              "aten::bincount",
                                              "aten::unique_consecutive",
                                              "aten::is_nonzero",
                                              "aten::_assert_async",
                                              "aten::repeat_interleave"};
  return names.contains(name);
}

}  // namespace phasescope::model
