#pragma once
// One forward pass through one stack of layers, for model/decoder.cpp, which has the public
// functions. Sections: what a pass gets, the pass.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "model/decoder.h"
#include "model/key_value_cache.h"

namespace phasescope::model {

// ---- What a pass gets --------------------------------------------------------------------------

// What the decoder's layers attend to.
struct Memory {
  at::Tensor hidden;        // (B, M, C); undefined where there is no encoder
  at::Tensor key_mask;      // (B, M) bool, or undefined
  at::Tensor position_ids;  // (M) or (B, M) int64; undefined where they are consecutive
  std::optional<PositionExtent> extent = {};  // of position_ids
};

// One stack: its configuration, encodings and weights.
struct Stack {
  const ModelConfig& config;
  const Encoding& encoding;
  const Encoding* local;  // null where local layers have the same
  const std::vector<std::shared_ptr<const Encoding>>& groups;  // null where one has the model's
  const StackWeights& weights;
};

// A norm's tensors.
struct Norm {
  const at::Tensor& weight;
  const at::Tensor& bias;
};

// The configuration's norm over the last dimension, in dtype `out`.
at::Tensor normed(const ModelConfig& config, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, at::ScalarType out);

// What the encodings of layer groups share.
const Parameters& no_parameters();

// ---- The pass ----------------------------------------------------------------------------------

using Convolution = KeyValueCache::Convolution;

// One forward pass through one stack: what its steps share. Layers that run again for their
// gradients keep it alive.
class StackPass : public std::enable_shared_from_this<StackPass> {
 public:
  StackPass(const Decoder& decoder, const Stack& stack, const ForwardOptions& options,
            Memory memory, Observer* observer);

  // Given ids (B, N) int64, on any device, to what Decoder::hidden() gives of them: (B, N, E).
  // Throws Error "cancelled" where the options say so.
  at::Tensor run(const at::Tensor& given);

 private:
  // States of the encoding of most layers, and of the local ones where theirs is another.
  struct State {
    PositionState global, local;
    std::vector<PositionState> groups;  // of the layer groups, in their order
  };

  bool has_streams() const { return config_.streams.count > 1; }

  // Where all that a layer reads of the layers before it is the stream, the states and the
  // encoder's output, and nobody looks on.
  bool runs_again() const;

  // Where somebody looks on, or changes what attention runs, the layer's MLP alone can run again.
  bool runs_mlp_again() const;

  // A layer that keeps its inputs alone and runs again when its gradients are asked for.
  at::Tensor run_layer_again(std::int64_t layer, const at::Tensor& x, State& states);

  // Those of position states that layers hand on; a layer defines none that was not.
  template <class States, class Each>
  static void for_each_tensor_of(States& states, const Each& each) {
    const auto visit = [&each](auto& state) {
      if (state.z.defined()) each(state.z);
      if (state.table.defined()) each(state.table);
    };
    visit(states.global), visit(states.local);
    for (auto& group : states.groups) visit(group);
  }

  // ---- Positions (stack_pass.cpp) ----

  bool reads_local(std::int64_t layer) const;
  const Encoding& encoding_of(std::int64_t layer) const;
  PositionState& state_of(std::int64_t layer, State& states) const;

  // The states of a layer that draws positions of its own.
  void begin_again(std::int64_t layer, std::int64_t length, State& states) const;

  // The context of this pass's tokens alone, which stand behind those that a cache holds.
  StartContext context_of_tokens(std::int64_t tokens, const Parameters& shared) const;

  // The first state of an encoding that its programs of this pass take.
  PositionState start_of(const Encoding& encoding, std::int64_t tokens,
                         const Parameters& shared) const;
  StartContext start_context(std::int64_t length, const Parameters& shared,
                             std::int64_t layer = 0) const;

  // Where tokens of this length stand in a layer. All layers' positions are made at once, at the
  // first call, so that a device gets them before its layers run, in one copy.
  const Positions& positions_of(std::int64_t length, std::int64_t layer) const;
  std::vector<Positions> placed_positions(std::int64_t length) const;
  // The same of one layer, with the ids on the host.
  Positions host_positions(std::int64_t length, std::int64_t layer) const;
  std::int64_t range_of_draws() const;
  bool draws_positions(std::int64_t length) const;
  bool draws_by_layer(std::int64_t length) const;

  // As the configuration says; given ids are taken as they are.
  void map_positions(Positions& positions, std::int64_t layer) const;

  // ---- Layers (stack_pass.cpp) ----

  // (B, N) to (B, N, C), with everything that is added before the first layer.
  at::Tensor embed(const at::Tensor& ids, const StartContext& context) const;

  // x (B, N, E) with what each token's piece of an image gives (PatchesConfig).
  at::Tensor with_patches(const at::Tensor& x) const;
  void report(std::int64_t index, const at::Tensor& x, State& states) const;
  at::Tensor norm(const at::Tensor& x, const Norm& n, at::ScalarType out) const;
  at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;

  // x and what a branch makes of it, with the norms where the configuration has them; `given` takes
  // what the branch gave.
  template <typename Branch>
  at::Tensor with_branch(const DropPlace& place, const at::Tensor& x, const Norm& n,
                         const Norm& of_output, at::Tensor& given, Branch branch) const;

  DropPlace drop_place(DropPlace::Part part, std::int64_t layer) const;
  // What is left of what a branch gave, in training.
  at::Tensor left_of(const DropPlace& place, const at::Tensor& given) const;

  // x is (B, N, C), or (S, B, N, C) where the model has several streams.
  at::Tensor run_layer(std::int64_t index, const at::Tensor& x, State& states) const;
  at::Tensor run_with(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
                      State& states) const;
  at::Tensor run_streams(std::int64_t index, const LayerWeights& w, const at::Tensor& streams,
                         State& states) const;

  // r + norm(W_out W_in r) of what attention read.
  at::Tensor low_rank(const LayerWeights& w, const at::Tensor& read) const;
  at::Tensor run_mlp(std::int64_t index, const LayerWeights& w, const at::Tensor& read) const;

  // An MLP that keeps its input alone, the largest part of what a layer would keep.
  at::Tensor run_mlp_again(std::int64_t index, const LayerWeights& w, const at::Tensor& read) const;

  // What attention and MLP make of x (B, N, C).
  at::Tensor run_branches(std::int64_t index, const LayerWeights& w, const at::Tensor& x,
                          State& states) const;

  // What each layer reads of its own, (B, N, layers, P), from the embedding's output x.
  at::Tensor layer_inputs(const at::Tensor& ids, const at::Tensor& x) const;

  // What x (B, N, C) lets through of it.
  at::Tensor layer_input(std::int64_t index, const LayerWeights& w, const at::Tensor& x) const;

  // ---- Attention (stack_attention.cpp) ----

  // (B, N, heads * d) -> (B, heads, N, d)
  static at::Tensor split_heads(const at::Tensor& x, std::int64_t head_dim) {
    return x.unflatten(-1, {-1, head_dim}).transpose(1, 2);
  }

  at::Tensor clipped(const at::Tensor& x) const;

  // A projection's q or k (B, N, heads * d) by heads, with its norm where there is one.
  at::Tensor query_or_key(const at::Tensor& projected, const Norm& n,
                          const std::vector<at::Tensor>& of_heads, std::int64_t head_dim) const;

  // With weights (heads, d) of each head's own; x (B, heads, N, d).
  at::Tensor norm_of_each(const at::Tensor& x, const at::Tensor& weight) const;

  // x (B, N, C) and its causal convolution, to which padding counts as 0; x where there is none.
  at::Tensor convolved(std::int64_t index, Convolution which, const at::Tensor& x,
                       const at::Tensor& weight) const;

  // What an encoding gets, q (B, H, N, d) and k (B, kv heads, N, d), and v (B, kv heads, N, d_v).
  struct HeadTensors {
    at::Tensor q, k, v;
  };

  HeadTensors head_tensors(std::int64_t index, const LayerWeights& w, const at::Tensor& read) const;

  // Keys and values made of few numbers a token; the part with a position stands first in a head.
  HeadTensors latent_tensors(const LayerWeights& w, const at::Tensor& read,
                             const LayerShape& shape) const;

  // What stands between the encoding and the score.
  void change_turned(std::int64_t index, const LayerWeights& w, const PositionState& state,
                     AttentionProgram& program) const;

  // (B, M) int64 of all tokens: a query sees the keys of its own number alone. Undefined where it
  // sees all.
  at::Tensor documents_of(std::int64_t index, const at::Tensor& read) const;

  // What the outputs (B, H, N, d_v) of a layer's heads are multiplied by, (B, H, N, d_v or 1);
  // undefined for nothing.
  at::Tensor gates_of(const LayerWeights& w, const at::Tensor& read, std::int64_t value_dim) const;

  // ln(i + 1) / ln(log_scale) of each token, (N, 1): 0 for the first one.
  at::Tensor log_factors(std::int64_t length) const;

  // What an encoding makes of what a layer's projections read.
  void read_hidden(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
                   PositionState& state) const;

  // What an encoding makes of q and k of this pass.
  AttentionProgram program_of(std::int64_t index, const LayerWeights& w, const at::Tensor& q,
                              const at::Tensor& k, const PositionState& state) const;
  at::Tensor attend(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
                    PositionState& state) const;

  // The model's own, also in local layers, whose encoding may have some too.
  const Repairs& repairs_of(std::int64_t index) const;

  // Sends a device what the layers' readings hold in numbers, before the layers run.
  void place_repairs(std::int64_t tokens);

  // What the encoding's options and the caller do to a layer's scores.
  void change(std::int64_t index, const PositionState& state, AttentionProgram& program) const;

  // With 16-bit products the CUDA kernels get 16-bit tensors, as autocast has it.
  void narrow_for_cuda(AttentionProgram& program, at::Tensor& v) const;

  // Queries at the decoder's places, keys at those of the encoder's text, by the decoder's
  // encoding.
  void place_across(std::int64_t index, const LayerWeights& w, const PositionState& state,
                    AttentionProgram& program) const;

  // A layer's keys and values of the encoder's output, which a cache keeps.
  KeyValueCache::Across across_of(std::int64_t index, const LayerWeights& w) const;

  // Without cross_positions no positions enter: the decoder's and the encoder's have nothing to do
  // with each other.
  at::Tensor cross_attend(std::int64_t index, const LayerWeights& w, const at::Tensor& read,
                          const PositionState& state) const;
  // ---- What all steps read ----

  at::ScalarType product_dtype() const { return options_.product_dtype.value_or(dtype_); }

  const ModelConfig& config_;
  const Stack stack_;
  const Weights& model_;
  at::ScalarType dtype_;
  at::Device device_;
  const ForwardOptions options_;
  Memory memory_;
  Observer* observer_;
  std::int64_t before_;                   // tokens that a cache holds
  at::Tensor given_ids_;                  // options_.position_ids, on the host
  std::optional<PositionExtent> extent_;  // of these
  at::Tensor given_mask_, key_mask_;      // (B, N) bool, on the host and where the model is
  std::optional<bool> loses_rows_;        // AttentionProgram::loses_rows
  // Keys and values of the last layer with its own: of layers that are not local, and that are.
  mutable std::array<HeadTensors, 2> last_own_;
  at::Tensor layer_inputs_;  // (B, N, layers, P); undefined where layers read none of their own
  // By length: of each layer where they differ, else once.
  mutable std::map<std::int64_t, std::vector<Positions>> positions_;
  // resampled_rows() of each layer, on the model's device; none where layers draw them themselves.
  std::vector<at::Tensor> resampled_;
};

}  // namespace phasescope::model
