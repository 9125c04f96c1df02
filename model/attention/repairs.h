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

// Does what the repairs say of a layer to its program; `backend` runs the pass that the bound on
// the weight of key 0 needs. That bound has no gradient: throws Error "not_applicable" where one is
// wanted, and for a factor of a bias that the encoding does not add.
void repair(const Repairs& repairs, const LayerInput& input, Backend backend,
            AttentionProgram& program);

// What they say of a layer's heads' outputs, (B, H, N, d). The row that `resample` puts in place of
// row i is drawn from 0..i, the same for the same seed, layer, head and row. Throws Error
// "bad_input" for a mean that no file gave.
at::Tensor ablated(const Repairs& repairs, std::int64_t layer, const at::Tensor& out);

}  // namespace phasescope::model
