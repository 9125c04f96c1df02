#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "model/attention/layer_attention.h"
#include "model/checkpoints/open_model.h"

// The encodings that generated tests run over, made from the registry.

namespace phasescope::model {

struct Variant {
  std::string name;
  std::string encoding;
  Json options;
};
inline void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

// Every encoding as it comes, once for each other choice of each of its options, and more.
std::vector<Variant> variants();

// Why a variant's attention runs in plain tensor operations, in some layer of tiny_model(); empty
// for all that the kernels run. These are closed lists, which are held against what runs, so that
// no encoding slips out of the kernels unseen: of the CPU's kernel, and of CUDA's.
std::string plain_on_cpu(const std::string& variant);
std::string plain_on_cuda(const std::string& variant);

// A model of a few small layers with random weights everywhere.
std::shared_ptr<const Model> tiny_model(const Variant& variant, at::ScalarType dtype);

// One layer's output, and the gradients of its sum weighted by cosines with respect to q, k and v.
std::vector<at::Tensor> output_and_gradients(const LayerAttention& layer, at::ScalarType dtype,
                                             Backend backend);

}  // namespace phasescope::model
