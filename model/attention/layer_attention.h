#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/attention/attention.h"
#include "model/attention/token_pairs.h"

namespace phasescope::model {

struct Region {
  Range heads, rows, columns;
};

enum class MapQuantity { weight, score, content, positional };

// A region pooled to height x width cells (cells as in kernels/attention.h's MapOutputs).
struct MapRequest {
  std::int64_t batch = 0;
  Region region;
  std::int64_t height = 256, width = 256;
  MapQuantity quantity = MapQuantity::weight;
  bool maximum = true;
  bool share = false;
};

struct MapResult {
  // (heads, height, width), -inf where every pair is masked; float32, of float64 models float64.
  at::Tensor mean, maximum;
  at::Tensor share;  // of unmasked pairs, 0..1; the same for all heads
  Ran ran;
};

// Sums over the pairs that a query sees and that lie less than some distance apart, of scores less
// the mean of their row: float64.
struct CentredSums {
  at::Tensor mean;         // (B, H, N), of a row's scores
  at::Tensor pairs;        // (B, H, N) int64, how many it has
  at::Tensor by_distance;  // (B, H, N), of |lambda|
  at::Tensor by_key;       // (B, H, M)
  at::Tensor square;       // (B, H), of the squares
};

// What a forward pass measured on its way, and for which request; null where it measured nothing.
struct MeasuredProbes {
  ProbeRequest request;
  std::shared_ptr<const ProbeResult> result;
};

// Everything one layer's attention was computed with, alive as long as somebody holds it. All is
// lazy: nothing of size N x N is made unless a region that large is asked for. Operands lie where
// the model does; what is computed from them comes to the host.
class LayerAttention {
 public:
  LayerAttention(std::int64_t layer, AttentionProgram program, at::Tensor v, at::Tensor lse,
                 at::Tensor entropy, Backend backend, Ran ran, MeasuredProbes measured = {});

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
  const at::Tensor& lse() const { return lse_; }  // (B, H, N), of the keys' scores
  // The logarithm of what a row's weights are divided by, (B, H, N): the same, with the head's sink
  // where it has one. Undefined where lse() is.
  at::Tensor normalisers() const;
  // The weight on each head's sink, (B, H, N): what its row's weights lack of 1. Undefined where
  // there are no sinks, and where lse() is.
  at::Tensor sink_weights() const;
  const at::Tensor& entropy() const { return entropy_; }  // (B, H, N), nats
  // What ran the forward pass.
  const Ran& ran() const { return ran_; }
  // Whether passes over its scores run fused, on the CPU.
  bool is_fused() const;

  Region whole() const;
  // (B, heads, rows, columns) of the region; plain ops, so that parts add up.
  ScoreParts scores(const Region& region) const;
  // The same of the score and of the content alone, by the kernel where passes run fused, and by
  // the device's where the pass ran by these.
  at::Tensor score(const Region& region) const;
  at::Tensor content(const Region& region) const;
  // exp(score - lse), the sinks in that sum; masked pairs have weight 0. By the kernel likewise.
  at::Tensor weights(const Region& region) const;
  // This layer for whom keeps many of them to read weights() and nothing else: where these run
  // plain, without the values, and without q and k as they were before the transform.
  std::shared_ptr<const LayerAttention> for_weights() const;
  // Sums of the scores, or content scores, of pairs less than `within` apart, in two passes of the
  // kernel, of the device's too; nothing where these have no fused form.
  std::optional<CentredSums> centred_sums(std::int64_t within, bool of_content) const;
  // Scores of chosen pairs, (P) each in the result; undefined of none.
  ScoreParts pair_scores(const TokenPairs& pairs) const;

  // What the forward pass has measured already, or another pass. Sums of content scores and terms
  // come back undefined where that pass is fused and q and k were rotated for it.
  ProbeResult probe(const ProbeRequest& request) const;
  MapResult map(const MapRequest& request) const;

 private:
  at::Tensor with_sinks() const;  // normalisers(), where the model is
  bool ran_on_device() const;     // by the CUDA kernels, on tensors that lie there
  // Whether those measure this in another pass, and give regions of a program of its tensors.
  bool measures_on_device(const ProbeRequest& request) const;
  bool has_regions_on_device(const AttentionProgram& program) const;
  bool may_run_on_device(const AttentionProgram& program) const;
  void check(const Region& region) const;

  std::int64_t layer_;
  AttentionProgram program_;
  at::Tensor v_, lse_, entropy_;
  Backend backend_;
  Ran ran_;
  MeasuredProbes measured_;
};

// The plain twins of probe and map, by row blocks: reference, documentation, fallback.
ProbeResult plain_probe(const LayerAttention& attention, const ProbeRequest& request);
MapResult plain_map(const LayerAttention& attention, const MapRequest& request);
// The cells pooled of what `values` gives of a region, (heads, rows, columns), whoever made it.
using RegionValues = std::function<at::Tensor(const Region& region)>;
MapResult pooled_map(const LayerAttention& attention, const MapRequest& request,
                     const RegionValues& values);

}  // namespace phasescope::model
