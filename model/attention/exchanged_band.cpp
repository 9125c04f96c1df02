#include "model/attention/exchanged_band.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/attention/attention.h"
#include "model/attention/repairs.h"

namespace phasescope::model {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// A program of the first tokens alone.
AttentionProgram of_first_tokens(AttentionProgram program, std::int64_t tokens) {
  for (at::Tensor* x : {&program.q, &program.k, &program.q_plain, &program.k_plain}) {
    *x = x->slice(2, 0, tokens);
  }
  program.positions.length = tokens;
  return program;
}

bool has_other_terms(const AttentionProgram& program) {
  return program.sinks.defined() || program.gate.defined() || program.key_mask.defined() ||
         program.documents.defined() || program.mask.defined() || program.tokens.defined() ||
         program.distance_bias.defined() || program.edit;
}

bool can_be_taken_apart(const AttentionProgram& program) {
  AttentionProgram trial = program;
  if (has_other_terms(program) || !program.causal || program.window > 0 ||
      program.query_offset != 0 || program.q.size(0) != 1) {
    return false;
  }
  add_by_distance(trial, at::zeros({program.q.size(1), 1}, at::kDouble));
  return !trial.edit && fused_obstacle(trial, program.k_plain).empty();
}

}  // namespace

ExchangedBand::ExchangedBand(std::int64_t low, std::int64_t high, PairsOfRows pairs,
                             ExchangePlace place)
    : low_(low), high_(high), pairs_(std::move(pairs)), place_(place) {}

void ExchangedBand::before(const LayerInput& input, AttentionProgram& program) {
  input_.reset();
  if (place_.layer >= 0 && place_.layer != input.layer) return;
  if (program.is<PlainProgram>() && !program.transformed) return;  // it reads no distance
  if (program.q.size(2) <= low_ + 1 || high_ - low_ < 2) return;
  input_ = input, given_ = program;
  at::Tensor bias = at::zeros({program.q.size(1), program.positions.length},
                              program.q.options().dtype(at::kDouble));
  at::Tensor heads = place_.head < 0 ? bias : bias.slice(0, place_.head, place_.head + 1);
  heads.slice(1, low_, high_).fill_(kHidden);
  add_by_distance(program, bias);
}

void ExchangedBand::after(std::int64_t, const AttentionProgram&, const at::Tensor& v,
                          AttentionResult& result) {
  if (!input_) return;
  const std::int64_t rows = given_.q.size(2), heads = given_.q.size(1);
  const std::int64_t step = rows_of_exchange(heads, high_ - low_);
  for (std::int64_t first = low_ + 1; first < rows; first += step) {
    join(v, first, std::min(step, rows - first), result);
  }
  keep_rows_before(v, result);
  input_.reset(), given_ = {};
}

// Rows [first, first + count): the band's weights beside those that the kernel has summed.
void ExchangedBand::join(const at::Tensor& v, std::int64_t first, std::int64_t count,
                         AttentionResult& result) const {
  const MovedPairs pairs = pairs_(first, count);
  // The keys that some of these rows have in the band.
  const std::int64_t from = std::max<std::int64_t>(0, first - high_ + 1);
  const std::int64_t keys = first + count - low_ - from;
  const at::Tensor moved = moved_scores(*input_, given_, pairs);  // (H, P)
  at::Tensor scores = at::full({moved.size(0), count * keys}, kHidden, moved.options());
  scores.index_copy_(1, (pairs.row - first) * keys + (pairs.column - from), moved);
  scores = scores.view({1, moved.size(0), count, keys});
  const auto rows_of = [&](const at::Tensor& x) { return x.slice(2, first, first + count); };
  const at::Tensor rest = rows_of(result.lse).to(scores.scalar_type());
  const at::Tensor total = at::logaddexp(rest, at::logsumexp(scores, -1));
  const at::Tensor weights = (scores - total.unsqueeze(-1)).exp_();
  const std::int64_t group = moved.size(0) / v.size(1);
  const at::Tensor values =
      v.slice(2, from, from + keys).to(scores.scalar_type()).repeat_interleave(group, 1);
  const at::Tensor others =
      rows_of(result.out).to(scores.scalar_type()) * (rest - total).exp().unsqueeze(-1);
  const at::Tensor out = others + at::matmul(weights, values);
  const auto put = [&](std::int64_t begin, std::int64_t end) {
    rows_of(result.out).slice(1, begin, end).copy_(out.slice(1, begin, end));
    rows_of(result.lse).slice(1, begin, end).copy_(total.slice(1, begin, end));
  };
  put(place_.head < 0 ? 0 : place_.head, place_.head < 0 ? moved.size(0) : place_.head + 1);
}

void ExchangedBand::keep_rows_before(const at::Tensor& v, AttentionResult& result) const {
  const std::int64_t rows = low_ + 1;
  const AttentionResult own =
      attention(of_first_tokens(given_, rows), v.slice(2, 0, rows), {.want_lse = true});
  result.out.slice(2, 0, rows).copy_(own.out);
  result.lse.slice(2, 0, rows).copy_(own.lse);
}

std::int64_t rows_of_exchange(std::int64_t heads, std::int64_t width) {
  // A block of r rows has r + width keys. Of a narrow band more rows would have hidden pairs alone.
  const double scores = static_cast<double>(kExchangedScores / heads);
  const auto wide = static_cast<double>(width);
  const double most = (std::sqrt(wide * wide + 4 * scores) - wide) / 2;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(most), 1,
                                  std::max<std::int64_t>(width, 64));
}

bool exchanges_stay_fused(const Decoder& decoder, std::int64_t tokens) {
  return all_programs(decoder, tokens, [](const LayerInput&, AttentionProgram& program) {
    return can_be_taken_apart(program);
  });
}

}  // namespace phasescope::model
