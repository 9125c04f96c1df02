#pragma once
// Random attention problems of every variant, with memory for their results.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace phasescope::kernels::testing {

/// The list every generated test runs over. A new variant adds a line here and in cases.cpp.
enum class Kind {
  plain,
  table,
  table_signed,
  table_multiplied,
  tapa,
  tapa_linear,
  tape,
  fire,  ///< always causal, whatever its shape says
  cape,
  cape_concat,
  cape_add_residual,
  cape_content,
  cape_fire,  ///< over FIRE, always causal too; so are the next two
  cape_fire_concat,
  cape_fire_add_residual,
  forgetting,    ///< biases of running sums over the tokens
  tokens,        ///< any biases of queries and keys, and a factor of each query
  table_tokens,  ///< the same beside an added table
  query_table,   ///< a table of each query's own, shorter than the text
  clamp,         ///< far keys by a second q and k, from another distance on for each head
};
const std::vector<Kind>& all_kinds();
std::string kind_name(Kind kind);
/// Whether scores come out of CAPE's network, and whether their biases are FIRE's.
bool is_cape(Kind kind);
bool is_on_fire(Kind kind);
/// Whether a cosine of a phase is among the score's factors.
bool has_phase(Kind kind);
/// Whether single tokens have numbers in the scores (TokenTerms).
bool has_tokens(Kind kind);

/// Which keys are padding: of batch entry b the first or last b + 1 thirds, or every fifth key.
enum class Padding { none, left, right, holes };

/// Of the tokens: stretches of unlike lengths that are a document each; the same with three
/// documents in turn; any of three documents. Queries before the first key have one of their own.
enum class Documents { none, packed, in_turn, mixed };

/// Learned sinks: about as large as scores, larger than most, and -inf, which is none at all.
enum class Sinks { none, even, large, off };

/// Gates of the output: none, a number a channel, a number a row; among them 0 and negative ones.
enum class Gates { none, by_channel, by_row };

/// The storages of q, k, v, out and their gradients, for tests to take in turn.
inline constexpr Storage kStorages[] = {Storage::float32, Storage::bfloat16, Storage::float16};
/// Rounds each value to what the storage can hold.
void round_to(Storage storage, std::vector<float>& values);

struct Problem {
  Kind kind = Kind::plain;
  AttentionShape shape;
  float magnitude = 1;          ///< of q: scores grow with it
  bool infinite_table = false;  ///< every third entry of a table is -inf
  float soft_cap = 0;
  Padding padding = Padding::none;
  Documents documents = Documents::none;
  Sinks sinks = Sinks::none;
  Gates gates = Gates::none;
  std::uint32_t seed = 1;
  std::int64_t knots = 9;    ///< of fire, and of cape over it
  bool steep = false;        ///< fire's factors fall faster than its distances rise
  std::int64_t hidden = 19;  ///< of cape; not a multiple of any tile
  Storage storage = Storage::float32;
};
std::string problem_name(const Problem& problem);

/// What every implementation is held to.
inline constexpr std::int64_t kSizes[] = {1, 2, 17, 63, 64, 65, 81, 127, 128, 129};
inline constexpr std::int64_t kLongSize = 1000;
inline constexpr std::int64_t kDims[] = {8, 16, 32, 48, 64, 80, 96, 128};
inline constexpr std::int64_t kGroups[] = {1, 2, 7};
/// Every size with every dimension, each pair with one of the groups and causal or not: any two of
/// the four come together. The long size, most of whose time is the reference's, comes once, causal
/// for every other variant.
std::vector<Problem> paired_problems(Kind kind);

/// Sizes of the problems with masks that every implementation is held to, chosen for its tiles.
struct MaskSizes {
  AttentionShape window;  ///< causal and not, with each of `windows`
  std::vector<std::int64_t> windows;
  AttentionShape late;                ///< few queries at the end of many keys, with a window
  AttentionShape padding;             ///< three texts; the third is padding alone
  std::int64_t padding_window = 0;    ///< the same texts again with this window
  AttentionShape cap;                 ///< scores far below the cap, about it, and far above
  AttentionShape cap_and_masks;       ///< a cap with a window and padding
  AttentionShape documents;           ///< each kind of documents, causal and not
  std::int64_t documents_window = 0;  ///< the same texts again with this window and padding
};
/// Four of these lists are products: windows, paddings, kinds of documents and gates with what they
/// come together with (causal or not, a window or none, a shape). With `every` each has all of its
/// product; else every value of each factor comes, and which two of them come together goes by the
/// variant, so that neighbours in all_kinds() have the others. Variants differ in their scores, and
/// a mask knows nothing of these: what fails for a pair of masks alone fails for another variant.
std::vector<Problem> window_problems(Kind kind, const MaskSizes& sizes, bool every = false);
/// Any three values come together for one of four variants that follow each other.
std::vector<Problem> padding_problems(Kind kind, const MaskSizes& sizes, bool every = false);
std::vector<Problem> document_problems(Kind kind, const MaskSizes& sizes, bool every = false);
std::vector<Problem> soft_cap_problems(Kind kind, const MaskSizes& sizes);
/// Among them rows that see no key, and every storage of a mask.
std::vector<Problem> sink_problems(Kind kind, const MaskSizes& sizes);
/// Both kinds, rows that see no key among them, and beside sinks.
std::vector<Problem> gate_problems(Kind kind, const MaskSizes& sizes, bool every = false);
/// All of the four products.
std::vector<Problem> every_mask_problem(Kind kind, const MaskSizes& sizes);

/// Owns the arrays of one problem. q, k, v lie as (B, N, H, d), the way a model's projections leave
/// them, so that strides matter; results are contiguous. In a 16-bit storage the kernels are given
/// arrays of that; the float32 ones hold the same numbers and take the results back.
class Case {
 public:
  explicit Case(const Problem& problem);

  void forward();
  void backward();

  AttentionInputs inputs;
  ForwardOutputs outputs;
  SavedForward saved;
  Gradients gradients;

  std::vector<std::uint8_t> real;  ///< the mask of keys, empty where none is padding
  std::vector<std::int32_t> query_documents, key_documents;  ///< empty where there are none
  std::vector<float> q, k, v, state, table, w1, b1, w2, b2, d_out, d_out_state;
  std::vector<float> factor, knots, slope, intercept;  ///< of fire; its distances are in `table`
  std::vector<float> out, out_state, lse;
  std::vector<float> dq, dk, dv, d_state, d_table, d_w1, d_b1, d_w2, d_b2;
  std::vector<float> d_factor, d_slope, d_intercept;
  std::vector<float> sinks, d_sinks;         ///< empty where there are none
  std::vector<double> query_bias, key_bias;  ///< of tokens; empty where there are none, as below
  std::vector<float> query_factor, d_query_bias, d_key_bias, d_query_factor;
  std::vector<float> far_q, far_k, d_far_q, d_far_k;  ///< of clamped distances
  std::vector<std::int64_t> limits;                   ///< likewise
  std::vector<float> gate, ungated, d_gate;           ///< empty where there is no gate
  std::vector<double> score_gradients;                ///< (B, heads, score_distances())
  std::int64_t score_distances() const;

 private:
  /// 16-bit numbers of one of the arrays above.
  struct Narrow {
    std::vector<float>* values;
    std::vector<std::uint16_t> bits;
    bool is_result;
  };

  void store_as(Storage storage);
  void write_narrow();
  void read_narrow();
  void make_documents(const Problem& problem);
  void make_sinks(const Problem& problem);
  void make_gates(const Problem& problem);
  ClampVariant make_clamp(const Problem& problem, class Random& random);
  FireVariant make_fire(const Problem& problem, class Random& random);
  CapeVariant make_cape(const Problem& problem, class Random& random);
  void make_variant(const Problem& problem, class Random& random);
  void make_tokens(const Problem& problem);
  FireGradients make_fire_gradients(const FireVariant& fire);
  CapeGradients make_cape_gradients(const CapeVariant& cape);
  void make_gradients();

  Storage storage_;
  std::vector<Narrow> narrow_;
};

}  // namespace phasescope::kernels::testing
