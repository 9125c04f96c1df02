#include "analysis/shuffled_positions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "analysis/random.h"

namespace phasescope::analysis {
namespace {

// The position ids of a text's tokens, (N) int64, where the model is and on the host.
struct TokenIds {
  at::Tensor there, here;
};

TokenIds ids_of(const model::Positions& positions) {
  if (positions.consecutive()) {
    const auto ids_on = [&positions](const at::Device& device) {
      return at::arange(positions.shift, positions.shift + positions.length,
                        at::TensorOptions(at::kLong).device(device));
    };
    return {ids_on(positions.device), ids_on(at::kCPU)};
  }
  const auto of_first = [](const at::Tensor& ids) { return ids.dim() == 2 ? ids[0] : ids; };
  return {of_first(positions.ids), of_first(positions.ids_on_host())};
}

TokenIds in_order(const TokenIds& ids, const TokenOrder& order) {
  return {ids.there.index_select(0, order.there), ids.here.index_select(0, order.here)};
}

model::LayerAttention at_ids(const model::Model& model, const model::LayerAttention& attention,
                             const TokenIds& ids) {
  const model::Encoding& encoding = model.decoder.encoding_of(attention.layer());
  model::StartContext context = start_context(model.decoder, attention.length(), at::kFloat);
  context.positions.kept = ids.here;
  context.positions.ids = ids.there;
  context.positions.extent = model::extent_of(ids.here);
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

}  // namespace

TokenOrder shuffled_order(std::int64_t tokens, std::uint64_t seed, const at::Device& device) {
  const at::Tensor order = at::tensor(Random(seed).permutation(tokens), at::kLong);
  return {order, order.to(device)};
}

std::optional<model::LayerAttention> with_positions_shuffled(const model::Model& model,
                                                             const model::LayerAttention& attention,
                                                             const TokenOrder& order) {
  const at::NoGradGuard no_gradients;
  const TokenIds ids = ids_of(attention.program().positions);
  const at::Tensor own = some_scores(attention);
  const at::Tensor again = some_scores(at_ids(model, attention, ids));
  const at::Tensor seen = own.isfinite();  // a window hides the others
  if (!seen.any().item<bool>()) return std::nullopt;
  // Two ways of rounding a float32 score, or a float64 one.
  const at::Tensor size = own.masked_select(seen).abs().max();
  const at::Tensor off = (own - again).masked_select(seen).abs().max();
  if (!(off.item<double>() <= 1e-4 * size.item<double>())) return std::nullopt;
  return at_ids(model, attention, in_order(ids, order));
}

}  // namespace phasescope::analysis
