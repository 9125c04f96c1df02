#include "meta_device.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "boxed_tensors.h"

namespace phasescope::model {
namespace {

struct State {
  MetaCounts counts;
  bool zeros = false;
  std::function<void(const void*)> told;
  std::optional<at::CallbackHandle> handle;
};
State& state() {
  static State one;
  return one;
}

at::Tensor zeros_like_it(const at::Tensor& x) {
  if (!x.is_meta()) return x;
  return at::zeros(x.sizes(), x.options().device(at::kCPU));
}

void shapes_of_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto as_meta = [](const at::Tensor& x) {
    return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kMeta));
  };
  // What was given to be filled, as abs does, may have another size now.
  for (const Stand& one : run_on_cpu(op, stack, &zeros_like_it, as_meta)) {
    if (one.given.sizes() != one.stand_in.sizes()) one.given.resize_(one.stand_in.sizes());
  }
}

torch::CppFunction shapes() { return torch::CppFunction::makeFromBoxedFunction<&shapes_of_cpu>(); }

void require_zeros() {
  TORCH_CHECK(state().zeros, "the host asked the meta device for numbers, and it has none");
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool) {
  TORCH_CHECK(at::infer_size(to.sizes(), from.sizes()) == to.sizes(), "a copy of ", from.sizes(),
              " into ", to.sizes());
  if (to.is_meta()) {
    if (!from.is_meta()) ++state().counts.to_device;
    return to;
  }
  require_zeros();
  ++state().counts.to_host;
  return to.zero_();
}

at::Scalar local_scalar(const at::Tensor& x) {
  require_zeros();
  ++state().counts.reads;
  return at::zeros({}, x.options().device(at::kCPU)).item();
}

// LibTorch knows shapes of many operators in Python alone; there the CPU's kernel says them, on
// zeros. What depends on values has no shape.
class OnMeta : public testing::Environment {
 public:
  void SetUp() override {
    library_ = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                c10::DispatchKey::Meta, __FILE__, __LINE__);
    const auto knows_shapes = [](const c10::OperatorHandle& op) {
      using Key = c10::DispatchKey;
      return op.hasKernelForDispatchKey(Key::Meta) ||
             op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd) ||
             op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
             op.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional);
    };
    register_for(*library_, &shapes, [&](const c10::OperatorHandle& op) {
      return !reads_values(op.schema().name()) && !knows_shapes(op);
    });
    library_->impl("copy_", &copy);
    library_->impl("_local_scalar_dense", &local_scalar);
  }

 private:
  std::unique_ptr<torch::Library> library_;
};
const testing::Environment* const on_meta = testing::AddGlobalTestEnvironment(new OnMeta);

void tell_of(const at::Tensor& x) {
  if (x.defined() && x.is_meta() && state().told) state().told(meta_memory_of(x));
}

std::unique_ptr<at::ObserverContext> tell_of_inputs(const at::RecordFunction& call) {
  for (const c10::IValue& input : call.inputs()) {
    (void)with_tensors(input, [](const at::Tensor& x) {
      tell_of(x);
      return x;
    });
  }
  return nullptr;
}

}  // namespace

MetaCounts meta_counts() { return state().counts; }

ZerosOfMeta::ZerosOfMeta() { state().zeros = true; }
ZerosOfMeta::~ZerosOfMeta() { state().zeros = false; }

const void* meta_memory_of(const at::Tensor& x) { return x.storage().unsafeGetStorageImpl(); }

void watch_meta_reads(std::function<void(const void* memory)> told) {
  State& all = state();
  all.told = std::move(told);
  if (all.handle) at::removeCallback(*all.handle);
  all.handle.reset();
  if (!all.told) return;
  all.handle = at::addGlobalCallback(at::RecordFunctionCallback(&tell_of_inputs)
                                         .needsInputs(true)
                                         .scopes({at::RecordScope::FUNCTION}));
}

}  // namespace phasescope::model
