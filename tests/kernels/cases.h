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
  cape_fire_add_residual
};
const std::vector<Kind>& all_kinds();
std::string kind_name(Kind kind);
/// Whether scores come out of CAPE's network, and whether their biases are FIRE's.
bool is_cape(Kind kind);
bool is_on_fire(Kind kind);

/// Which keys are padding: of batch entry b the first or last b + 1 thirds, or every fifth key.
enum class Padding { none, left, right, holes };

/// Of the tokens: stretches of unlike lengths that are a document each; the same with three
/// documents in turn; any of three documents. Queries before the first key have one of their own.
enum class Documents { none, packed, in_turn, mixed };

struct Problem {
  Kind kind = Kind::plain;
  AttentionShape shape;
  float magnitude = 1;          ///< of q: scores grow with it
  bool infinite_table = false;  ///< every third entry of a table is -inf
  float soft_cap = 0;
  Padding padding = Padding::none;
  Documents documents = Documents::none;
  std::uint32_t seed = 1;
  std::int64_t knots = 9;    ///< of fire, and of cape over it
  bool steep = false;        ///< fire's factors fall faster than its distances rise
  std::int64_t hidden = 19;  ///< of cape; not a multiple of any tile
};
std::string problem_name(const Problem& problem);

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
std::vector<Problem> window_problems(Kind kind, const MaskSizes& sizes);
std::vector<Problem> padding_problems(Kind kind, const MaskSizes& sizes);
std::vector<Problem> document_problems(Kind kind, const MaskSizes& sizes);
std::vector<Problem> soft_cap_problems(Kind kind, const MaskSizes& sizes);

/// Owns the arrays of one problem. q, k, v lie as (B, N, H, d), the way a model's projections leave
/// them, so that strides matter; results are contiguous.
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

 private:
  void make_documents(const Problem& problem);
  FireVariant make_fire(const Problem& problem, class Random& random);
  CapeVariant make_cape(const Problem& problem, class Random& random);
  void make_variant(const Problem& problem, class Random& random);
  FireGradients make_fire_gradients(const FireVariant& fire);
  CapeGradients make_cape_gradients(const CapeVariant& cape);
  void make_gradients();
};

}  // namespace phasescope::kernels::testing
