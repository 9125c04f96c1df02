#pragma once
// What a model does to queries and keys behind its encoding, whatever that is.
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/attention_program.h"
#include "model/config.h"

namespace phasescope::model {

// x over its root mean square of the last dimension.
at::Tensor of_unit_square(const at::Tensor& x, double eps);

// Whether a layer's queries are multiplied by a temperature of their position.
bool has_temperature(const AttentionConfig& attention, std::int64_t layer);

// Turned q and k of unit mean square, those of the content with it (a rotation keeps it), and q
// (or, where the temperature is of what is added to q.k too, the whole score) times the
// temperatures of the queries' position ids, (N) or (B, N), which a layer without a temperature
// does not read. `dtype`: the model's.
void change_turned(const ModelConfig& config, std::int64_t layer, const at::Tensor& ids,
                   at::ScalarType dtype, AttentionProgram& program);

}  // namespace phasescope::model
