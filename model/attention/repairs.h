#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder.h"

// What is done to the scores of single heads whatever their encoding: a bias by distance, keys that
// are not seen, keys that are read as if they stood nearer.

namespace phasescope::model {

// bias_table, head_windows, head_clamps: options of every encoding.
const std::vector<OptionInfo>& repair_options();

// Those of an encoding's options, checked against the model's sizes. bias_table names a safetensors
// file with `table` (layers, heads, K) and `edges` (K); the others are lists "L0H1:256 L2H3:64".
// Throws Error "bad_input".
Repairs read_repairs(const Json& options, const ModelConfig& model);

// The entries of a table by buckets, (..., K), at distances 0..length-1: (..., length).
at::Tensor by_distance(const at::Tensor& table, const std::vector<std::int64_t>& edges,
                       std::int64_t length);

// Adds bias (H, L), of distances 0..L-1, to the softmax's input; farther keys get the last entry,
// and -inf hides. Differentiable in the bias. Programs that are plain or add a table stay so, and
// fused; the others run plain.
void add_by_distance(AttentionProgram& program, const at::Tensor& bias);

// Does what the repairs say of a layer to its program.
void repair(const Repairs& repairs, const LayerInput& input, AttentionProgram& program);

}  // namespace phasescope::model
