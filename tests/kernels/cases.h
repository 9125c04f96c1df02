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
  tapa,
  tapa_linear,
  tape,
  cape,
  cape_concat,
  cape_add_residual,
  cape_content
};
const std::vector<Kind>& all_kinds();
std::string kind_name(Kind kind);

/// Which keys are padding: of batch entry b the first or last b + 1 thirds, or every fifth key.
enum class Padding { none, left, right, holes };

struct Problem {
  Kind kind = Kind::plain;
  AttentionShape shape;
  float magnitude = 1;          ///< of q: scores grow with it
  bool infinite_table = false;  ///< every third entry of a table is -inf
  float soft_cap = 0;
  Padding padding = Padding::none;
  std::uint32_t seed = 1;
};
std::string problem_name(const Problem& problem);

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
  std::vector<float> q, k, v, state, table, w1, b1, w2, b2, d_out, d_out_state;
  std::vector<float> out, out_state, lse;
  std::vector<float> dq, dk, dv, d_state, d_table, d_w1, d_b1, d_w2, d_b2;

 private:
  void make_variant(const Problem& problem, class Random& random);
  void make_gradients();
};

}  // namespace phasescope::kernels::testing
