#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/hf_config.h"
#include "formats/json.h"

namespace phasescope::model {

using formats::Json;

// Which encoding, and its options by name. Options that are left out take the encoding's defaults
// (encoding.h); in files both stand in one object: {"key": "rope", "base": 10000}.
struct EncodingConfig {
  std::string key = "rope";
  Json options = Json::object();
};

// How activations are normalised, and where.
struct NormConfig {
  std::string kind = "rms";  // rms; layer: the mean is taken off first
  bool bias = false;
  bool unit_offset = false;  // multiplies by 1 + weight
  std::string placement =
      "pre";           // pre: what a branch reads; post: the sum it is added to;
                       // output: what it gives; sandwich: what it reads and what it gives
  bool at_end = true;  // once more after the last layer
};

struct AttentionConfig {
  bool causal = true;
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  std::string qk_norm = "none";  // of q and k before the encoding: none, head (each head by
                                 // itself), each (so, each with weights of its own), full (the
                                 // whole width)
  double scale = 0;              // of q.k; 0: 1 / sqrt(head_dim)
  bool scale_by_width = false;   // where that is 0: 1 / head_dim of the layer
  bool scale_by_layer = false;   // layer n's scale is divided by n + 1
  bool layer_gain = false;  // layer n's scale is divided by max(1, n), and its score multiplied
                            // by it, bias included
  double clip = 0;          // q, k and v are clamped to +- this; 0: not
  double soft_cap = 0;      // score s becomes cap tanh(s / cap); 0: not
  std::int64_t window = 0;  // keys that a query of a local layer sees, itself counted
  std::vector<std::int64_t> local_layers = {};  // ascending
  double log_scale = 0;  // token i's query is multiplied by ln(i + 1) / ln(log_scale); 0: not
  // hidden: nothing sees a padded key. added: as a mask of huge negative numbers that is added to
  // the causal one does it: where all keys that a query sees are padded, the weight is spread over
  // those and the later keys that are not (TAPE's public code).
  std::string padding = "hidden";
  bool qk_norm_after = false;  // q and k that an encoding has turned are divided by their root mean
                               // square, each head by itself
  std::int64_t value_dim = 0;  // of each head's value; 0: head_dim
  double value_scale = 1;
  bool value_norm = false;  // values are divided by their root mean square, each head by itself
  // The layers whose values are their keys' projection.
  std::vector<std::int64_t> value_from_key_layers = {};
  // The layers that take the keys and values of the last earlier layer that has its own and is
  // local where they are. Ascending.
  std::vector<std::int64_t> shared_layers = {};
  // Latent attention (MLA, arXiv 2405.04434, Eq. 9-19): above 0 keys and values are made of so many
  // normed numbers a token, queries too where q_rank is above 0, and the first position_dim
  // channels of a head are its part that has a position; all heads have one key there.
  std::int64_t kv_rank = 0, q_rank = 0, position_dim = 0;
  std::int64_t chunk = 0;  // a query of a local layer sees its own run of so many tokens; 0: not
  // The query at position i is multiplied by 1 + temperature ln(1 + floor((i + temperature_from) /
  // temperature_length)), in all layers or those named; where it is smooth by 1 + temperature
  // ln(max(1, (i + temperature_from) / temperature_length)), and what is added to q.k with it. 0:
  // not.
  double temperature = 0, temperature_length = 1;
  bool temperature_smooth = false;
  std::int64_t temperature_from = 0;
  std::vector<std::int64_t> temperature_layers = {};
  // The layers whose heads have a sink: a number that joins each row's softmax as a score without a
  // key, so that weights sum to less than 1. Ascending.
  std::vector<std::int64_t> sink_layers = {};
  // What a head gives is multiplied by: sigmoid or softplus of a projection of what attention
  // reads, with a number for each channel or (gate_by_head) one for the head; none.
  std::string gate = "none";
  bool gate_by_head = false;
  // Above 0: r + norm(W_out W_in r) of so many numbers between is added to what attention makes of
  // the norm's output r, and the sum divided by sqrt(2) (LAuReL, arXiv 2411.07501).
  std::int64_t low_rank = 0;
  // Above 0: keys, values and what attention and MLP give have their own causal convolution over so
  // many tokens, each channel by itself, added to them; of keys and values before their norm.
  std::int64_t convolution = 0;
  // An encoder-decoder's decoder attends to the encoder's output at the places that the encoder's
  // tokens have in their text (APE, arXiv 2312.16045); otherwise no positions enter there.
  bool cross_positions = false;
};

struct MlpConfig {
  bool gated = true;                // down(act(gate x) * up x); otherwise down(act(up x))
  std::string activation = "silu";  // see known_activations()
  bool up_bias = false;             // of the gate too
  bool down_bias = false;
  bool scaled = false;  // what it gives is multiplied by a stored number
};

// Feed-forwards of experts: a router gives each token to a few of many small gated MLPs.
struct ExpertsConfig {
  std::int64_t count = 0;                 // 0: none
  std::int64_t per_token = 1;             // each token's
  std::int64_t width = 0;                 // of each
  std::vector<std::int64_t> layers = {};  // that have them in place of one MLP; ascending
  std::string router = "softmax";         // or sigmoid: from logits to weights
  bool router_bias = false;               // of the logits
  double router_cap = 0;                  // logit x becomes cap tanh(x / cap); 0: not
  bool choice_bias = false;               // a stored number for each is added for the choice alone
  bool normalised = false;                // a token's weights are divided by their sum
  double scale = 1;                       // of the weights
  bool weighted_inputs = false;  // weights multiply what an expert reads, not what it gives
  // Experts stand in groups, and a token's are chosen among its best groups, ranked by their best
  // expert, or by the sum of their two best.
  std::int64_t groups = 1, groups_per_token = 1;
  bool groups_by_two = false;
  bool bias = false;  // of all three projections
  double limit = 0;  // above 0 an expert gives down((up + 1) gate sigmoid(alpha gate)), gate and up
  double alpha = 1.702;           // clamped to it, gate from above alone
  std::int64_t shared_width = 0;  // of an MLP that reads every token; 0: none
  bool shared_gate = false;       // which is multiplied by sigmoid of a projection to one number
  // Above 0: so many more experts, which every token has. The router has logits for them too, and a
  // token's weights are the softmax over the logarithms of the sigmoids of those and of the chosen
  // ones' logits, times a stored number.
  std::int64_t shared_count = 0;
  // They stand beside the layer's MLP, each of both with norms before and behind of its own, and
  // are added. The router reads the stream divided by its root mean square, times a stored scale
  // over sqrt(width), and each expert's weight is multiplied by a stored number.
  bool beside = false;
};

// Layers without attention's maps: gated delta rule (arXiv 2412.06464, Eq. 10), a state of
// key_dim x value_dim numbers a head, behind a short causal convolution.
struct LinearConfig {
  std::vector<std::int64_t> layers = {};  // ascending
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t kernel = 4;  // tokens that the convolution sees
};

// Residual streams: one of them runs through the layers (model/streams.h).
struct StreamsConfig {
  std::int64_t count = 1, active = 0;
  bool scaled = false;  // what a layer reads of its own reads the active one times a stored vector
};

struct EmbeddingConfig {
  std::int64_t width = 0;  // where it is not the model's: projected in, and out at the end
  double scale = 1;
  bool norm = false;             // after everything that is added to it
  std::int64_t token_types = 0;  // kinds of tokens, each with a vector that is added
  // Above 0 each layer reads so many numbers of its own for a token, made of a second table of
  // layer_rows rows (ids beyond have row 0) and of the embedding: norm(W (a(G x) * p)) is added
  // behind its MLP, a the MLP's activation.
  std::int64_t layer_width = 0, layer_rows = 0;
};

// A model that reads images: each token has a piece of side x side pixels beside its id. What a
// linear map makes of the piece's windows of kernel x kernel is added to the id's row; of several
// windows what they give goes through a ReLU, and the largest stays (a convolution of stride 1 and
// a pooling over the piece).
struct PatchesConfig {
  std::int64_t side = 0;      // 0: the model reads ids alone
  std::int64_t kernel = 0;    // at most side
  std::int64_t channels = 1;  // numbers a pixel

  std::int64_t numbers() const { return side * side * channels; }     // of a piece
  std::int64_t window() const { return kernel * kernel * channels; }  // of a window
};

// What some layers have in place of the model's own; 0 and none: nothing.
struct LayerGroup {
  std::vector<std::int64_t> layers = {};  // ascending
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, ffn_width = 0;
  // Gates of the MLP below the quantile of this share of a normal distribution with the token's
  // mean and deviation become 0, and the others are measured from there.
  double sparsity = 0;
  std::optional<EncodingConfig> encoding = {};  // one without tensors of its own
};

// One layer's sizes.
struct LayerShape {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0, ffn_width = 0;
  double sparsity = 0;
};

// From the last hidden state to logits.
struct HeadConfig {
  bool present = true;
  bool transform = false;  // first norm(act(W x + b)), with the MLP's activation
  bool bias = false;
  double scale = 1;       // of the logits
  std::int64_t rows = 0;  // of the vocabulary that have one, the first ones; 0: all
  double soft_cap = 0;    // as for scores
  // softmax: one answer a text, of the mean of all tokens' last states with the softmax of a linear
  // map of each as weights; none: an answer at every token.
  std::string pool = "none";
};

// What stands between a token's place in the text and its position id, for any encoding.
struct PositionsConfig {
  std::string map = "identity";  // shift: ids start at `shift`; interpolate: id i stands at the
                                 // place i / factor; random, random_by_layer: sorted draws
  std::int64_t shift = 0;
  double factor = 1;
  std::int64_t range = 0;  // they are below it; 0: twice the context; longer texts keep theirs
  std::string draw = "training";  // each step of training draws afresh; outside it texts keep their
                                  // places, or with "always" have one draw, from `seed`
  std::int64_t seed = 1;
};

// What every checkpoint is translated to before anything runs: a transformer with one positional
// encoding (local layers may have another one). The defaults are a pre-norm decoder with RMSNorm
// and a gated MLP.
struct ModelConfig {
  std::string family = "phasescope";  // where the checkpoint came from; nothing depends on it
  std::int64_t vocab_size = 256;
  std::int64_t width = 192;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;  // divides heads
  std::int64_t head_dim = 48;
  std::int64_t ffn_width = 512;
  std::int64_t context = 256;  // the length it was trained for
  double norm_eps = 1e-5;
  bool tie_embeddings = false;  // the head is the embedding's transpose
  double init_std = 0.05;       // of init_weights
  // sequential: the MLP reads what attention was added to; parallel: both read the layer's input;
  // parallel_shared: through one norm.
  std::string residual = "sequential";
  double residual_scale = 1;  // of what attention and MLP give
  bool layer_scale = false;   // each layer's stream is multiplied by a stored number at its end
  NormConfig norm;
  AttentionConfig attention;
  MlpConfig mlp;
  ExpertsConfig experts;
  LinearConfig linear;
  StreamsConfig streams;
  EmbeddingConfig embedding;
  PatchesConfig patches;
  HeadConfig head;
  PositionsConfig positions;
  // Above 0 there is an encoder too: of the same sizes, seeing both ways, and the decoder's layers
  // attend to what it gives.
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_start = 0;       // token before the first one that the decoder writes
  bool positions_skip_padding = false;  // position ids count the tokens that are no padding
  EncodingConfig encoding;
  std::optional<EncodingConfig>
      local_encoding;                    // of the local layers; theirs is `encoding` otherwise
  std::vector<LayerGroup> layer_groups;  // of two that name a layer the later one holds
  Json tokenizer;                        // {"type": "bytes", ...}; null where none is known
  std::string note;                      // a departure from the papers, shown wherever the model is

  bool is_local(std::int64_t layer) const;
  double score_scale() const;  // of q.k, for heads of this width
  LayerShape shape_of(std::int64_t layer) const;
  // The number of the layer's group with an encoding; -1 where it has the model's.
  std::int64_t encoding_group_of(std::int64_t layer) const;
  // The encoder as a model of its own.
  ModelConfig encoder() const;
};

// Whether an ascending list of layers names one.
bool names_layer(const std::vector<std::int64_t>& layers, std::int64_t layer);

// silu, gelu, gelu_tanh, ...: what MlpConfig::activation may be.
const std::vector<std::string>& known_activations();

// Reads our own form. Every field may have its usual name in Hugging Face's files ("hidden_size")
// or ours ("width"); unknown keys are problems that name the near ones. All problems are listed in
// one Error "bad_input". `where` names the file.
ModelConfig read_model_config(const Json& object, const std::string& where);

// Our own form with Hugging Face's field names and "model_type": "phasescope"; what Hugging Face
// has no name for stands in groups ("norm", "attention", ...), fields that have their defaults left
// out.
Json write_model_config(const ModelConfig& config);

// Sizes that cannot be: zero, not dividing, too many layers, an odd head size where the encoding
// needs pairs, options the encoding does not know. Allocates nothing.
void check_model_config(const ModelConfig& config, formats::ConfigProblems& problems);

// Changes one field by its dotted name, as `--set` does: "encoding.base", the encoding's own key
// for "encoding" ("rope.base"), or a field of ModelConfig ("context", "attention.window"). `value`
// is JSON, or text where it is not. Throws Error "bad_usage" for a name that is not there.
void set_field(ModelConfig& config, const std::string& name, const std::string& value);

}  // namespace phasescope::model
