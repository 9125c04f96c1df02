#include "training/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>

#include "formats/error.h"

namespace phasescope::training {

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWSettings& settings)
    : parameters_(std::move(parameters)), settings_(settings) {
  for (const Parameter& parameter : parameters_) {
    means_.push_back(at::zeros_like(parameter.value).detach());
    squares_.push_back(at::zeros_like(parameter.value).detach());
    // at::_fused_adamw_ counts a tensor's steps in float32, exact up to 2^24 of them.
    counts_.push_back(at::full({}, 0.0, parameter.value.options()).detach());
  }
}

std::vector<at::Device> AdamW::devices() const {
  std::vector<at::Device> list;
  for (const Parameter& parameter : parameters_) {
    const at::Device device = parameter.value.device();
    if (std::ranges::find(list, device) == list.end()) list.push_back(device);
  }
  return list;
}

AdamW::Group AdamW::group_with_gradients(bool decays, const at::Device& device) const {
  Group group;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].value.grad();
    if (parameters_[i].decays != decays || !gradient.defined()) continue;
    if (parameters_[i].value.device() != device) continue;
    group.values.push_back(parameters_[i].value);
    group.gradients.push_back(gradient);
    group.means.push_back(means_[i]);
    group.squares.push_back(squares_[i]);
    group.counts.push_back(counts_[i]);
  }
  return group;
}

void AdamW::step(double learning_rate) {
  const at::NoGradGuard no_gradients;
  ++steps_done_;
  for (const bool decays : {true, false}) {
    for (const at::Device& device : devices()) {
      Group group = group_with_gradients(decays, device);
      if (!group.values.empty()) step(group, learning_rate, decays ? settings_.weight_decay : 0.0);
    }
  }
}

void AdamW::step(Group& group, double learning_rate, double weight_decay) {
  for (at::Tensor& count : group.counts) count.fill_(static_cast<double>(steps_done_));
  at::_fused_adamw_(group.values, group.gradients, group.means, group.squares, {}, group.counts,
                    learning_rate, settings_.beta1, settings_.beta2, weight_decay,
                    settings_.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

void AdamW::clear_gradients() {
  for (Parameter& parameter : parameters_) parameter.value.mutable_grad().reset();
}

double AdamW::clip_gradients(double limit) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> norms;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor& gradient = parameter.value.grad();
    if (gradient.defined()) norms.push_back(at::linalg_vector_norm(gradient));
  }
  if (norms.empty()) return 0;
  for (at::Tensor& norm : norms) norm = norm.to(norms.front().device());
  const double norm = at::linalg_vector_norm(at::stack(norms)).item<double>();
  if (limit > 0 && norm > limit) {
    for (Parameter& parameter : parameters_) {
      if (parameter.value.grad().defined()) parameter.value.mutable_grad().mul_(limit / norm);
    }
  }
  return norm;
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensors.emplace_back(parameters_[i].name + ".mean", means_[i]);
    tensors.emplace_back(parameters_[i].name + ".square", squares_[i]);
  }
  return tensors;
}

void AdamW::load_state(const std::vector<std::pair<std::string, at::Tensor>>& state,
                       std::int64_t steps_done) {
  const std::map<std::string, at::Tensor> given(state.begin(), state.end());
  for (auto& [name, tensor] : this->state()) {
    const auto found = given.find(name);
    if (found == given.end() || found->second.sizes() != tensor.sizes()) {
      throw formats::bad_input("the optimiser's state does not fit the model", name);
    }
    tensor.copy_(found->second);
  }
  steps_done_ = steps_done;
}

}  // namespace phasescope::training
