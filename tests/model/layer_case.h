#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model/attention/attention.h"
#include "model/encoding.h"

// Single attention layers against the papers' public modules and float64 references.

namespace phasescope::model {

// Float64 results must be reproduced to rounding.
inline constexpr double kExact = 1e-10;

ModelConfig layer_config(const std::string& encoding, const Json& options, std::int64_t heads,
                         std::int64_t head_dim);

struct Layer {
  AttentionProgram program;
  at::Tensor v;
};

// q, k, v (H, N, d) or (B, H, N, d), converted with the parameters to `dtype`; position ids (N)
// where they are not 0, 1, 2, ...
Layer layer_of(const ModelConfig& config, const Parameters& parameters, at::Tensor q, at::Tensor k,
               at::Tensor v, at::ScalarType dtype, const Parameters& shared = {},
               const at::Tensor& ids = {});

at::Tensor causal_part(const at::Tensor& scores);

// Scores of the whole map in float64, masked ones 0.
at::Tensor all_scores(const Layer& layer);

// Scores below the diagonal, weights and output, in float64 plain and in float32 in both backends,
// held against a file's tensors INPUTS + "q", "k" and "v", `scores` and, where it is there, `out`.
void expect_layer(const ModelConfig& config, const Parameters& parameters, const std::string& file,
                  const std::string& inputs, const std::string& scores, const std::string& out,
                  double float32_loss);

// What the public module's own float32 run loses (cases.json).
double recorded_loss(const char* name, const char* length);

// CAPE's correction: [D, in], b, [H, D], b under the public module's names.
Parameters correction(const std::string& file, const std::string& prefix);

}  // namespace phasescope::model
