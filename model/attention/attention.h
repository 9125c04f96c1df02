#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/encoding.h"
#include "protocol/messages/ran.h"

namespace phasescope::model {

// fused: the CPU's kernels, and for tensors on a CUDA device those of kernels/cuda that have passed
// their tests on such a device. cuda_unverified: those of kernels/cuda, whether they have or not.
enum class Backend { fused, plain, cuda_unverified };

// "fused" (or "auto", or nothing), "plain", "cuda-unverified". Throws Error "bad_usage" for other
// names, and "device_unavailable" where the CUDA kernels cannot be used.
Backend backend_named(const std::string& name);

using protocol::AllRan;
using protocol::Ran;

// What one pass over a layer's scores shall measure; see kernels/attention.h for each. Arrays come
// back (B, H, N) for rows and (B, H, buckets) for buckets.
struct ProbeRequest {
  bool entropy = false, max_score = false, max_key = false, top1_mass = false;
  bool first_key_weight = false, mean_distance = false, sink_weight = false;
  std::vector<std::int64_t> windows;       // at most 3; weight on the last w keys, self counted
  std::vector<std::int64_t> bucket_edges;  // ascending, bucket b = [edges[b], edges[b+1]); or empty
  // By bucket, sums of the content score too, and of the positional term (ScoreParts::positional),
  // where q and k are not rotated for the score.
  bool content = false, term = false;
  std::int64_t top_keys = 0;  // so many of a row's largest weights and their keys

  bool operator==(const ProbeRequest&) const = default;
};

struct ProbeResult {
  at::Tensor entropy, max_score, max_key, top1_mass, first_key_weight, mean_distance;
  at::Tensor sink_weight;                                       // 0 where there are no sinks
  std::vector<at::Tensor> window_mass;                          // one a window
  at::Tensor bucket_pairs;                                      // (B, H, buckets) int64
  at::Tensor bucket_weight, bucket_score, bucket_score_square;  // the same shape, float64 sums
  at::Tensor bucket_content, bucket_content_square, bucket_term, bucket_term_square;  // likewise
  at::Tensor top_key, top_weight;  // (B, H, N, top_keys) int32 (-1: none) and float, largest first
  Ran ran;
};

struct AttentionOptions {
  Backend backend = Backend::fused;
  // On a CUDA device gradients of queries and of tables may be summed by atomic additions: backward
  // passes of longer texts then run as one kernel, and the last bits differ from time to time.
  bool atomic_dq = false;
  bool want_lse = false;
  bool want_entropy = false;  // forward only; implies lse
  bool want_ungated = false;  // where the program has a gate
  // Measured in the same pass where it runs fused and without gradients; null for nothing.
  const ProbeRequest* probes = nullptr;
  AllRan* kernels = nullptr;  // gathers what runs; null for nobody
};

struct AttentionResult {
  at::Tensor out;      // (B, H, N, d), times the program's gate
  at::Tensor state;    // (B, H, N, d); undefined unless the program's kind is tape
  at::Tensor lse;      // (B, H, N), natural logarithm; where asked for
  at::Tensor entropy;  // (B, H, N), nats; where asked for
  std::shared_ptr<const ProbeResult> probes;  // null where the pass measured none
  Ran ran;
  at::Tensor ungated = {};  // `out` before the gate; where there is one and it was asked for
};

// Throws Error "bad_usage" for a request that no pass can measure.
void check_probes(const ProbeRequest& request);

// Attention of v (B, kv heads, M, d) under a program. Differentiable in all backends with respect
// to q, k, v, tables, the correction's weights and the state. Fused: float32 and 16-bit tensors on
// the CPU, computed in float32, causal or not, windows, padding, documents, soft caps; what
// fused_obstacle() names runs plain and says why. CUDA: 16-bit tensors alone (cuda_attention.h), on
// a CUDA device, or on the CPU with copies both ways. Results lie where v does. Plain works in
// blocks of rows, and with gradients, from some size on, computes each block again for them, so no
// backend holds N x N of a long text.
AttentionResult attention(const AttentionProgram& program, const at::Tensor& v,
                          const AttentionOptions& options);

// Why the fused kernel of the CPU cannot run this; empty where it can. Tensors of LibTorch's meta
// device, which have shapes alone, count as the CPU's.
std::string fused_obstacle(const AttentionProgram& program, const at::Tensor& v);
// Why no fused kernel, wherever it runs, can run this; empty where one can.
std::string kernel_obstacle(const AttentionProgram& program, const at::Tensor& v);

// "fused cpu avx3"
std::string fused_kernel_name();

// What ran attention on tensors like v: the fused kernels, the CUDA kernels (of which the program's
// may be a verified one), or plain operations, with the reason where they were not asked for.
Ran ran_fused(const at::Tensor& v);
Ran ran_on_cuda(const AttentionProgram& program, const at::Tensor& v);
Ran ran_plain(const at::Tensor& v, std::string reason = {});

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
