#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/config.h"

// The interface by which every positional encoding enters the decoder, and the list of them.
// Sections: positions and state, what attention runs, the encoding, the list.

namespace phasescope::model {

struct CostSizes;
struct EncodingCost;

// ---- Positions and state -----------------------------------------------------------------------

// Ends of given position ids, and the largest |difference| of two of one text; past 2^24 that is
// 2^24 + 1.
struct PositionExtent {
  std::int64_t least = 0, greatest = 0, reach = 0;
};
// Reads the ids (N) or (B, N): on a device that is a transfer.
PositionExtent extent_of(const at::Tensor& ids);

// Position ids of N tokens: shift, shift + 1, ... unless `ids` says otherwise. Ids feed the
// encoding (angles, distances); the causal mask goes by index.
struct Positions {
  std::int64_t length = 0;
  std::int64_t shift = 0;
  at::Tensor ids;        // (N) or (B, N) int64; undefined where positions are consecutive
  at::Tensor axes = {};  // (A, B, N) int64 where tokens have A positions each; `ids` are the first
  at::Device device = at::kCPU;               // of `ids`, and of all that is made of positions
  std::optional<PositionExtent> extent = {};  // of `ids`; empty where nobody has measured them

  // Of a tensor that is made of positions.
  at::TensorOptions options(at::ScalarType dtype) const {
    return at::TensorOptions(dtype).device(device);
  }
  // Of the ids, given or not; 0 for none.
  PositionExtent measured() const;
  bool consecutive() const { return !ids.defined(); }
  // Largest |difference| of two ids.
  std::int64_t largest_distance() const;
};

// `length` of the positions 0..range-1 in order, drawn at random, the same for the same seed:
// (length) int64. At most `range` can be drawn.
at::Tensor drawn_positions(std::int64_t length, std::int64_t range, std::uint64_t seed);

// What a table by distance is kept in for a model of `dtype`: float64 for float64, float32 for all
// others. In 16 bits neighbours far from a query would share an entry, and float16 ends at 65,504.
at::ScalarType table_dtype(at::ScalarType dtype);
// Options of a table for tensors that have these.
at::TensorOptions table_options(const at::TensorOptions& options);

// Few numbers, (values), written where the tensor lies: on a device nothing is copied from the
// host.
at::Tensor tensor_of(const std::vector<double>& values, const at::TensorOptions& options);

// Tokens (int64) times `step`, rounded towards 0: for encodings that know whole places alone.
at::Tensor whole_places(const at::Tensor& tokens, double step);

// What travels from layer to layer beside the hidden state. z holds one complex number a token,
// head and plane: (B or 1, H or 1, N, 2, planes), cosine (real) parts first, at most d/2 planes;
// undefined for encodings that rotate nothing. With d planes there is a number of each kind for
// every channel (rotation.h): no complex numbers then.
struct PositionState {
  Positions positions;
  at::Tensor z;
  // What else the layers share, as the encoding says: t5's TableProgram values.
  at::Tensor table = {};
  // What before_layer() or read_hidden() made for this layer alone, as the encoding says; of
  // read_hidden() tokens stand in dimension 2.
  std::vector<at::Tensor> read = {};
  // What running_sums() of this layer came to over the tokens before these, (B, 1, ...); undefined
  // where there are none. It leaves there what they come to with these.
  at::Tensor sums = {};
};

// Sums over tokens up to each, of steps (B, N, ...): those before are in state.sums.
at::Tensor running_sums(const at::Tensor& steps, PositionState& state);

// ---- What attention runs -----------------------------------------------------------------------

// In which numbers a program's tensor is kept.
enum class Numbers {
  tokens,   // the model's dtype, one row a token, which kernels read as it is
  weights,  // the model's dtype; kernels read float32
  table,    // the table_dtype() of the model's; kernels read float32
  sums,     // float64, running sums over a text, of which differences count; kernels read it so
};
struct TensorInfo {
  const char* name;
  Numbers numbers = Numbers::table;
  bool differentiable = true;
};

// Each of the structs below is one way to a score. It has a name and lists its tensors once:
// tensors(self, each) calls each(TensorInfo, tensor) for all of them, undefined ones too. Casts,
// copies to a device, autograd and gradients go by that list.

// The score is scale * q.k.
struct PlainProgram {
  static constexpr const char* kName = "plain";
  template <class Self, class Each>
  static void tensors(Self&, const Each&) {}
};
// scale * q.k + values[h][lambda - first_distance]; values (H, L). With first_distance 0 a negative
// distance reads its absolute value. Every distance in use must be there. With `multiplies` the
// score is scale * q.k * values[...] in place of the sum.
struct TableProgram {
  at::Tensor values;
  std::int64_t first_distance = 0;  // <= 0
  bool multiplies = false;

  static constexpr const char* kName = "table";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"values"}, self.values);
  }
};
// scale * q.k + values[b][h][i][lambda] for 0 <= lambda < L, scale * q.k elsewhere: values (B or 1,
// H, N, L), a row for each query.
struct QueryTableProgram {
  at::Tensor values;

  static constexpr const char* kName = "query table";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"values"}, self.values);
  }
};
// scale * q.k for lambda <= limits[h], scale * far q.k beyond: keys farther away than a limit are
// read as if they stood at it. q (B, H, N, d) turned by each head's limit, k (B, kv heads, N, d) by
// nothing.
struct ClampProgram {
  at::Tensor q, k;
  std::vector<std::int64_t> limits;  // (H), >= 0; one that no distance reaches: none

  static constexpr const char* kName = "clamp";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"far_q", Numbers::tokens}, self.q);
    each(TensorInfo{"far_k", Numbers::tokens}, self.k);
  }
};
// TAPA: scale_content * qA.kA * cos(power[|lambda|] * phase); see kernels/attention.h.
struct TapaProgram {
  std::int64_t content_dim = 0;
  double scale_content = 1;
  double scale_phase = 1;
  bool linear_phase = false;
  at::Tensor power;  // (L), |lambda|^alpha with any 2 pi in it

  static constexpr const char* kName = "tapa";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"power", Numbers::table, false}, self.power);
  }
};
// scale * q.k, and a second value stream: the state (B or 1, H or 1, N, d), [cosine | sine].
struct TapeProgram {
  at::Tensor state;

  static constexpr const char* kName = "tape";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"state", Numbers::tokens}, self.state);
  }
};

// All distances of a region's pairs lie within.
struct DistanceRange {
  std::int64_t least = 0, greatest = 0;
};

// A region of the scores, as a term is asked for it: content (B, heads, rows, columns), scale * q.k
// of q and k as transformed, with the index of its first head, row and column; the position ids of
// its queries (B or 1, rows, 1) and keys (B or 1, 1, columns), int64. The content's dtype is a
// table_dtype(), and terms compute in it.
struct TermRegion {
  at::Tensor content;
  at::Tensor query_id, key_id;
  std::int64_t first_head = 0, first_row = 0, first_column = 0;
  // Ends of query_id - key_id where they are known without reading the ids.
  std::optional<DistanceRange> distances = {};

  // The same, read of the ids where they are not known.
  DistanceRange distance_range() const;
};
// What no other struct can say, by plain tensor ops alone: the score of a region, of its content's
// shape and before any mask. It may outlive the encoding, so it holds what it needs.
struct TermProgram {
  std::function<at::Tensor(const TermRegion&)> score;
  bool reads_rows = false;  // is asked for all heads and all keys of its rows, whatever is wanted
  std::int64_t arrays = 0;  // of (B, rows, columns) that it makes, beside the scores

  static constexpr const char* kName = "term";
  template <class Self, class Each>
  static void tensors(Self&, const Each&) {}
};
// FIRE past its threshold: `term` is its definition, and the tensors say the same to the fused
// kernel, all float32. scale * q.k + slope[h][n] u + intercept[h][n], u = distance[lambda]
// factor[i], n the number of knots below u; see kernels/attention.h.
struct FireProgram {
  at::Tensor distance;          // (N)
  at::Tensor factor;            // (N)
  at::Tensor knots;             // (S - 1), ascending; no gradient
  at::Tensor slope, intercept;  // (H, S)
  TermProgram term;

  static constexpr const char* kName = "fire";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"distance"}, self.distance);
    each(TensorInfo{"factor"}, self.factor);
    each(TensorInfo{"knots", Numbers::table, false}, self.knots);
    each(TensorInfo{"slope"}, self.slope);
    each(TensorInfo{"intercept"}, self.intercept);
  }
};
// The correction of all heads of a pair; forms and shapes as in kernels/attention.h.
struct CapeProgram {
  enum class Form { concat_residual, concat, add_residual, content };
  Form form = Form::concat_residual;
  // (H, L) base bias by distance; undefined for `content`, and where `fire` is the base.
  at::Tensor values;
  at::Tensor w1, b1, w2, b2;  // (D, in), (D), (H, D), (H)
  // The base past fire's threshold; its `term` defines the corrected score then.
  std::optional<FireProgram> fire = {};

  static constexpr const char* kName = "cape";
  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"values"}, self.values);
    each(TensorInfo{"w1", Numbers::weights}, self.w1);
    each(TensorInfo{"b1", Numbers::weights}, self.b1);
    each(TensorInfo{"w2", Numbers::weights}, self.w2);
    each(TensorInfo{"b2", Numbers::weights}, self.b2);
    if (self.fire) FireProgram::tensors(*self.fire, each);
  }
};

// Numbers of single tokens in the scores, beside any variant: its score s of query i and key j
// becomes factor_i (s + query_i + key_j). Biases (B or 1, H, N) in any dtype, whose sum is taken
// before it is rounded to the scores'; factors likewise. Undefined: 0, 0, 1.
struct TokenTerms {
  at::Tensor query, key, factor;

  bool defined() const { return query.defined() || key.defined() || factor.defined(); }

  template <class Self, class Each>
  static void tensors(Self& self, const Each& each) {
    each(TensorInfo{"query_bias", Numbers::sums}, self.query);
    each(TensorInfo{"key_bias", Numbers::sums}, self.key);
    each(TensorInfo{"query_factor"}, self.factor);
  }
};

// Where a region of the scores begins.
struct ScoreCorner {
  std::int64_t head = 0, row = 0, column = 0;
};

struct AttentionProgram {
  at::Tensor q, k;  // (B, H, N, d), (B, kv heads, M, d), transformed; any strides. M is N but in
                    // cross attention, and where keys are kept from tokens before (query_offset)
  at::Tensor q_plain, k_plain;  // the same before the transform
  bool transformed = false;     // whether q and k are others than these
  double scale = 1;             // of q.k; also of the content score where the variant is not tapa
  std::variant<PlainProgram, TableProgram, QueryTableProgram, ClampProgram, TapaProgram,
               TapeProgram, CapeProgram, FireProgram, TermProgram>
      variant;
  Positions positions;
  TokenTerms tokens = {};
  double gain = 1;      // the score is multiplied by it; cape and term alone
  double soft_cap = 0;  // s becomes cap tanh(s / cap), before the mask; 0: not
  bool causal = true;
  std::int64_t window = 0;  // a query sees keys less than this many tokens away; 0: all
  // Row i is the text's token query_offset + i: masks, positions and documents are those of tokens.
  // Only the queries of q, `tokens`, a query table and fire's factor count rows.
  std::int64_t query_offset = 0;
  at::Tensor key_mask = {};    // (B, M) bool, false for padding, which nothing sees
  bool padding_added = false;  // AttentionConfig::padding is "added"
  // Whether causal and key_mask leave some query padding alone, where it is known without reading
  // the mask.
  std::optional<bool> loses_rows = {};
  at::Tensor documents = {};  // (B, M) int64: a query sees the keys of its own document alone
  at::Tensor mask;  // (N, M) bool, true where a query sees a key; replaces `causal` and `window`
  // (H), learned sinks: each row's normaliser has e^sink more, so that its weights sum to less than
  // 1; log-sum-exps leave it out (kernels/attention.h). Undefined for none.
  at::Tensor sinks = {};
  // (B or 1, H, N, d_v) or (B or 1, H, N, 1), what a row's output is multiplied by; undefined for
  // nothing.
  at::Tensor gate = {};
  // (B or 1, H, L) zeros in float64, or undefined: a bias by |lambda| of the softmax's input,
  // behind all that is done to it but the mask. It has a gradient, which is what it is for: minus
  // that is what a bias by distance would lower the loss by. Farther pairs have none.
  at::Tensor distance_bias = {};
  // From this channel of q_plain and k_plain on q.k is content; the channels before it have a
  // position by construction, and all they give counts as positional.
  std::int64_t content_from = 0;
  // What else is done to the softmax's input, after all of the above but the mask: scores (B,
  // heads, rows, columns) to scores of that shape. It may outlive the encoding, and runs plain.
  std::function<at::Tensor(const at::Tensor& scores, const ScoreCorner& corner)> edit = {};

  void transform(const at::Tensor& new_q, const at::Tensor& new_k) {
    q = new_q, k = new_k, transformed = true;
  }

  // Whether the score is made in this way, how (null where it is another way), and its name.
  template <class P>
  bool is() const {
    return std::holds_alternative<P>(variant);
  }
  template <class P>
  const P* as() const {
    return std::get_if<P>(&variant);
  }
  template <class P>
  P* as() {
    return std::get_if<P>(&variant);
  }
  const char* name() const;

  // FIRE's pieces, its own or cape's; null where there are none.
  const FireProgram* fire() const;
  FireProgram* fire();
  // What defines the scores by tensor operations in place of the variant's formula; null for none.
  const TermProgram* term() const;
  TermProgram* term();
};

// Calls each(TensorInfo, tensor) for all tensors that a program's scores are computed from,
// undefined ones too; q_plain and k_plain are not among them.
template <class Program, class Each>
void for_each_tensor(Program& program, const Each& each) {
  each(TensorInfo{"q", Numbers::tokens}, program.q);
  each(TensorInfo{"k", Numbers::tokens}, program.k);
  std::visit([&each](auto& variant) { variant.tensors(variant, each); }, program.variant);
  each(TensorInfo{"sinks", Numbers::weights}, program.sinks);
  each(TensorInfo{"gate", Numbers::tokens}, program.gate);
  each(TensorInfo{"distance_bias", Numbers::sums}, program.distance_bias);
  program.tokens.tensors(program.tokens, each);
}

// Those of them that are defined and that gradients flow to, each(tensor), in the same order.
template <class Program, class Each>
void for_each_operand(Program& program, const Each& each) {
  for_each_tensor(program, [&each](const TensorInfo& info, auto& tensor) {
    if (info.differentiable && tensor.defined()) each(tensor);
  });
}

// ---- The encoding ------------------------------------------------------------------------------

// Ends of an option's range.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();
inline constexpr double kAboveZero = std::numeric_limits<double>::min();

// What makes an option count: another one of the same encoding that has one of these values.
struct OptionNeed {
  std::string key;
  std::vector<Json> values;
};

struct OptionInfo {
  std::string key;
  Json fallback;  // its default; its JSON type is the option's
  std::string help;
  std::vector<std::string> choices = {};  // of a text; empty for any
  double min = -kNoLimit;
  double max = kNoLimit;
  std::optional<OptionNeed> need = {};  // none: it always counts
};
// The option with a need.
OptionInfo only_where(OptionNeed need, OptionInfo option);

// What a shift of all position ids does to the scores, by the encoding's formula.
struct UnderShift {
  enum class Kind {
    stays,    // nothing, up to rounding
    moves,    // they change
    refused,  // they change, and past the end of a table there are none
  };
  Kind kind = Kind::stays;
  std::string why;  // a clause
};
const char* name_of(UnderShift::Kind kind);

// What position ids are the places of: tokens one after the other, cells of a grid row by row, or
// nodes of a tree.
enum class Places { line, grid, tree };

struct EncodingInfo {
  std::string key, title;
  std::string formula;    // of the score, plain text
  std::string source;     // paper, equation
  std::string departure;  // what differs from the paper, always shown; empty for nothing
  std::vector<OptionInfo> options;
  UnderShift under_shift = {};
  bool has_state = false;     // PositionState::z is defined
  bool reads_hidden = false;  // read_hidden() is to be called
  bool of_one_text = false;   // it holds the attention of one text, whatever is read
  Places places = Places::line;
};

struct ParameterSpec {
  enum class Init { normal, residual_normal, zeros, ones, uniform };
  std::string name;
  std::vector<std::int64_t> shape;
  Init init = Init::normal;  // normal: N(0, init_std); residual_normal: / sqrt(2 layers)
  double low = 0, high = 1;  // of `uniform`; `low` above 0 is the deviation of `normal`
  bool trainable = true;
  bool optional = false;  // may be absent from a checkpoint
  bool decays = true;     // weight decay applies
  at::Tensor start = {};  // values to start with in place of `init`, broadcast to the shape
  // A single number that decisions read: it stays in the host's memory wherever the model lives,
  // and operations on a device take it from there.
  bool of_host = false;
};

using Parameters = std::map<std::string, at::Tensor>;

// What start() needs to know. `dtype` is the model's; `angle_dtype` that of position times
// frequency and of its sine (float32 at least; theory checks run float64 models on float32's).
struct StartContext {
  Positions positions;
  at::ScalarType dtype;
  at::ScalarType angle_dtype;
  const Parameters* shared = nullptr;
  // (layers, N) int64: positions given a layer, where the encoding draws them.
  at::Tensor layer_ids = {};
  // In training: what encodings that draw their positions draw them from.
  std::optional<std::uint64_t> draw = {};

  // Of angles, where the positions are.
  at::TensorOptions angle_options() const { return positions.options(angle_dtype); }
};

// What a layer gives to the update of the state after its MLP; each (B, N, C).
struct MlpContext {
  at::Tensor mlp_output;        // before it is added to the residual
  at::Tensor attention_output;  // W_O o, before it was added
};

// How a text may be read piece by piece, what was made of the pieces before being kept
// (key_value_cache.h).
struct Pieces {
  enum class Kind {
    // A token's q, k, state and numbers are its own: program() is asked for the new tokens alone,
    // whose positions say where they stand. Its variant is plain, or tape's.
    tokens,
    // Scores of the tokens before stay as they are, but it takes the whole text to say those of the
    // new ones: program() is asked for it, and what is not of the new tokens' rows is not read.
    text,
    // What earlier tokens were given is no longer so when the text has grown.
    refused
  };
  Kind kind = Kind::text;
  std::string why = {};  // of `refused`, a clause
};

// What options that every encoding has do to single heads: to their scores and outputs.
struct Repairs {
  struct Limit {
    std::int64_t layer = 0, head = 0, distance = 0;
  };
  struct Factor {
    std::int64_t layer = 0, head = 0;
    double value = 0;
  };
  // What stands in place of a head's output: zeros, its mean, or its output at a row of the same
  // text that is drawn among those up to here.
  enum class How { zero, mean, resample };
  struct Ablation {
    std::int64_t layer = 0, head = 0;
    How how = How::zero;
  };
  at::Tensor table;                 // (layers, heads, K), added by distance; or undefined
  std::vector<std::int64_t> edges;  // (K) first distances, from 0; the last bucket has no end
  std::vector<Limit> windows;       // keys at `distance` and beyond are not seen
  std::vector<Limit> clamps;        // keys beyond `distance` are read as if they stood there
  std::vector<Factor> bias_scales;  // what the encoding adds to the score is multiplied
  std::vector<Factor> sink_caps;    // most weight on key 0; the row's other weights grow alike
  std::vector<Ablation> ablations;
  at::Tensor means;        // (layers, heads, d), of How::mean; or undefined
  std::uint64_t seed = 0;  // of How::resample

  bool changes_scores() const {
    return table.defined() || !windows.empty() || !clamps.empty() || !bias_scales.empty() ||
           !sink_caps.empty();
  }
};

// One encoding with its options, for one model's sizes. Stateless and shared between threads: what
// varies lives in PositionState and in the parameters.
class Encoding {
 public:
  virtual ~Encoding() = default;

  virtual const EncodingInfo& info() const = 0;
  // All options, defaults filled in.
  const Json& options() const { return options_; }
  // What differs from the paper with these options; empty for nothing.
  virtual std::string departure() const { return info().departure; }
  // What this encoding, with these options, claims under a shift of position ids.
  virtual UnderShift under_shift() const { return info().under_shift; }
  bool shift_invariant() const { return under_shift().kind == UnderShift::Kind::stays; }

  // Trained or stored tensors of each layer ("model.layers.N.encoding.NAME") and of the model
  // ("model.encoding.NAME").
  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<ParameterSpec> shared_parameters() const { return {}; }

  // Radians a token of each plane, (d/2) of context.angle_dtype; undefined where nothing rotates.
  // Some scalings depend on the number of tokens read.
  virtual at::Tensor frequencies(const StartContext& context) const;

  // Encodings that are added to the embedding: x (B, N, C).
  virtual at::Tensor embed(const at::Tensor& x, const StartContext& context) const;
  virtual PositionState start(const StartContext& context) const;
  // Called before each layer, for states that no layer makes out of the one before.
  virtual void before_layer(std::int64_t layer, PositionState& state) const;
  // Called after it with what the layer's projections read, x (B, N, C) in the weights' dtype, for
  // encodings whose gates, positions or turns are made of the content (EncodingInfo::reads_hidden).
  // What it makes is put into state.read, which is empty where program() is asked for pairs that
  // have no hidden state.
  virtual void read_hidden(const Parameters& layer, const at::Tensor& x,
                           PositionState& state) const;
  // q (B, H, N, d), k (B, kv heads, N, d) as they leave the projections.
  virtual AttentionProgram program(const Parameters& layer, const at::Tensor& q,
                                   const at::Tensor& k, const PositionState& state) const = 0;
  // v (B, kv heads, N, d) as attention is to average it.
  virtual at::Tensor values(const at::Tensor& v, const PositionState& state) const;
  // averaged_state: attention's second output, (B, H, N, d); undefined unless the kind is tape.
  virtual void after_attention(const Parameters& layer, const at::Tensor& averaged_state,
                               PositionState& state) const;
  virtual void after_mlp(const Parameters& layer, const MlpContext& context,
                         PositionState& state) const;

  // Bias of each head at distances 0..length-1, (H, length), computed in float64 and kept in the
  // table_options() of `options`, for encodings that add one that depends on nothing else;
  // undefined for the others. Differentiable.
  virtual at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                                const at::TensorOptions& options) const;
  // The same of a region's pairs and all heads, (B or 1, H, rows, columns), keys after the query
  // being at distance 0; for those too whose bias depends on the positions themselves.
  virtual at::Tensor bias(const Parameters& layer, const TermRegion& region) const;

  // How a text of up to `length` tokens may be read in pieces.
  virtual Pieces in_pieces(std::int64_t length) const;

  // Largest shift of position ids that training draws (uniformly in 0..value); 0 for none.
  virtual std::int64_t train_shift() const { return 0; }
  // Called after each optimiser step: puts parameters back into their range.
  virtual void constrain(Parameters& layer) const;

  // What one forward pass computes more than plain attention (encoding_cost.h).
  virtual std::vector<EncodingCost> cost(const CostSizes& sizes) const;
  // One sentence for each option that is set and changes nothing, for the load report.
  virtual std::vector<std::string> idle_options() const;
  // What its options do to single heads, whatever the encoding is.
  const Repairs& repairs() const { return repairs_; }

 protected:
  Encoding(const Json& options, const ModelConfig& model);

  // Distances 0..length-1 in places, tokens times step_: float64, in which what depends on them is
  // computed before it is kept in its table_dtype().
  at::Tensor distances(std::int64_t length, at::Device device) const;
  // Throws Error "bad_input" where positions are interpolated.
  void refuse_interpolation(const char* key) const;

  // The program of an encoding that leaves q and k as they are; its kind is plain.
  AttentionProgram unrotated(const at::Tensor& q, const at::Tensor& k,
                             const PositionState& state) const;

  double number(const char* option) const { return options_.at(option).get<double>(); }
  std::int64_t integer(const char* option) const { return options_.at(option).get<std::int64_t>(); }
  std::string text(const char* option) const { return options_.at(option).get<std::string>(); }
  bool flag(const char* option) const { return options_.at(option).get<bool>(); }

  // Of the model it is for.
  std::int64_t heads_, kv_heads_, head_dim_, width_, context_, layers_;
  double scale_;  // of q.k
  double step_;   // places a token: 1 but where positions are interpolated
  bool causal_;
  Json options_;

 private:
  Repairs repairs_;
};

// ---- The list ----------------------------------------------------------------------------------

struct EncodingEntry {
  const EncodingInfo* info;
  std::unique_ptr<Encoding> (*make)(const Json& options, const ModelConfig& model);
};

const std::vector<EncodingEntry>& encodings();
// Null where there is none of that key.
const EncodingEntry* find_encoding(const std::string& key);

// Fills in defaults. Unknown options (naming the near ones), wrong types and values out of range
// are put down in `problems`.
Json resolve_options(const EncodingInfo& info, const Json& options,
                     formats::ConfigProblems& problems);

// The encoding of config.encoding. Throws Error "bad_input" that lists all problems: an unknown key
// or option (naming the near ones), a wrong type, a value out of range.
std::unique_ptr<Encoding> make_encoding(const ModelConfig& config);
// The same with what is wrong put down in `problems`; null then.
std::unique_ptr<Encoding> make_encoding(const ModelConfig& config,
                                        formats::ConfigProblems& problems);
// That of the local layers; null where it is the same.
std::unique_ptr<Encoding> make_local_encoding(const ModelConfig& config);
// Those of the layer groups, one for each; null where a group has none.
std::vector<std::unique_ptr<Encoding>> make_group_encodings(const ModelConfig& config);

// The configuration with the local layers' encoding and sizes in place of the model's, and with
// those of a group that has an encoding.
ModelConfig with_local_encoding(const ModelConfig& config);
ModelConfig with_group_encoding(const ModelConfig& config, std::size_t group);

}  // namespace phasescope::model
