#pragma once
// Random attention problems of every variant: what tests hold the kernels to and benchmarks time,
// on a CPU and on a device, is drawn here. A library of its own, which no program but these links.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace phasescope::kernels::problems {

/// The list every generated test runs over.
enum class Kind {
#define PHASESCOPE_KIND(name, score) name,
#include "kernels/problems/kinds.inc"
#undef PHASESCOPE_KIND
};
const std::vector<Kind>& all_kinds();
std::string kind_name(Kind kind);
/// The line of variants/scores.inc whose CUDA kernels it runs.
std::string kind_score(Kind kind);
/// Whether CUDA has kernels of it, and the kinds of which it has.
bool is_on_cuda(Kind kind);
std::vector<Kind> kinds_on_cuda();
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

struct Problem {
  Kind kind = Kind::plain;
  AttentionShape shape;
  float magnitude = 1;          ///< of q: scores grow with it
  bool infinite_table = false;  ///< every third entry of a table is -inf
  bool sloping_table = false;   ///< tables fall with the distance, as ALiBi's do: none is drawn
  float soft_cap = 0;
  Padding padding = Padding::none;
  Documents documents = Documents::none;
  Sinks sinks = Sinks::none;
  Gates gates = Gates::none;
  std::uint32_t seed = 1;
  std::int64_t knots = 9;    ///< of fire, and of cape over it
  bool steep = false;        ///< fire's factors fall faster than its distances rise
  std::int64_t hidden = 19;  ///< of cape; not a multiple of any tile
  /// Channels of tape's state; 0: the head's, as models have it, or, of an even number of keys,
  /// half.
  std::int64_t state_dim = 0;
  std::int64_t query_distances = 0;  ///< of a query's own table; 0: about half of the keys
  std::int64_t rank = 11;            ///< of relative keys; not a multiple of any tile
  Storage storage = Storage::float32;
};

/// Numbers of a normal distribution, the same for a seed on every machine with this standard
/// library.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::vector<float> normal(std::int64_t count, float deviation = 1);

 private:
  std::mt19937 engine_;
};

/// A call's inputs, and the gradients of its outputs, with the arrays that hold them. q, k, v lie
/// as (B, N, H, d), the way a model's projections leave them, so that strides matter; gradients are
/// (B, H, N, d). All is float32, whatever the problem's storage.
class RandomInputs {
 public:
  explicit RandomInputs(const Problem& problem);
  RandomInputs(const RandomInputs&) = delete;
  RandomInputs& operator=(const RandomInputs&) = delete;

  AttentionInputs inputs;

  std::vector<std::uint8_t> real;  ///< the mask of keys, empty where none is padding
  std::vector<std::int32_t> query_documents, key_documents;  ///< empty where there are none
  std::vector<float> q, k, v, state, table, w1, b1, w2, b2;
  std::vector<float> d_out, d_out_state;
  std::vector<float> factor, knots, slope, intercept;  ///< of fire; its distances are in `table`
  std::vector<float> sinks;                            ///< empty where there are none
  std::vector<double> query_bias, key_bias;  ///< of tokens; empty where there are none, as below
  std::vector<float> query_factor;
  std::vector<float> far_q, far_k;   ///< of clamped distances; of relative keys far_q is r
  std::vector<std::int64_t> limits;  ///< likewise
  std::vector<float> gate;           ///< empty where there is none

 private:
  void make_documents(const Problem& problem);
  void make_sinks(const Problem& problem);
  void make_gates(const Problem& problem);
  TableVariant make_table(const Problem& problem, Random& random);
  TapaVariant make_tapa(const Problem& problem);
  TapeVariant make_tape(const Problem& problem, Random& random);
  RelativeKeysVariant make_relative_keys(const Problem& problem, Random& random);
  ClampVariant make_clamp(const Problem& problem, Random& random);
  FireVariant make_fire(const Problem& problem, Random& random);
  CapeVariant make_cape(const Problem& problem, Random& random);
  void make_variant(const Problem& problem, Random& random);
  void make_tokens(const Problem& problem);
};

/// Channels of v and of the output.
std::int64_t values_of(const AttentionShape& shape);

}  // namespace phasescope::kernels::problems
