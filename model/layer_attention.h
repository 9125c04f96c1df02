#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/attention.h"

namespace phasescope::model {

struct Region {
  Range heads, rows, columns;
};

// What one pass over a layer's scores shall measure; see kernels/attention.h for each. Arrays come
// back (B, H, N) for rows and (B, H, buckets) for buckets.
struct ProbeRequest {
  bool entropy = false, max_score = false, max_key = false, top1_mass = false;
  bool first_key_weight = false, mean_distance = false;
  std::vector<std::int64_t> windows;       // at most 3; weight on the last w keys, self counted
  std::vector<std::int64_t> bucket_edges;  // ascending, bucket b = [edges[b], edges[b+1]); or empty
};

struct ProbeResult {
  at::Tensor entropy, max_score, max_key, top1_mass, first_key_weight, mean_distance;
  std::vector<at::Tensor> window_mass;                          // one a window
  at::Tensor bucket_pairs;                                      // (B, H, buckets) int64
  at::Tensor bucket_weight, bucket_score, bucket_score_square;  // the same shape, float64 sums
  std::string kernel;
};

enum class MapQuantity { weight, score, content, positional };

// A region pooled to height x width cells (cells as in kernels/attention.h's MapOutputs).
struct MapRequest {
  std::int64_t batch = 0;
  Region region;
  std::int64_t height = 256, width = 256;
  MapQuantity quantity = MapQuantity::weight;
  bool maximum = true;
};

struct MapResult {
  at::Tensor mean, maximum;  // (heads, height, width) float32, -inf where every pair is masked
  std::string kernel;
};

// Everything one layer's attention was computed with, alive as long as somebody holds it. All is
// lazy: nothing of size N x N is made unless a region that large is asked for.
class LayerAttention {
 public:
  LayerAttention(std::int64_t layer, AttentionProgram program, at::Tensor v, at::Tensor lse,
                 at::Tensor entropy, Backend backend, std::string kernel);

  std::int64_t layer() const { return layer_; }
  std::int64_t batch() const;
  std::int64_t heads() const;
  std::int64_t kv_heads() const;
  std::int64_t length() const;
  std::int64_t keys() const;  // length() but in cross attention
  const AttentionProgram& program() const { return program_; }
  const at::Tensor& q() const { return program_.q_plain; }  // (B, H, N, d)
  const at::Tensor& k() const { return program_.k_plain; }  // (B, kv heads, N, d)
  const at::Tensor& v() const { return v_; }                // (B, kv heads, N, d)
  const at::Tensor& q_rotated() const { return program_.q; }
  const at::Tensor& k_rotated() const { return program_.k; }
  const at::Tensor& lse() const { return lse_; }          // (B, H, N)
  const at::Tensor& entropy() const { return entropy_; }  // (B, H, N), nats
  // Which implementation ran the forward pass.
  const std::string& kernel() const { return kernel_; }

  Region whole() const;
  // (B, heads, rows, columns) of the region; plain ops.
  ScoreParts scores(const Region& region) const;
  // exp(score - lse); masked pairs have weight 0.
  at::Tensor weights(const Region& region) const;
  // Scores of chosen pairs: batch, head, row, column are (P) int64; (P) each in the result.
  ScoreParts pair_scores(const at::Tensor& batch, const at::Tensor& head, const at::Tensor& row,
                         const at::Tensor& column) const;

  ProbeResult probe(const ProbeRequest& request) const;
  MapResult map(const MapRequest& request) const;

 private:
  bool use_fused() const;

  std::int64_t layer_;
  AttentionProgram program_;
  at::Tensor v_, lse_, entropy_;
  Backend backend_;
  std::string kernel_;
};

// The plain twins of probe and map, by row blocks: reference, documentation, fallback.
ProbeResult plain_probe(const LayerAttention& attention, const ProbeRequest& request);
MapResult plain_map(const LayerAttention& attention, const MapRequest& request);

}  // namespace phasescope::model
