#pragma once
// Shift stability (TAPE, arXiv 2501.00712, Table 8): what changes when the whole text moves.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "analysis/text_pass.h"
#include "protocol/messages/shift.h"
#include "protocol/progress.h"

namespace phasescope::analysis {

enum class ShiftMethod { ids, tokens };

// How far one run is from another, over the original tokens; intervals are of 8 blocks of rows.
// `offset` tokens stand before them in the second run.
struct RunDifference {
  std::vector<std::int64_t> layers;  // those that have maps
  // Each of them: mean over heads and query rows of sum_j |a_ij - a'_ij|, by rows.
  std::vector<Interval> attention;
  // Each layer: largest |a_ij - a'_ij|.
  std::vector<double> attention_largest;
  // The states that there are, n of what layer n reads: ||G - G'||_F / ||G||_F over heads and
  // tokens, by rows of G.
  std::vector<std::int64_t> states;
  std::vector<Interval> position;
  // The same states: sums of (G - G')^2 and of G^2.
  std::vector<Part> products;
  // Largest absolute difference over the largest magnitude: of the logits (NaN without a head), and
  // of the last hidden states, after the final norm.
  double logits = 0, hidden = 0;
};
// Both report to `progress`, one after the other. Cancelling is asked for every block of rows.
RunDifference run_difference(TextPass& run, TextPass& other, std::int64_t offset,
                             protocol::Progress& progress);
RunDifference run_difference(TextPass& run, TextPass& other, std::int64_t offset);

struct ShiftOptions {
  std::vector<std::int64_t> by{1, 3, 16};
  std::vector<ShiftMethod> methods{ShiftMethod::ids, ShiftMethod::tokens};
  std::vector<std::string> dtypes{"f32", "f64"};
  model::Backend backend = model::Backend::fused;
  std::uint64_t seed = 0;  // of the bootstrap
};

// How many of the positions 0 .. most - 1 the model has: fewer than `most` where a learned table
// ends. `most` again where it has not even two. Asked of two positions at a time, so that no text
// of `most` tokens is made.
std::int64_t positions_of(const model::Model& model, std::int64_t most);

// How many tokens of a text of `tokens` tokens the largest of these shifts leaves within the
// positions that the model has: fewer than `tokens` where a learned table ends. `tokens` again
// where not even two tokens would fit.
std::int64_t tokens_that_shift(const model::Model& model, std::int64_t tokens,
                               const std::vector<std::int64_t>& by);

// Behind more added tokens than these no text is read where shifted ids were asked for as well.
inline constexpr std::int64_t kTokensBesideIds = std::int64_t{1} << 14;

// Up to this much of attention (sum_j |a - a'|) and of position products is rounding in float64: a
// shift by k moves an angle by half a unit in the last place of k + tokens, and what a thousand
// radians' worth of scores and layers make of it stays below the second term.
double shift_rounding(std::int64_t by, std::int64_t tokens);

struct ShiftOutput {
  std::vector<protocol::ShiftRow> rows;  // for every method, shift, dtype and layer with maps
  std::vector<protocol::Ran> ran;        // attention, dtype by dtype
};

// Position differences of layer l are those of the
// state after it, times 100; attention differences in 1e-2 units; logits differences are NaN
// without a head. Of one text intervals are of 8 blocks of its rows, of several they are over
// texts: of attention a value a text, of positions the ratio of the sums. Logits: the largest of
// all. `expected` and `verdict` as ShiftRow has them. Throws Error "bad_input" where a shift leaves
// a learned table, naming the position, the table's size, and the length that would fit, and where
// the text that is not shifted gives numbers that are not finite.
ShiftOutput analyse_shift(const std::shared_ptr<const model::Model>& model,
                          const std::vector<std::vector<std::int64_t>>& texts,
                          const ShiftOptions& options, protocol::Progress& progress);
ShiftOutput analyse_shift(const std::shared_ptr<const model::Model>& model,
                          const std::vector<std::int64_t>& ids, const ShiftOptions& options,
                          protocol::Progress& progress);

// The definitions, for the view and the report.
const char* shift_formula();

}  // namespace phasescope::analysis
