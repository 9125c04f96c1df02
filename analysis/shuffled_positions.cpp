#include "analysis/shuffled_positions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "analysis/random.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

at::Tensor ids_of(const model::Positions& positions) {
  if (positions.consecutive()) {
    return at::arange(positions.shift, positions.shift + positions.length,
                      positions.options(at::kLong));
  }
  return positions.ids.dim() == 2 ? positions.ids[0] : positions.ids;
}

model::LayerAttention at_positions(const model::Model& model,
                                   const model::LayerAttention& attention, const at::Tensor& ids) {
  const model::Encoding& encoding = model.decoder.encoding_of(attention.layer());
  model::StartContext context = start_context(model.decoder, attention.length(), at::kFloat);
  context.positions.kept = ids;
  context.positions.ids = ids.to(context.positions.device);
  context.positions.extent = model::extent_of(ids);
  model::PositionState state = encoding.start(context);
  encoding.before_layer(attention.layer(), state);
  const auto layer = static_cast<std::size_t>(attention.layer());
  model::AttentionProgram program = encoding.program(model.decoder.weights().layers[layer].encoding,
                                                     attention.q(), attention.k(), state);
  const model::AttentionProgram& from = attention.program();
  program.scale = from.scale, program.gain = from.gain, program.soft_cap = from.soft_cap;
  program.causal = false;
  return {attention.layer(),     program,        attention.v(), {}, {},
          model::Backend::plain, attention.ran()};
}

// A few scores of every head, near and far.
at::Tensor some_scores(const model::LayerAttention& attention) {
  const std::int64_t last = attention.length() - 1;
  const model::Region rows{attention.whole().heads, {last, last + 1}, {0, last + 1}};
  return attention.scores(rows).score.to(at::kDouble);
}

at::Tensor shuffled(const at::Tensor& ids, std::uint64_t seed) {
  const std::vector<std::int64_t> order = Random(seed).permutation(ids.size(0));
  return ids.index_select(0, at::tensor(order, at::kLong));
}

}  // namespace

std::optional<model::LayerAttention> with_positions_shuffled(const model::Model& model,
                                                             const model::LayerAttention& attention,
                                                             std::uint64_t seed) {
  const at::NoGradGuard no_gradients;
  const at::Tensor ids = model::on_host(ids_of(attention.program().positions));
  const at::Tensor own = some_scores(attention);
  const at::Tensor again = some_scores(at_positions(model, attention, ids));
  const at::Tensor seen = own.isfinite();  // a window hides the others
  if (!seen.any().item<bool>()) return std::nullopt;
  // Two ways of rounding a float32 score, or a float64 one.
  const at::Tensor size = own.masked_select(seen).abs().max();
  const at::Tensor off = (own - again).masked_select(seen).abs().max();
  if (!(off.item<double>() <= 1e-4 * size.item<double>())) return std::nullopt;
  return at_positions(model, attention, shuffled(ids, seed));
}

}  // namespace phasescope::analysis
