#pragma once

#include <vector>

#include "model/encoding.h"

namespace phasescope::model {

// What both Kerple kernels share (arXiv 2205.09921, Eq. 5-6): the bias -p_h f(a_h, i - j), p and a
// learned for each head of each layer.
class Kerple : public Encoding {
 public:
  std::vector<ParameterSpec> parameters() const override;
  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        const at::TensorOptions& options) const override;
  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override;
  void constrain(Parameters& layer) const override;
  std::vector<EncodingCost> cost(const CostSizes& sizes) const override;

 protected:
  // a starts in 0..`widest` and is kept in 0.01..`largest`.
  Kerple(const Json& options, const ModelConfig& model, double widest, double largest);

 private:
  // f of a (H, 1) and distances (1, L): (H, L).
  virtual at::Tensor growth(const at::Tensor& a, const at::Tensor& distance) const = 0;

  double widest_, largest_;
};

}  // namespace phasescope::model
