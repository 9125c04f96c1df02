#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder.h"

// What is done to single heads whatever their encoding: a bias by distance, keys that are not seen
// or read as if they stood nearer, a bound on the weight of key 0, another output. Of an
// encoder-decoder the decoder's self-attention is changed; a bias, windows and clamps also change
// the encoder's layers of those numbers.

namespace phasescope::model {

// bias_table, head_windows, head_clamps, head_bias_scales, head_sink_caps, head_ablations,
// ablation_means, ablation_seed: options of every encoding.
const std::vector<OptionInfo>& repair_options();

// Those of an encoding's options, checked against the model's sizes. bias_table names a safetensors
// file with `table` (layers, heads, K) and `edges` (K), ablation_means one with `mean` (layers,
// heads, d); those of heads are lists "L0H1:256 L2:64 all:512" of heads, of all heads of a layer,
// and of all. Throws Error "bad_input".
Repairs read_repairs(const Json& options, const ModelConfig& model);

// A head, all heads of a layer (head -1), or all (both -1), of "L0H1", "L2", "all". Throws Error
// "bad_usage" for other words, and for what a model of these sizes has not.
struct HeadsNamed {
  std::int64_t layer = -1, head = -1;
};
HeadsNamed heads_named(const std::string& words, std::int64_t layers, std::int64_t heads);
// The options among repair_options() that change what heads give or weigh, and nothing of an
// encoder's.
const std::vector<std::string>& intervention_options();

// The entries of a table by buckets, (..., K), at distances 0..length-1: (..., length).
at::Tensor by_distance(const at::Tensor& table, const std::vector<std::int64_t>& edges,
                       std::int64_t length);

// Adds bias (H, L), of distances 0..L-1, to the softmax's input; farther keys get the last entry,
// and -inf hides. Differentiable in the bias. Programs that are plain or add a table stay so, and
// fused; the others run plain.
void add_by_distance(AttentionProgram& program, const at::Tensor& bias);

// Does to a layer's program what its reading says of scores: factors of its bias, clamps, a bias by
// distance, windows. Throws Error "not_applicable" for a factor of a bias that the encoding does
// not add.
void repair(const LayerInput& input, AttentionProgram& program);

// Multiplies what the encoding adds to the scores by its heads' factors, of which there may be
// none. Throws as repair() does.
void scale_bias(const LayerInput& input, AttentionProgram& program);

// Each head's limit in a layer, (heads), -1 for none; empty where no head has one.
std::vector<std::int64_t> limits_of_layer(const std::vector<Repairs::Limit>& limits,
                                          std::int64_t layer, std::int64_t heads);
// Distances (P), none negative, and one that none of them exceeds.
struct BoundedDistances {
  at::Tensor values;
  std::int64_t most = 0;
};
// What a bias by distance adds to pairs that are read at some distances, and what windows, which
// go by the places that tokens have, hide of them: scores (H, P).
at::Tensor with_biases(const LayerInput& input, const at::Tensor& scores,
                       const BoundedDistances& read, const BoundedDistances& own);

// Bounds the weight of key 0; `backend` runs the pass that this needs, but for gradients, which
// plain operations give.
void cap_sinks(const LayerInput& input, Backend backend, AttentionProgram& program);
// The bound on a head's weight on key 0; 1 where there is none.
double sink_cap(const LayerInput& input, std::int64_t head);

// The rows that `resample` puts in place of those of a layer's heads, of the heads that it names in
// their order: (heads, N) int64 on the host. Row i takes one that is drawn from 0..i, the same for
// the same seed, layer, head and row.
at::Tensor resampled_rows(const Repairs& repairs, std::int64_t layer, std::int64_t tokens);
// What they say of a layer's heads' outputs, (B, H, N, d). `rows` are resampled_rows() where `out`
// lies; undefined: they are drawn here. Throws Error "bad_input" for a mean that no file gave.
at::Tensor ablated(const Repairs& repairs, std::int64_t layer, const at::Tensor& out,
                   const at::Tensor& rows = {});

}  // namespace phasescope::model
