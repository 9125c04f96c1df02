#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model/attention/attention.h"

// What relative keys add to scores, by plain operations, and what stands for them on a device.

namespace phasescope::model {

// For heads and rows at distances (1 or B, rows, columns): (B or 1, heads, rows, columns). A row's
// product with every key is made once.
at::Tensor relative_scores(const RelativeKeysProgram& relative, Range heads, Range rows,
                           const at::Tensor& distance, at::ScalarType dtype);

// The same of single pairs, (P): `batch`, `head`, `row` and `distance` (P) each.
at::Tensor relative_scores_of_pairs(const RelativeKeysProgram& relative, const at::Tensor& batch,
                                    const at::Tensor& head, const at::Tensor& row,
                                    const at::Tensor& distance, at::ScalarType dtype);

// The CUDA kernels have none of relative keys: the program with the products of each query with all
// keys made before, its own table; other programs as they are.
AttentionProgram in_device_form(const AttentionProgram& program);

// Why that cannot be done; empty where it can.
std::string device_form_obstacle(const AttentionProgram& program);

}  // namespace phasescope::model
