#pragma once

#include <ATen/core/Tensor.h>

#include "model/attention/attention.h"

// What the plain form hides of the scores; hidden_pairs() of plain_attention.h is the rest of it.

namespace phasescope::model {

// The indices of a range beside a program's tensors, (size) int64.
at::Tensor indices(const AttentionProgram& program, Range range);

// The tokens that rows of queries are.
Range tokens_of_rows(const AttentionProgram& program, Range rows);

// Whether padding is added to the causal mask, where there is any.
bool spreads_padding(const AttentionProgram& program);

// (B, 1, rows, 1): the rows all of whose visible keys are padded.
at::Tensor lost_rows(const AttentionProgram& program, Range rows);

// Whether all visible keys of single rows, batch and row (P), are padded: (P).
at::Tensor lost_of_pairs(const AttentionProgram& program, const at::Tensor& batch,
                         const at::Tensor& row);

// Whether each pair (P) is masked.
at::Tensor hidden_of_pairs(const AttentionProgram& program, const at::Tensor& batch,
                           const at::Tensor& row, const at::Tensor& column);

}  // namespace phasescope::model
