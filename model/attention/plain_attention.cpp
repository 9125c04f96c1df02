// The plain tensor form of every attention variant: definition, reference and fallback.
#include "model/attention/plain_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/attention/attention.h"
#include "model/attention/plain_mask.h"
#include "model/attention/relative_keys.h"
#include "model/attention/row_blocks.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

at::Tensor rows_of(const at::Tensor& x, Range range) { return x.slice(-2, range.begin, range.end); }

// k or v (B, kv heads, n, d) for query heads [begin, end): (B, heads, n, d).
at::Tensor for_query_heads(const at::Tensor& x, std::int64_t heads, Range range) {
  const std::int64_t group = heads / x.size(1);
  if (group == 1) return x.slice(1, range.begin, range.end);
  const at::Tensor index =
      at::arange(range.begin, range.end, x.options().dtype(at::kLong)).floor_divide(group);
  return x.index_select(1, index);
}

// Position ids of some tokens, (B or 1, size) int64.
at::Tensor ids_of(const AttentionProgram& program, Range range) {
  const Positions& positions = program.positions;
  if (positions.consecutive()) return indices(program, range).unsqueeze(0) + positions.shift;
  const at::Tensor ids = positions.ids.dim() == 2 ? positions.ids : positions.ids.unsqueeze(0);
  return ids.slice(1, range.begin, range.end);
}

// lambda = position of query - position of key, (B or 1, rows, columns) int64.
at::Tensor distances(const AttentionProgram& program, Range rows, Range columns) {
  return ids_of(program, tokens_of_rows(program, rows)).unsqueeze(2) -
         ids_of(program, columns).unsqueeze(1);
}

// The least and the greatest of them by the host's ids, (N) or (B, N).
DistanceRange range_of_kept(const at::Tensor& ids, Range queries, Range keys) {
  const auto ends_of = [&ids](Range range) {
    return ids.slice(-1, range.begin, range.end).aminmax(-1);
  };
  const auto [first_query, last_query] = ends_of(queries);
  const auto [first_key, last_key] = ends_of(keys);
  return {(first_query - last_key).min().item<std::int64_t>(),
          (last_query - first_key).max().item<std::int64_t>()};
}

// The least and the greatest of them, as far as the host knows.
std::optional<DistanceRange> range_of_distances(const AttentionProgram& program, Range rows,
                                                Range columns) {
  const Positions& positions = program.positions;
  if (positions.consecutive()) {
    const Range queries = tokens_of_rows(program, rows);
    return DistanceRange{queries.begin - (columns.end - 1), queries.end - 1 - columns.begin};
  }
  if (program.q.is_cpu()) return {};
  if (positions.kept.defined()) {
    return range_of_kept(positions.kept, tokens_of_rows(program, rows), columns);
  }
  if (!positions.extent) return {};
  const std::int64_t reach = positions.largest_distance();
  return DistanceRange{-reach, reach};
}

// table (H, L) at distances (B or 1, rows, columns): (B or 1, H, rows, columns).
at::Tensor look_up(const at::Tensor& table, const at::Tensor& distance) {
  return table.index_select(1, distance.flatten()).unflatten(1, distance.sizes()).transpose(0, 1);
}

// The entries of a table program for heads [begin, end) at distances (B or 1, rows, columns): (B or
// 1, heads, rows, columns).
at::Tensor table_entries(const TableProgram& table, Range heads, const at::Tensor& distance) {
  const at::Tensor values = table.values.slice(0, heads.begin, heads.end);
  return look_up(values,
                 table.first_distance == 0 ? distance.abs() : distance - table.first_distance);
}

// What a query table adds at distances (1 or B, rows, columns), 0 where it has no entry: values (B
// or 1, heads, rows, L) of these to (B, heads, rows, columns).
at::Tensor query_table_entries(const at::Tensor& values, const at::Tensor& distance) {
  const at::Tensor by_head = distance.unsqueeze(1);
  const at::Tensor outside = (by_head < 0) | (by_head >= values.size(3));
  const std::int64_t batch = std::max(values.size(0), distance.size(0));
  const at::Tensor index =
      by_head.clamp(0, values.size(3) - 1).expand({batch, values.size(1), -1, -1});
  return values.expand({batch, -1, -1, -1}).gather(-1, index).masked_fill(outside, 0.0);
}

at::Tensor products(const at::Tensor& q, const at::Tensor& k) {
  return at::matmul(q, k.transpose(-1, -2));
}

struct Operands {
  at::Tensor q, k;  // (B, heads, rows, d), (B, heads, columns, d)
};

using MaybeDtype = std::optional<at::ScalarType>;  // a dtype, or what a tensor has

at::Tensor in_given_dtype(const at::Tensor& x, MaybeDtype dtype) {
  return dtype ? x.to(*dtype) : x;
}

Operands operands(const at::Tensor& q, const at::Tensor& k, Range heads, Range rows, Range columns,
                  MaybeDtype dtype) {
  return {in_given_dtype(rows_of(q.slice(1, heads.begin, heads.end), rows), dtype),
          for_query_heads(in_given_dtype(rows_of(k, columns), dtype), q.size(1), heads)};
}

at::Tensor tapa_scores(const TapaProgram& tapa, const Operands& x, const at::Tensor& distance) {
  const std::int64_t a = tapa.content_dim;
  const std::int64_t p = x.q.size(-1) - a;
  const at::Tensor content =
      products(x.q.narrow(-1, 0, a), x.k.narrow(-1, 0, a)) * tapa.scale_content;
  const at::Tensor qp = x.q.narrow(-1, a, p);
  const at::Tensor kp = x.k.narrow(-1, a, p);
  const at::Tensor phase =
      tapa.linear_phase ? (qp.sum(-1, true) + kp.sum(-1, true).transpose(-1, -2)) * tapa.scale_phase
                        : products(qp, kp) * tapa.scale_phase;
  const at::Tensor power =
      tapa.power.index_select(0, distance.abs().flatten()).view(distance.sizes());
  return content * at::cos(power.unsqueeze(1) * phase);
}

// (heads, 1, 1) int64, the distances from which heads read clamped keys.
at::Tensor far_limits(const AttentionProgram& program, const ClampProgram& clamp, Range heads) {
  return list_on(clamp.limits, program.q.device())
      .slice(0, heads.begin, heads.end)
      .view({-1, 1, 1});
}

// Scores of near pairs, those of the far q and k where a pair lies beyond its head's limit.
at::Tensor with_far_scores(const AttentionProgram& program, const ClampProgram& clamp,
                           const at::Tensor& scores, Range heads, Range rows, Range columns,
                           MaybeDtype dtype) {
  const Operands far = operands(clamp.q, clamp.k, heads, rows, columns, dtype);
  const at::Tensor beyond =
      distances(program, rows, columns).unsqueeze(1) > far_limits(program, clamp, heads);
  return at::where(beyond, products(far.q, far.k) * program.scale, scores);
}

at::Tensor in_table_dtype(const at::Tensor& scores) {
  return scores.to(table_dtype(scores.scalar_type()));
}

at::Tensor cape_table_scores(const CapeProgram& cape, const at::Tensor& given,
                             const at::Tensor& distance) {
  const at::Tensor content = in_table_dtype(given);
  if (cape.form == CapeProgram::Form::content) return cape_scores(cape, content, {});
  return cape_scores(cape, content, look_up(cape.values, distance.clamp_min(0)));
}

// A term's scores: of what it reads, cut down to what is wanted.
at::Tensor term_scores(const AttentionProgram& program, Range heads, Range rows, Range columns,
                       MaybeDtype dtype = {}) {
  const TermProgram& term = *program.term();
  const bool all = term.reads_rows;
  const Range read_heads = all ? Range{0, program.q.size(1)} : heads;
  const Range read_columns = all ? Range{0, program.k.size(2)} : columns;
  const Operands x = operands(program.q, program.k, read_heads, rows, read_columns, dtype);
  const Range queries = tokens_of_rows(program, rows);
  const at::Tensor scores = term.score(
      {in_table_dtype(products(x.q, x.k) * program.scale), ids_of(program, queries).unsqueeze(2),
       ids_of(program, read_columns).unsqueeze(1), read_heads.begin, queries.begin,
       read_columns.begin, range_of_distances(program, rows, read_columns)});
  if (!all) return scores;
  return scores.slice(1, heads.begin, heads.end).slice(3, columns.begin, columns.end);
}

// A term's scores of single pairs (P), row by row.
at::Tensor term_pair_scores(const AttentionProgram& program, const TokenPairs& pairs) {
  const auto sorted = [&pairs](const at::Tensor& x) { return x.index_select(0, pairs.by_query()); };
  const at::Tensor text = sorted(pairs.there().text), head = sorted(pairs.there().head),
                   key = sorted(pairs.there().key);
  at::Tensor scores =
      at::empty(key.sizes(), program.q.options().dtype(table_dtype(program.q.scalar_type())));
  for (const auto& [query, begin, end] : pairs.rows()) {
    const at::Tensor of_row =
        term_scores(program, {0, program.q.size(1)}, {query, query + 1}, {0, program.k.size(2)});
    const auto here = [begin, end](const at::Tensor& x) { return x.slice(0, begin, end); };
    scores.index_put_({here(pairs.by_query())},
                      of_row.squeeze(2).index({here(text), here(head), here(key)}));
  }
  return scores;
}

// Scores of single pairs (P) of a program that changes its scores before softmax; it does so by
// regions.
at::Tensor edited_pair_scores(const AttentionProgram& program, const TokenPairs& pairs) {
  const PairIndices& here = pairs.here();
  std::vector<at::Tensor> scores;
  for (std::int64_t p = 0; p < pairs.size(); ++p) {
    const auto one = [p](const at::Tensor& places) {
      const std::int64_t place = places[p].item<std::int64_t>();
      return Range{place, place + 1};
    };
    scores.push_back(plain_scores(program, one(here.head), one(here.query), one(here.key))
                         .select(0, here.text[p].item<std::int64_t>())
                         .squeeze());
  }
  return at::stack(scores);
}

}  // namespace

at::Tensor cape_scores(const CapeProgram& cape, const at::Tensor& content, const at::Tensor& bias) {
  using Form = CapeProgram::Form;
  const auto corrected = [&](const at::Tensor& x) {  // x (B, in, rows, columns)
    const auto layer = [](const at::Tensor& of, const at::Tensor& w, const at::Tensor& b) {
      return at::linear(of, w.to(of.scalar_type()), b.to(of.scalar_type()));
    };
    const at::Tensor hidden = at::leaky_relu(layer(x.movedim(1, -1), cape.w1, cape.b1), 0.01);
    return layer(hidden, cape.w2, cape.b2).movedim(-1, 1);
  };
  const auto both = [&] { return at::cat({content, bias.expand_as(content)}, 1); };
  switch (cape.form) {
    case Form::concat_residual:
      return content + bias + corrected(both());
    case Form::concat:
      return content + corrected(both());
    case Form::add_residual:
      return content + bias + corrected(content + bias);
    case Form::content:
      return content + corrected(content);
  }
  return {};
}

namespace {

// Scores without the mask. For cape `x` holds all heads, `heads` says which are wanted.
at::Tensor open_scores(const AttentionProgram& program, const Operands& x,
                       const at::Tensor& distance, Range heads) {
  if (const auto* tapa = program.as<TapaProgram>()) return tapa_scores(*tapa, x, distance);
  const at::Tensor scores = products(x.q, x.k) * program.scale;
  if (const auto* cape = program.as<CapeProgram>()) {
    return cape_table_scores(*cape, scores, distance).slice(1, heads.begin, heads.end);
  }
  const auto* table = program.as<TableProgram>();
  if (table == nullptr) return scores;
  const at::Tensor entries = table_entries(*table, heads, distance);
  return table->multiplies ? scores * entries : scores + entries;
}

at::Tensor gained(const AttentionProgram& program, const at::Tensor& scores) {
  return program.gain == 1.0 ? scores : scores * program.gain;
}

at::Tensor capped(const AttentionProgram& program, const at::Tensor& scores) {
  const double cap = program.soft_cap;
  return cap > 0 ? cap * at::tanh(scores / cap) : scores;
}

// The sum of two biases, either of which may be undefined, as scores take it: sums in float64 are
// rounded here.
at::Tensor sum_of_biases(const at::Tensor& key, const at::Tensor& query, const at::Tensor& scores) {
  const at::Tensor sum = !query.defined() ? key : key.defined() ? key + query : query;
  const at::ScalarType most = table_dtype(scores.scalar_type());
  return sum.defined() && sum.scalar_type() == at::kDouble ? sum.to(most) : sum;
}

// factor (scores + query + key) of scores (B, heads, rows, columns).
at::Tensor with_token_terms(const AttentionProgram& program, const at::Tensor& scores, Range heads,
                            Range rows, Range columns) {
  const auto of = [&heads](const at::Tensor& x, Range tokens, std::int64_t beside) {
    if (!x.defined()) return x;
    return x.slice(1, heads.begin, heads.end).slice(2, tokens.begin, tokens.end).unsqueeze(beside);
  };
  const at::Tensor bias =
      sum_of_biases(of(program.tokens.key, columns, 2), of(program.tokens.query, rows, 3), scores);
  const at::Tensor sum = bias.defined() ? scores + bias : scores;
  return program.tokens.factor.defined() ? sum * of(program.tokens.factor, rows, 3) : sum;
}

// factor (scores + query + key) of single pairs, scores (P).
at::Tensor with_token_terms_of_pairs(const AttentionProgram& program, const at::Tensor& scores,
                                     const PairIndices& pairs) {
  const auto of = [&](const at::Tensor& x, const at::Tensor& token) {
    if (!x.defined()) return x;
    return x.expand({program.q.size(0), -1, -1}).index({pairs.text, pairs.head, token});
  };
  const at::Tensor bias = sum_of_biases(of(program.tokens.key, pairs.key),
                                        of(program.tokens.query, pairs.query), scores);
  const at::Tensor sum = bias.defined() ? scores + bias : scores;
  return program.tokens.factor.defined() ? sum * of(program.tokens.factor, pairs.query) : sum;
}

// Its entry of |lambda|, 0 where it has none, with each score of (B, heads, rows, columns).
at::Tensor with_distance_bias(const AttentionProgram& program, const at::Tensor& scores,
                              Range heads, const at::Tensor& distance) {
  const at::Tensor values =
      program.distance_bias.slice(1, heads.begin, heads.end).expand({scores.size(0), -1, -1});
  const std::int64_t length = values.size(2);
  const at::Tensor lambda = distance.abs().unsqueeze(1).expand(scores.sizes());
  const at::Tensor entries = values.gather(2, lambda.clamp_max(length - 1).flatten(2))
                                 .view(scores.sizes())
                                 .masked_fill(lambda >= length, 0.0);
  return scores + entries.to(scores.scalar_type());
}

at::Tensor content_scores(const AttentionProgram& program, const Operands& x) {
  if (const std::int64_t from = program.content_from; from > 0) {
    const auto content = [from](const at::Tensor& t) {
      return t.narrow(-1, from, t.size(-1) - from);
    };
    return gained(program, products(content(x.q), content(x.k)) * program.scale);
  }
  const auto* tapa = program.as<TapaProgram>();
  if (tapa == nullptr) return gained(program, products(x.q, x.k) * program.scale);
  const std::int64_t a = tapa->content_dim;
  return products(x.q.narrow(-1, 0, a), x.k.narrow(-1, 0, a)) * tapa->scale_content;
}

Range heads_read(const AttentionProgram& program, Range wanted) {
  return program.is<CapeProgram>() ? Range{0, program.q.size(1)} : wanted;
}

// One token pair an entry: x (B, heads, N, d) at batch and token (P): (P, heads, 1, d).
at::Tensor tokens_of(const at::Tensor& x, const at::Tensor& batch, const at::Tensor& token) {
  return x.transpose(1, 2).index({batch, token}).unsqueeze(2);
}

at::Tensor content_of(const AttentionProgram& program, Range heads, Range rows, Range columns,
                      MaybeDtype dtype) {
  return content_scores(
      program, operands(program.content_q(), program.content_k(), heads, rows, columns, dtype));
}

at::Tensor scores_of(const AttentionProgram& program, Range heads, Range rows, Range columns,
                     MaybeDtype dtype) {
  at::Tensor scores = program.term() != nullptr
                          ? term_scores(program, heads, rows, columns, dtype)
                          : open_scores(program,
                                        operands(program.q, program.k, heads_read(program, heads),
                                                 rows, columns, dtype),
                                        distances(program, rows, columns), heads);
  if (const auto* clamp = program.as<ClampProgram>()) {
    scores = with_far_scores(program, *clamp, scores, heads, rows, columns, dtype);
  }
  if (const auto* table = program.as<QueryTableProgram>()) {
    const at::Tensor values = rows_of(table->values.slice(1, heads.begin, heads.end), rows);
    scores =
        in_table_dtype(scores) + query_table_entries(values, distances(program, rows, columns));
  }
  if (const auto* relative = program.as<RelativeKeysProgram>()) {
    scores = in_table_dtype(scores);
    scores = scores + relative_scores(*relative, heads, rows, distances(program, rows, columns),
                                      scores.scalar_type());
  }
  if (program.tokens.defined()) {
    scores = with_token_terms(program, scores, heads, rows, columns);
  }
  scores = capped(program, gained(program, scores));
  if (program.edit) scores = program.edit(scores, {heads.begin, rows.begin, columns.begin});
  if (program.distance_bias.defined()) {
    scores = with_distance_bias(program, scores, heads, distances(program, rows, columns));
  }
  const at::Tensor hidden = hidden_pairs(program, rows, columns);
  if (!hidden.defined()) return scores;
  if (spreads_padding(program)) scores = scores.masked_fill(lost_rows(program, rows), 0.0);
  return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

}  // namespace

at::Tensor plain_scores(const AttentionProgram& program, Range heads, Range rows, Range columns) {
  return scores_of(program, heads, rows, columns, {});
}

at::Tensor plain_content(const AttentionProgram& program, Range heads, Range rows, Range columns) {
  return content_of(program, heads, rows, columns, {});
}

ScoreParts plain_score_parts(const AttentionProgram& program, Range heads, Range rows,
                             Range columns, std::optional<at::ScalarType> computed_in) {
  ScoreParts parts;
  parts.content = content_of(program, heads, rows, columns, computed_in);
  parts.score = scores_of(program, heads, rows, columns, computed_in);
  parts.positional = parts.score - parts.content;
  return parts;
}

ScoreParts plain_score_parts(const AttentionProgram& program, Range heads, Range rows,
                             Range columns) {
  return plain_score_parts(program, heads, rows, columns, {});
}

namespace {

// What programs give by regions alone, (P) each of all pairs; undefined where tokens say it.
struct RegionScores {
  at::Tensor term, edited;

  RegionScores slice(std::int64_t begin, std::int64_t end) const {
    const auto some = [=](const at::Tensor& x) { return x.defined() ? x.slice(0, begin, end) : x; };
    return {some(term), some(edited)};
  }
};

// Of so few pairs that all heads of their tokens can be gathered.
ScoreParts scores_of_pairs(const AttentionProgram& program, const PairIndices& of,
                           const RegionScores& by_regions,
                           std::optional<at::ScalarType> computed_in) {
  const at::Tensor &batch = of.text, &head = of.head, &row = of.query, &column = of.key;
  const Range heads{0, program.q.size(1)};
  const auto taken = [&](const at::Tensor& x, const at::Tensor& token) {
    return in_given_dtype(tokens_of(x, batch, token), computed_in);
  };
  const auto pairs = [&](const at::Tensor& q, const at::Tensor& k) {
    return Operands{taken(q, row), for_query_heads(taken(k, column), heads.end, heads)};
  };
  const auto of_head = [&](const at::Tensor& scores) {  // (P, heads, 1, 1)
    return scores.flatten(1).gather(1, head.unsqueeze(1)).squeeze(1);
  };
  const auto position = [&](const at::Tensor& token) {
    const at::Tensor& ids = program.positions.ids;
    if (!ids.defined()) return token + program.positions.shift;
    return ids.dim() == 2 ? ids.index({batch, token}) : ids.index({token});
  };
  const at::Tensor query_id = position(row + program.query_offset), key_id = position(column);
  ScoreParts parts;
  parts.content = of_head(content_scores(program, pairs(program.content_q(), program.content_k())));
  at::Tensor score;
  // Fire, and cape over it, read ids and content alone, so that each pair is a region.
  if (program.fire() != nullptr) {
    const Operands x = pairs(program.q, program.k);
    score = of_head(program.term()->score({in_table_dtype(products(x.q, x.k) * program.scale),
                                           query_id.view({-1, 1, 1}), key_id.view({-1, 1, 1})}));
  } else if (by_regions.term.defined()) {
    score = by_regions.term;
  } else {
    score = of_head(open_scores(program, pairs(program.q, program.k),
                                (query_id - key_id).view({-1, 1, 1}), heads));
  }
  if (const auto* clamp = program.as<ClampProgram>()) {
    const at::Tensor limits = far_limits(program, *clamp, heads).flatten().index_select(0, head);
    const Operands x = pairs(clamp->q, clamp->k);
    const at::Tensor far = of_head(products(x.q, x.k) * program.scale);
    score = at::where(query_id - key_id > limits, far, score);
  }
  if (const auto* table = program.as<QueryTableProgram>()) {
    const at::Tensor values = table->values.expand({program.q.size(0), -1, -1, -1})
                                  .index({batch, head, row})
                                  .unsqueeze(1)
                                  .unsqueeze(1);  // (P, 1, 1, L)
    const at::Tensor distance = (query_id - key_id).view({-1, 1, 1});
    score = in_table_dtype(score) + query_table_entries(values, distance).flatten();
  }
  if (const auto* relative = program.as<RelativeKeysProgram>()) {
    score = in_table_dtype(score);
    score = score + relative_scores_of_pairs(*relative, batch, head, row, query_id - key_id,
                                             score.scalar_type());
  }
  if (program.tokens.defined()) {
    score = with_token_terms_of_pairs(program, score, of);
  }
  score = capped(program, gained(program, score));
  if (by_regions.edited.defined()) score = by_regions.edited;
  if (spreads_padding(program)) score = score.masked_fill(lost_of_pairs(program, batch, row), 0.0);
  parts.score = score.masked_fill(hidden_of_pairs(program, batch, row, column),
                                  -std::numeric_limits<double>::infinity());
  parts.positional = parts.score - parts.content;
  return parts;
}

}  // namespace

ScoreParts plain_pair_scores(const AttentionProgram& program, const TokenPairs& pairs,
                             std::optional<at::ScalarType> computed_in) {
  if (pairs.size() == 0) return {};
  RegionScores by_regions;
  if (program.edit) {
    by_regions.edited = edited_pair_scores(program, pairs);
  } else if (program.is<TermProgram>()) {
    by_regions.term = term_pair_scores(program, pairs);
  }
  constexpr std::int64_t kStep = 4096;
  std::vector<at::Tensor> score, content, positional;
  for (std::int64_t begin = 0; begin < pairs.size(); begin += kStep) {
    const std::int64_t end = std::min(pairs.size(), begin + kStep);
    const ScoreParts parts = scores_of_pairs(program, pairs.there().slice(begin, end),
                                             by_regions.slice(begin, end), computed_in);
    score.push_back(parts.score);
    content.push_back(parts.content);
    positional.push_back(parts.positional);
  }
  return {at::cat(score), at::cat(content), at::cat(positional)};
}

namespace {

// Weights beside the sinks (H): those of one more column, whose value is 0.
void add_sinks(const at::Tensor& sinks, AttentionBlock& block) {
  const at::Tensor& scores = block.scores;
  const at::Tensor column = sinks.to(scores.scalar_type())
                                .view({1, -1, 1, 1})
                                .expand({scores.size(0), -1, scores.size(2), 1});
  const at::Tensor weights = at::softmax(at::cat({scores, column}, -1), -1);
  block.weights = weights.slice(-1, 0, scores.size(-1));
  block.sink_weight = weights.select(-1, -1);
}

}  // namespace

AttentionBlock plain_block(const AttentionProgram& program, const at::Tensor& v, Range rows) {
  const Range heads{0, program.q.size(1)};
  // Keys after the block's last row are masked for all of it.
  const bool cut = program.causal && !program.mask.defined() && !spreads_padding(program) &&
                   program.q.size(2) == program.k.size(2);
  const Range columns{0, cut ? rows.end : program.k.size(2)};
  AttentionBlock block;
  block.scores = plain_scores(program, heads, rows, columns);
  if (program.sinks.defined()) {
    add_sinks(program.sinks, block);
  } else {
    block.weights = at::softmax(block.scores, -1);
  }
  // A row that sees no key has no weights.
  if (program.mask.defined() || program.key_mask.defined()) {
    block.weights = block.weights.masked_fill(hidden_pairs(program, rows, columns), 0.0);
  }
  // Scores that met a table are float32, the values what the model has.
  const auto averaged = [&](const at::Tensor& values) {
    return at::matmul(block.weights.to(values.scalar_type()), rows_of(values, columns));
  };
  block.out = averaged(for_query_heads(v, heads.end, heads));
  if (const auto* tape = program.as<TapeProgram>()) {
    const at::Tensor& state = tape->state;
    block.state = averaged(state.expand({state.size(0), heads.end, -1, -1}));
  }
  return block;
}

namespace {

// (rows, columns) arrays of a block's scores and what is made of them: about eight a head, for
// cape's hidden layer far more.
std::int64_t block_arrays(const AttentionProgram& program) {
  const std::int64_t batch = program.q.size(0);
  const std::int64_t arrays = 8 * batch * program.q.size(1);
  if (const TermProgram* term = program.term()) return arrays + batch * term->arrays;
  // The products with the keys of all distances, up to twice as many as columns, and what the
  // scores take of them.
  if (program.is<RelativeKeysProgram>()) return arrays + 5 * batch * program.q.size(1);
  const auto* cape = program.as<CapeProgram>();
  if (cape == nullptr) return arrays;
  return arrays + batch * (4 * program.q.size(1) + 3 * cape->w1.size(0));
}

}  // namespace

std::int64_t plain_block_rows(const AttentionProgram& program) {
  constexpr std::int64_t kBudget = std::int64_t{24} << 20;  // elements
  const std::int64_t row = block_arrays(program) * program.k.size(2);
  const std::int64_t queries = program.q.size(2);
  // What autograd keeps of one block costs memory, and what it does not keep is computed again.
  constexpr std::int64_t kKept = std::int64_t{256} << 20;
  if (at::GradMode::is_enabled() && row * queries <= kKept) return queries;
  return std::clamp<std::int64_t>(kBudget / row, 1, queries);
}

AttentionResult plain_attention(const AttentionProgram& program, const at::Tensor& v,
                                const AttentionOptions& options) {
  const bool entropy = options.want_entropy, lse = options.want_lse || entropy;
  const RowFunction compute = [program, v, lse, entropy](std::int64_t begin, std::int64_t end) {
    const AttentionBlock block = plain_block(program, v, {begin, end});
    std::vector<at::Tensor> made = {block.out, block.state, {}, {}};
    if (lse) made[2] = at::logsumexp(block.scores, -1);
    if (entropy) made[3] = row_entropy(block.weights);
    return made;
  };
  const std::vector<at::Tensor> made =
      in_row_blocks(compute, program.q.size(2), plain_block_rows(program));
  AttentionResult result{made[0], made[1], made[2], made[3], {}, ran_plain(v)};
  if (!program.gate.defined()) return result;
  if (options.want_ungated) result.ungated = result.out;
  result.out = result.out * program.gate.to(result.out.scalar_type());
  return result;
}

at::Tensor row_entropy(const at::Tensor& weights) { return at::special_entr(weights).sum(-1); }

}  // namespace phasescope::model
