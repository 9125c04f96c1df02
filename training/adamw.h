#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace phasescope::training {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
};

// AdamW (arXiv 1711.05101, decoupled decay: w <- w - lr decay w before the step), one state for
// each parameter. Moments are float32 and bias-corrected.
class AdamW {
 public:
  struct Parameter {
    std::string name;
    at::Tensor value;    // a leaf whose grad() is read
    bool decays = true;  // weight decay applies
  };

  AdamW(std::vector<Parameter> parameters, const AdamWSettings& settings);

  // One step with the gradients that stand in the parameters; those without one are left alone.
  void step(double learning_rate);
  void clear_gradients();
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Scales all gradients so that their global 2-norm is at most `limit` (0: leaves them); returns
  // the norm before.
  double clip_gradients(double limit);

  std::int64_t steps_done() const { return steps_done_; }
  // "NAME.mean", "NAME.square" of each parameter; the tensors share storage with the optimiser.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  // Throws Error "bad_input" when a tensor is missing or has another shape.
  void load_state(const std::vector<std::pair<std::string, at::Tensor>>& state,
                  std::int64_t steps_done);

 private:
  struct Group {
    std::vector<at::Tensor> values, gradients, means, squares, counts;
  };
  // Numbers of encodings stay on the host beside a model on a device.
  std::vector<at::Device> devices() const;
  Group group_with_gradients(bool decays, const at::Device& device) const;
  void step(Group& group, double learning_rate, double weight_decay);

  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> means_, squares_, counts_;
  AdamWSettings settings_;
  std::int64_t steps_done_ = 0;
};

}  // namespace phasescope::training
