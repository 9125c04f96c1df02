#include "analysis/divergence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace phasescope::analysis {
namespace {

// -sum x ln x over the last axis.
at::Tensor entropy_rows(const at::Tensor& x) { return -at::xlogy(x, x).sum(-1); }

// Rows of a block so that the blocks of all heads stay near 32 MB.
std::int64_t rows_per_block(std::int64_t heads, std::int64_t columns) {
  return std::clamp<std::int64_t>((std::int64_t{8} << 20) / (heads * columns), 1, 512);
}

bool has_sinks(const model::LayerAttention& attention) {
  return attention.program().sinks.defined();
}
bool has_sinks(const std::vector<AttentionPointer>& layers) {
  return std::ranges::any_of(layers, [](const auto& layer) { return has_sinks(*layer); });
}

// (heads, rows, columns): the columns that the rows may see. With `beside_sinks` the last one is
// the heads' sinks, a key like any other, 0 of heads that have none.
at::Tensor block_of(const model::LayerAttention& attention, std::int64_t heads, std::int64_t begin,
                    std::int64_t end, bool beside_sinks) {
  const std::int64_t columns = attention.program().causal ? end : attention.keys();
  const at::Tensor weights = attention.weights({{0, heads}, {begin, end}, {0, columns}})[0];
  if (!beside_sinks) return weights;
  const at::Tensor sinks = attention.sink_weights();
  const at::Tensor own = sinks.defined() ? sinks[0].slice(0, 0, heads).slice(1, begin, end)
                                         : at::zeros_like(weights.select(-1, 0));
  return at::cat({weights, own.to(weights.scalar_type()).unsqueeze(-1)}, -1);
}

void tell(protocol::Progress* progress, std::int64_t row, std::int64_t rows) {
  if (progress == nullptr) return;
  progress->throw_if_cancelled();
  progress->progress(static_cast<double>(row) / static_cast<double>(rows), "comparing rows");
}

std::int64_t heads_in(const std::vector<AttentionPointer>& layers) {
  std::int64_t heads = 0;
  for (const AttentionPointer& layer : layers) heads += layer->heads();
  return heads;
}

// The same of all layers, (heads, rows, columns).
at::Tensor block_of_all(const std::vector<AttentionPointer>& layers, std::int64_t begin,
                        std::int64_t end, bool beside_sinks) {
  std::vector<at::Tensor> blocks;
  for (const AttentionPointer& layer : layers) {
    blocks.push_back(block_of(*layer, layer->heads(), begin, end, beside_sinks));
  }
  return at::cat(blocks);
}

// Sum over a block's rows of the divergence of one head `p` from each of `all`, with the entropies
// of their rows.
at::Tensor block_divergence(const at::Tensor& all, const at::Tensor& entropies, const at::Tensor& p,
                            const at::Tensor& entropy) {
  const at::Tensor mixed = entropy_rows((all + p) / 2);
  const at::Tensor rows = (mixed - (entropies + entropy) / 2).clamp_min(0);
  return rows.sum(-1, false, at::kDouble);
}

}  // namespace

at::Tensor divergence_of(const model::LayerAttention& a, const model::LayerAttention& b,
                         protocol::Progress* progress) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = a.length(), heads = std::min(a.heads(), b.heads());
  const std::int64_t step = rows_per_block(heads, tokens);
  const bool sinks = has_sinks(a) || has_sinks(b);
  // Made before the blocks: what is kept between two of them would hold freed memory apart, so that
  // none had room for the next block, which is a little larger.
  const at::Tensor divergence = at::empty({heads, tokens}, at::kDouble);
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    tell(progress, begin, tokens);
    const std::int64_t end = std::min(begin + step, tokens);
    const at::Tensor p = block_of(a, heads, begin, end, sinks);
    const at::Tensor q = block_of(b, heads, begin, end, sinks);
    const at::Tensor mixed = entropy_rows((p + q) / 2);
    const at::Tensor rows = mixed - (entropy_rows(p) + entropy_rows(q)) / 2;
    divergence.narrow(1, begin, end - begin).copy_(rows.clamp_min(0));
  }
  return divergence;
}

at::Tensor divergence_within(TextPass& pass, Stack stack, protocol::Progress* progress) {
  const at::NoGradGuard no_gradients;
  std::vector<AttentionPointer> layers;
  pass.visit_layers_with_maps(
      [&layers](const AttentionPointer& attention) { layers.push_back(attention); }, nullptr,
      stack);
  const std::int64_t tokens = pass.tokens(stack);
  const std::int64_t count = heads_in(layers), step = rows_per_block(count, tokens);
  const bool sinks = has_sinks(layers);
  at::Tensor sum = at::zeros({count, count}, at::kDouble);
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    tell(progress, begin, tokens);
    const at::Tensor p = block_of_all(layers, begin, std::min(begin + step, tokens), sinks);
    const at::Tensor own = entropy_rows(p);
    // Every two heads are compared once.
    for (std::int64_t h = 1; h < count; ++h) {
      sum[h].slice(0, 0, h) += block_divergence(p.slice(0, 0, h), own.slice(0, 0, h), p[h], own[h]);
    }
  }
  return (sum + sum.t()) / static_cast<double>(tokens);
}

at::Tensor divergence_between(const std::vector<AttentionPointer>& a,
                              const std::vector<AttentionPointer>& b,
                              protocol::Progress* progress) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = a[0]->length(), rows = heads_in(a), columns = heads_in(b);
  const std::int64_t step = rows_per_block(rows + columns, tokens);
  const bool sinks = has_sinks(a) || has_sinks(b);
  at::Tensor sum = at::zeros({rows, columns}, at::kDouble);
  for (std::int64_t begin = 0; begin < tokens; begin += step) {
    tell(progress, begin, tokens);
    const std::int64_t end = std::min(begin + step, tokens);
    const at::Tensor p = block_of_all(a, begin, end, sinks);
    const at::Tensor q = block_of_all(b, begin, end, sinks);
    const at::Tensor own_p = entropy_rows(p), own_q = entropy_rows(q);
    for (std::int64_t h = 0; h < rows; ++h) sum[h] += block_divergence(q, own_q, p[h], own_p[h]);
  }
  return sum / static_cast<double>(tokens);
}

}  // namespace phasescope::analysis
