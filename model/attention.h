#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model/encoding.h"

namespace phasescope::model {

enum class Backend { fused, plain };

struct AttentionOptions {
  Backend backend = Backend::fused;
  bool want_lse = false;
  bool want_entropy = false;  // forward only; implies lse
};

struct AttentionResult {
  at::Tensor out;      // (B, H, N, d)
  at::Tensor state;    // (B, H, N, d); undefined unless the program's kind is tape
  at::Tensor lse;      // (B, H, N), natural logarithm; where asked for
  at::Tensor entropy;  // (B, H, N), nats; where asked for
  std::string kernel;  // what ran: "fused cpu avx3", "plain", "plain (float64 has no fused form)"
};

// Attention of v (B, kv heads, M, d) under a program. Differentiable in both backends with respect
// to q, k, v, tables, the correction's weights and the state. Fused: float32 on the CPU, causal or
// not, windows, padding, soft caps; what fused_obstacle() names runs plain and says why. Plain
// without gradients works in blocks of rows, so neither backend holds N x N then.
AttentionResult attention(const AttentionProgram& program, const at::Tensor& v,
                          const AttentionOptions& options);

// Why the fused kernel cannot run this; empty where it can.
std::string fused_obstacle(const AttentionProgram& program, const at::Tensor& v);

// "fused cpu avx3"
std::string fused_kernel_name();

// Half-open range of indices.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// Scores of a region by plain tensor ops, the definition of every variant: (B, heads, rows,
// columns). Masked entries of `score` and `positional` are -inf, `content` has them finite;
// positional = score - content.
struct ScoreParts {
  at::Tensor score, content, positional;
};
ScoreParts plain_score_parts(const AttentionProgram& program, Range heads, Range rows,
                             Range columns);
// The score alone.
at::Tensor plain_scores(const AttentionProgram& program, Range heads, Range rows, Range columns);

}  // namespace phasescope::model
