#pragma once
// What the equality checks share: how far two runs of a model are apart, the float32 noise of a
// model, verdicts from both dtypes.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analysis/head_grid.h"
#include "analysis/random.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "analysis/theory/check.h"
#include "analysis/theory/verdicts.h"

namespace phasescope::analysis {

// The three things that a transformation of the positions must not move: logits (relative; of a
// model without a head its last hidden states), attention weights (absolute), PE dot products
// (relative, Frobenius; 0 without a state).
struct Residuals {
  double logits = 0, attention = 0, products = 0;
  double largest() const;
};
Residuals residuals_of(TextPass& run, TextPass& other);

// A random order of two tokens or more that is not the one they have, so that a check of it could
// fail.
std::vector<std::int64_t> another_order(Random& random, std::int64_t tokens);

// Whether a model is an import of maps, or of queries and keys: it has no values and no outputs, so
// that nothing is said of what its layers give.
bool is_import(const model::Model& model);

// What Residuals::logits is of in this model: (B, N, V), or without a head the last hidden states
// (B, N, C); and its name.
at::Tensor outputs_of(const model::Decoder& decoder, const at::Tensor& ids,
                      const model::ForwardOptions& options);
const char* name_of_outputs(const model::Decoder& decoder);

// Each entry the larger one of the two.
Residuals larger_of(const Residuals& a, const Residuals& b);

// The same model with its weights in float64 and the very encoding it has (model::in_dtype makes
// one anew from the configuration).
std::shared_ptr<const model::Model> in_float64(const std::shared_ptr<const model::Model>& model);

// The same function with its float32 sums taken in another order: the units of every MLP and of
// every expert permuted.
std::shared_ptr<const model::Model> reordered(const std::shared_ptr<const model::Model>& model,
                                              std::uint64_t seed);

// What rounding may move in a run of `tokens` tokens whatever the order of its sums: half a unit in
// the last place of `dtype` (float32 or float64) for each term of the sums that a number comes
// through one after another, from the embedding to the outputs, added up as a random walk. Relative
// to the largest number. It is the least that a check allows: a few orders of summation may agree
// by chance, and on another processor do not.
double rounding_floor(const model::Decoder& decoder, std::int64_t tokens, at::ScalarType dtype);

// What rounding moves in the dtype of the context's model: the largest of a few other orders of
// summation (permuted channels, and the context's backend in place of plain operations), and at
// least rounding_floor().
Residuals rounding_noise(const CheckContext& context, const at::Tensor& ids);

// The backend that the context asks for, and plain operations; the context hears what ran.
model::ForwardOptions asked_options(const CheckContext& context);
model::ForwardOptions plain_options(const CheckContext& context);
// Plain operations of which nobody hears: a side computation of a check.
model::ForwardOptions plain_run();

// The head that the context names, or for L0H0, which is named where nobody asks, the first one
// that there is. Throws Error "bad_usage" where the context's model has none such.
LayerHead shown_head(const CheckContext& context);
std::string name_of(const LayerHead& head);  // "L3H1"

// The first `limit` ids of the first text, (1, N).
at::Tensor first_ids(const CheckContext& context, std::int64_t limit);

}  // namespace phasescope::analysis
