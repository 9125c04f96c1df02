#include "model/recompute.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

namespace phasescope::model {
namespace {

using torch::autograd::variable_list;

at::Tensor state_of_draws() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state_of_draws(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// The first of the tensors carries no numbers: it asks for gradients, so that what `compute` reads
// beside its inputs gets some where none of these does.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* context,
                               const TensorFunction& compute, at::TensorList tensors) {
    // What gets no gradient here gets none of zeros either: an optimiser tells them apart.
    context->set_materialize_grads(false);
    variable_list saved = tensors.vec();
    saved.push_back(state_of_draws());
    context->save_for_backward(std::move(saved));
    context->saved_data["compute"] =
        c10::IValue::make_capsule(c10::make_intrusive<Holder>(compute));
    const at::AutoGradMode none(false);
    variable_list outputs = compute(tensors.slice(1).vec());
    // What is handed on unchanged would be input and output of one step.
    for (at::Tensor& output : outputs) {
      for (const at::Tensor& input : tensors) {
        if (output.is_same(input)) output = output.alias();
      }
    }
    return outputs;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const auto holder =
        c10::static_intrusive_pointer_cast<Holder>(context->saved_data["compute"].toCapsule());
    variable_list inputs;
    for (std::size_t n = 1; n + 1 < saved.size(); ++n) {
      const bool wanted = saved[n].requires_grad();
      inputs.push_back(saved[n].detach().set_requires_grad(wanted));
    }
    run_backward(holder->compute, inputs, saved.back(), incoming);
    variable_list gradients = {at::Tensor(), at::Tensor()};  // of `compute` and the first tensor
    for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
    return gradients;
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(TensorFunction c) : compute(std::move(c)) {}
    TensorFunction compute;
  };

  static void run_backward(const TensorFunction& compute, const variable_list& inputs,
                           const at::Tensor& draws, const variable_list& incoming) {
    const at::AutoGradMode gradients(true);
    const at::Tensor now = state_of_draws();
    set_state_of_draws(draws);
    const variable_list outputs = compute(inputs);
    set_state_of_draws(now);
    variable_list roots, weights;
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      if (!outputs[n].requires_grad() || !incoming[n].defined()) continue;
      roots.push_back(outputs[n]), weights.push_back(incoming[n]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, weights);
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const TensorFunction& compute,
                                   const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> tensors = {at::empty({0}).set_requires_grad(true)};
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  return Recomputed::apply(compute, at::TensorList(tensors));
}

}  // namespace phasescope::model
