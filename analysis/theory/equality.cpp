#include "analysis/theory/equality.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/model_sides.h"
#include "analysis/random.h"
#include "analysis/shift.h"
#include "analysis/worst.h"
#include "formats/error.h"
#include "model/host_memory.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {

namespace {

std::shared_ptr<const model::Model> with_weights(const model::Model& model,
                                                 model::Weights weights) {
  return std::make_shared<const model::Model>(model::Model{
      model.report, model.tokenizer,
      model::Decoder(model.config(), model.decoder.shared_encoding(), std::move(weights))});
}

// The terms of a norm, and of the product that reads it.
std::int64_t norm_and_product_terms(const model::ModelConfig& config) { return 2 * config.width; }

// Terms of the sums of one layer, one after another: queries and keys, scores, averages, their
// projection, the MLP, and what the encoding's own matrices add to it.
std::int64_t layer_terms(const model::Decoder& decoder, std::int64_t tokens) {
  const model::ModelConfig& config = decoder.config();
  std::int64_t terms = 2 * norm_and_product_terms(config) + config.head_dim + tokens +
                       config.heads * config.head_dim + config.ffn_width;
  const auto layer = static_cast<std::size_t>(first_layer_with_maps(config));
  for (const auto& [name, matrix] : decoder.weights().layers.at(layer).encoding) {
    if (matrix.dim() >= 2) terms += matrix.size(-1);
  }
  return terms;
}

// The units of every MLP and expert, whose sum is what it gives; a layer of experts alone has no
// MLP.
template <class Visitor>
void visit_units(model::Weights& weights, const Visitor& visitor) {
  const auto visit = [&visitor](auto& units) {
    if (units.up.defined()) visitor(units);
  };
  for (model::LayerWeights& layer : weights.layers) {
    visit(layer);
    for (model::ExpertWeights& expert : layer.experts) visit(expert);
    for (model::ExpertWeights& expert : layer.shared_experts) visit(expert);
    visit(layer.shared_expert);
  }
}

template <class Units>
void reorder_units(Units& units, const at::Tensor& order) {
  for (at::Tensor* rows : {&units.gate, &units.up, &units.gate_bias, &units.up_bias}) {
    if (rows->defined()) *rows = rows->index_select(0, order);
  }
  units.down = units.down.index_select(1, order);
}

}  // namespace

std::shared_ptr<const model::Model> in_float64(const std::shared_ptr<const model::Model>& model) {
  return with_weights(*model, model::converted(model->decoder.weights(), at::kDouble));
}

double Residuals::largest() const { return worst_of(worst_of(logits, attention), products); }

Residuals residuals_of(TextPass& run, TextPass& other) {
  const RunDifference difference = run_difference(run, other, 0);
  Residuals out;
  out.logits = run.model().config().head.present ? difference.logits : difference.hidden;
  for (const double x : difference.attention_largest) out.attention = worst_of(out.attention, x);
  for (const Interval& of : difference.position) out.products = worst_of(out.products, of.mean);
  return out;
}

at::Tensor outputs_of(const model::Decoder& decoder, const at::Tensor& ids,
                      const model::ForwardOptions& options) {
  return model::on_host(decoder.config().head.present ? decoder.forward(ids, options)
                                                      : decoder.hidden(ids, options));
}

const char* name_of_outputs(const model::Decoder& decoder) {
  return decoder.config().head.present ? "logits" : "hidden states";
}

std::vector<std::int64_t> another_order(Random& random, std::int64_t tokens) {
  std::vector<std::int64_t> order = random.permutation(tokens);
  while (std::ranges::is_sorted(order)) order = random.permutation(tokens);
  return order;
}

bool is_import(const model::Model& model) { return model.encoding().info().key == "imported"; }

Residuals larger_of(const Residuals& a, const Residuals& b) {
  return {worst_of(a.logits, b.logits), worst_of(a.attention, b.attention),
          worst_of(a.products, b.products)};
}

std::shared_ptr<const model::Model> reordered(const std::shared_ptr<const model::Model>& model,
                                              std::uint64_t seed) {
  const at::NoGradGuard no_gradients;
  Random random(seed);
  model::Weights weights = model->decoder.weights();
  std::vector<std::int64_t> orders, sizes;
  visit_units(weights, [&](const auto& units) {
    const auto order = random.permutation(units.up.size(0));
    orders.insert(orders.end(), order.begin(), order.end());
    sizes.push_back(units.up.size(0));
  });
  // A device gets all of them at once.
  const std::vector<at::Tensor> there =
      at::tensor(orders, at::kLong).to(model->decoder.device()).split_with_sizes(sizes);
  std::size_t next = 0;
  visit_units(weights, [&](auto& units) { reorder_units(units, there[next++]); });
  return with_weights(*model, std::move(weights));
}

double rounding_floor(const model::Decoder& decoder, std::int64_t tokens, at::ScalarType dtype) {
  const model::ModelConfig& config = decoder.config();
  const double unit = dtype == at::kDouble ? 0x1p-53 : 0x1p-24;
  return unit * std::sqrt(static_cast<double>(config.layers * layer_terms(decoder, tokens) +
                                              norm_and_product_terms(config)));
}

Residuals rounding_noise(const CheckContext& context, const at::Tensor& ids) {
  const model::ForwardOptions plain = plain_options(context);
  TextPass base(context.model, ids, plain);
  const double least = rounding_floor(context.model->decoder, ids.size(1), at::kFloat);
  Residuals noise{least, least, least};
  for (std::uint64_t order = 0; order < 3; ++order) {
    TextPass other(reordered(context.model, context.seed + order), ids,
                   order == 0 ? asked_options(context) : plain);
    noise = larger_of(noise, residuals_of(base, other));
  }
  return noise;
}

model::ForwardOptions asked_options(const CheckContext& context) {
  model::ForwardOptions options;
  options.backend = context.backend;
  options.kernels = context.kernels;
  return options;
}

model::ForwardOptions plain_options(const CheckContext& context) {
  model::ForwardOptions options = asked_options(context);
  options.backend = model::Backend::plain;
  return options;
}

model::ForwardOptions plain_run() {
  model::ForwardOptions options;
  options.backend = model::Backend::plain;
  return options;
}

LayerHead shown_head(const CheckContext& context) {
  const model::ModelConfig& config = context.model->config();
  const HeadGrid grid(config);
  const LayerHead named{context.layer, context.head};
  if (grid.has(named)) return named;
  if (named == LayerHead{} && !grid.present().empty()) return grid.present().front();
  const std::string missing = missing_heads(config);
  throw formats::bad_usage(
      "there is no head " + std::to_string(named.head) + " of layer " + std::to_string(named.layer),
      "head",
      "the model has " + std::to_string(config.layers) + " layers of " +
          std::to_string(config.heads) + " heads" + (missing.empty() ? "" : "; " + missing));
}

std::string name_of(const LayerHead& head) { return protocol::name_of_head(head.layer, head.head); }

at::Tensor first_ids(const CheckContext& context, std::int64_t limit) {
  const std::vector<std::int64_t>& ids = context.texts->items.at(0).ids;
  const auto count = std::min<std::size_t>(ids.size(), static_cast<std::size_t>(limit));
  return ids_tensor(std::span(ids).first(count));
}

}  // namespace phasescope::analysis
