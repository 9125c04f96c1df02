#pragma once

#include "model/families/family_reader.h"

// Experts that lie in one tensor, as the parts that they are here.

namespace phasescope::model {

// `convert` makes one module of each expert from its slice of the first dimension.
TensorPlace of_experts(const NameParts& name, std::int64_t count, const std::string& module,
                       const std::function<at::Tensor(const at::Tensor&)>& convert,
                       const std::vector<std::int64_t>& stored, const char* ending = ".weight");
// The parts of both.
TensorPlace and_also(TensorPlace place, TensorPlace more);

// "gate_up_proj" (E, 2 ffn, in), the gate's rows before those that go up, or "down_proj" (E, in,
// ffn). Transposed: (E, in, 2 ffn) and (E, ffn, in).
bool is_fused_experts(const NameParts& name);
TensorPlace fused_experts(const NameParts& name, const ModelConfig& config,
                          bool transposed = false);

}  // namespace phasescope::model
