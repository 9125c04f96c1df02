#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "model/attention/attention.h"
#include "model/attention/token_pairs.h"

// Pieces of the plain form that attention, LayerAttention and the plain probes share.

namespace phasescope::model {

struct AttentionBlock {
  // (B, H, rows, columns); columns end at the last visible key. Of the table_dtype() where scores
  // have a table or a term.
  at::Tensor scores, weights;
  at::Tensor sink_weight;  // (B, H, rows); undefined where there are no sinks
  at::Tensor out, state;   // (B, H, rows, d); state for the tape kind alone
};

// All of one block of query rows.
AttentionBlock plain_block(const AttentionProgram& program, const at::Tensor& v, Range rows);

// How many rows a block may have so that it stays within some hundred megabytes. With gradients all
// rows are one block as long as what is kept of it stays within a gigabyte or two.
std::int64_t plain_block_rows(const AttentionProgram& program);

AttentionResult plain_attention(const AttentionProgram& program, const at::Tensor& v,
                                const AttentionOptions& options);

// (rows, columns) bool, true where a query may not see a key; (B, 1, rows, columns) where texts are
// padded or have documents; undefined where all is seen. Where padding is added (config.h), a row
// all of whose visible keys are padded sees those, and the later ones that are not, with the score
// 0 each: the huge numbers of the public code's masks swallow the scores there.
at::Tensor hidden_pairs(const AttentionProgram& program, Range rows, Range columns);

// plain_score_parts() (attention.h), of tokens converted to a dtype: those that the region reads
// and no others. Tables are taken as they are.
ScoreParts plain_score_parts(const AttentionProgram& program, Range heads, Range rows,
                             Range columns, std::optional<at::ScalarType> computed_in);

// ScoreParts::content alone.
at::Tensor plain_content(const AttentionProgram& program, Range heads, Range rows, Range columns);

// Scores of single pairs, (P) each in the result; undefined of none. computed_in: as above, of the
// pairs' tokens.
ScoreParts plain_pair_scores(const AttentionProgram& program, const TokenPairs& pairs,
                             std::optional<at::ScalarType> computed_in = {});

// CAPE's scores from the content scores and base biases of all heads, (B, H, rows, columns) and (B
// or 1, H, rows, columns); `content` reads no bias. `cape.values` is not read, and the weights are
// taken in the content's dtype.
at::Tensor cape_scores(const CapeProgram& cape, const at::Tensor& content, const at::Tensor& bias);

// -sum w ln w over the last dimension, in nats; 0 for weight 0.
at::Tensor row_entropy(const at::Tensor& weights);

}  // namespace phasescope::model
