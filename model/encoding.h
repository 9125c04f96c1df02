#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/attention_program.h"
#include "model/config.h"
#include "model/positions.h"

// The interface by which every positional encoding enters the decoder, and the list of them.
// Sections: the encoding, the list.

namespace phasescope::model {

struct CostSizes;
struct EncodingCost;

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

  // The options of angles, on the device where the positions are.
  at::TensorOptions angle_options() const { return positions.options(angle_dtype); }
};

// What a layer gives to the update of the state after its MLP; each (B, N, C).
struct MlpContext {
  at::Tensor mlp_output;        // as it is added to the residual
  at::Tensor attention_output;  // W_O o, the same
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

  // Whether something is done to the scores of a layer, but for what is done to weights.
  bool changes_scores_of(std::int64_t layer) const {
    const auto here = [layer](const auto& one) { return one.layer == layer; };
    return table.defined() || std::ranges::any_of(windows, here) ||
           std::ranges::any_of(clamps, here) || std::ranges::any_of(bias_scales, here);
  }
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
  // Whether PositionState::z is defined with these options.
  virtual bool has_state() const { return info().has_state; }

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
  // Bias of all heads at a region's pairs, (B or 1, H, rows, columns), keys after the query being
  // at distance 0; for those too whose bias depends on the positions themselves.
  virtual at::Tensor bias(const Parameters& layer, const TermRegion& region) const;

  // How a text of up to `length` tokens may be read in pieces.
  virtual Pieces in_pieces(std::int64_t length) const;

  // Largest shift of position ids that training draws (uniformly in 0..value); 0 for none.
  virtual std::int64_t train_shift() const { return 0; }
  // Called after each optimiser step: puts parameters back into their range.
  virtual void constrain(Parameters& layer) const;

  // What one forward pass computes more than plain attention (encoding_cost.h).
  virtual std::vector<EncodingCost> cost(const CostSizes& sizes) const;
  // Whether one of its options changes anything, the others being as they are.
  bool counts(const OptionInfo& option) const;
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

  // Sizes of the model that it is for.
  std::int64_t heads_, kv_heads_, head_dim_, width_, context_, layers_;
  double scale_;  // of q.k
  double step_;   // places a token: 1 but where positions are interpolated
  bool causal_;
  Json options_;

 private:
  Repairs repairs_;
};

// What is done to the heads of a layer of this encoding, where a stack's encoding says it for all
// layers whose own says nothing.
const Repairs& repairs_of(const Encoding& layer, const Encoding& stack);

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
// The encoding of config.encoding; what is wrong is put down in `problems`, and null comes back
// then.
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
