#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/attention/attention.h"
#include "model/attention/layer_attention.h"
#include "model/checkpoints/weights.h"
#include "model/config.h"
#include "model/drops.h"
#include "model/encoding.h"

namespace phasescope::model {

class KeyValueCache;

// Looks into a forward pass; without one nothing is kept. Layers count from 0.
class Observer {
 public:
  virtual ~Observer() = default;
  // Looks into the encoder of an encoder-decoder; null for nobody.
  virtual Observer* encoder();
  // (B, N, C): index 0 is the embedding's output, n the residual stream after n layers; the one
  // after the last layer comes before the final norm.
  virtual void on_hidden(std::int64_t index, const at::Tensor& hidden);
  // Where the model has several residual streams: all of them, (S, B, N, C), at the same indices;
  // on_hidden() gets the one that runs through the layers.
  virtual void on_streams(std::int64_t index, const at::Tensor& streams);
  // What hidden() gives: after the final norm, where there is one.
  virtual void on_final_norm(const at::Tensor& hidden);
  // Whether on_attention is to be called; then lse and entropy are computed too.
  virtual bool wants_attention(std::int64_t layer);
  // What attention shall measure as it runs, so that LayerAttention::probe() need not run it again;
  // null for nothing. Asked where wants_attention() said yes; alive until on_attention().
  virtual const ProbeRequest* wants_probes(std::int64_t layer);
  virtual void on_attention(const std::shared_ptr<const LayerAttention>& attention);
  // As wants_attention() and on_attention(), of a decoder layer's attention to the encoder's
  // output.
  virtual bool wants_cross_attention(std::int64_t layer);
  virtual void on_cross_attention(const std::shared_ptr<const LayerAttention>& attention);
  // Index 0 is the initial state, n the state after n layers (of the encoding that layer n reads).
  virtual void on_position(std::int64_t index, const PositionState& state);
};

// What a layer's program was made of; alive as long as the model is.
struct LayerInput {
  std::int64_t layer = 0;
  const Encoding* encoding = nullptr;
  const Parameters* parameters = nullptr;  // the encoding's own of the layer
  StartContext context;                    // of the whole text
  PositionState state;
  double log_scale = 0;                 // AttentionConfig::log_scale
  const Repairs* repairs = nullptr;     // what its reading does to single heads; null: nothing
  const ModelConfig* config = nullptr;  // of the layer's stack
};

// Changes what attention runs in a forward pass, and what it gives.
class AttentionHook {
 public:
  virtual ~AttentionHook() = default;
  // Before a layer's attention runs; all of the program is there but a bound on the weight of key
  // 0, which is of the scores as they are then, and what narrows its dtype.
  virtual void before(const LayerInput& input, AttentionProgram& program);
  // Whether `after` reads the log-sum-exps of rows.
  virtual bool wants_lse() const { return false; }
  // `result` may be replaced by tensors of the same shapes.
  virtual void after(std::int64_t layer, const AttentionProgram& program, const at::Tensor& v,
                     AttentionResult& result);
};

struct ForwardOptions {
  Backend backend = Backend::fused;
  bool atomic_dq = false;  // AttentionOptions::atomic_dq
  // What was kept of the tokens before these (key_value_cache.h), which this pass adds to; null:
  // the ids are a whole text.
  KeyValueCache* cache = nullptr;
  // Position ids start here; or are given, (N) or (B, N) int64: terms of distance run plain then.
  std::int64_t shift = 0;
  at::Tensor position_ids;
  // (B, N), 0 for padding, which no query sees. An encoder's in an encoder-decoder.
  at::Tensor key_mask;
  at::Tensor token_types;  // (B, N) int64, of models that have types; all 0 where undefined
  // (B, M) int64, what the decoder of an encoder-decoder reads; where undefined it reads the text
  // itself, one token later.
  at::Tensor decoder_ids;
  // (M) or (B, M) int64: where those stand; position_ids are then the encoder's alone.
  at::Tensor decoder_position_ids;
  // (B, N, numbers of a piece) of a model that reads images (PatchesConfig): each token's piece,
  // row by row, a pixel's channels beside each other.
  at::Tensor patches;
  // (B, N) int64, of texts packed into one: a query sees the keys of its own document alone. For a
  // model on a device they are counted from 0 before they go there.
  at::Tensor document_ids;
  // (N, N) bool, true where a query (row) sees a key; runs plain. Causal where undefined.
  at::Tensor mask;
  // (layers, N) int64: what an encoding that draws its positions layer by layer takes in their
  // place.
  at::Tensor layer_position_ids;
  // Row and column of each token on a grid, (N, 2) or (B, N, 2) int64, in place of position_ids;
  // for encodings that have columns.
  at::Tensor grid_positions;
  // In training: the seed of positions that are drawn at random. Without it they are as the
  // configuration has them outside training.
  std::optional<std::uint64_t> draw;
  // Several positions a token, (axes, B, N) int64, in place of position_ids; for encodings whose
  // planes read axes of their own (mRoPE). Masks go by the tokens' places.
  at::Tensor axis_positions;
  // Replaces the encoding's initial state: (B or 1, H or 1, N, 2, d/2).
  at::Tensor initial_state;
  // Matrix products in this dtype (bfloat16 in training), everything else in the weights'.
  std::optional<at::ScalarType> product_dtype;
  // dtype of position times frequency and its sine; the weights', float32 at least, by default.
  std::optional<at::ScalarType> angle_dtype;
  // In training: a layer keeps what it read alone, and runs again when its gradients are asked for.
  // Less memory, a third more time, the same gradients (in encoder-decoders up to the order of the
  // sums over layers). Of layers that read of others more than the stream and the state, and where
  // an observer or a hook other than a RepeatableHook looks on, the MLP alone runs again.
  bool recompute = false;
  Drops drops;                    // in training: what is left out of both stacks at random
  AttentionHook* hook = nullptr;  // of the decoder's self-attention; null: nobody
  AllRan* kernels = nullptr;      // gathers what runs attention, the encoder's too; null: nobody
  std::function<void(double)> progress;  // 0..1
  std::function<bool()> cancelled;       // asked once a layer; true throws Error "cancelled"
};

// The one transformer, as its configuration says: attention by the encoding's program, norms, MLPs,
// and where there is one an encoder. Differentiable when weights require gradients; wrap in
// at::NoGradGuard where none are wanted.
class Decoder {
 public:
  // Weights in one floating dtype, which is the dtype of everything computed.
  Decoder(ModelConfig config, std::shared_ptr<const Encoding> encoding, Weights weights);

  const ModelConfig& config() const { return config_; }
  const Encoding& encoding() const { return *encoding_; }
  std::shared_ptr<const Encoding> shared_encoding() const { return encoding_; }
  const Weights& weights() const { return weights_; }
  Weights& weights() { return weights_; }
  at::ScalarType dtype() const { return weights_.embedding.scalar_type(); }
  // Where the weights lie; a forward pass computes there, whatever its inputs lie on.
  at::Device device() const { return weights_.embedding.device(); }

  // The encoding of a layer: `encoding()`, or that of the local layers or of its group.
  const Encoding& encoding_of(std::int64_t layer) const;
  // What a reading does to the heads of a layer: as its encoding has it, or else the model's.
  const Repairs& repairs_of(std::int64_t layer) const;

  // ids (B, N) int64. Throws Error "bad_input" for an empty text or ids outside the vocabulary.
  void check_ids(const at::Tensor& ids) const;

  // Logits (B, N, V), or (B, 1, V) where the head pools. Throws Error "bad_input" for a model
  // without a head.
  at::Tensor forward(const at::Tensor& ids, const ForwardOptions& options = {},
                     Observer* observer = nullptr) const;
  // (B, N, E) after the final norm, for readers that want the logits of some rows only; E is the
  // embedding's width.
  at::Tensor hidden(const at::Tensor& ids, const ForwardOptions& options = {},
                    Observer* observer = nullptr) const;
  // What the head reads of a text: hidden() (B, N, E) itself, or where it pools (B, 1, E). Tokens
  // that `key_mask` (B, N) has 0 for have no weight; undefined: all have.
  at::Tensor pooled(const at::Tensor& hidden, const at::Tensor& key_mask = {}) const;
  // Logits (..., V) of rows of pooled().
  at::Tensor logits(const at::Tensor& hidden, const ForwardOptions& options = {}) const;

 private:
  ModelConfig config_;
  // Kept for the encoder's pass, which reads a configuration of its own.
  std::shared_ptr<const ModelConfig> encoder_config_;
  std::shared_ptr<const Encoding> encoding_, local_encoding_, encoder_encoding_;
  std::vector<std::shared_ptr<const Encoding>> group_encodings_;
  Weights weights_;
};

}  // namespace phasescope::model
