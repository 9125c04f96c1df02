#include "model/checkpoints/conversions/rope_to_ape.h"

#include <ATen/ATen.h>

#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

// A (H, d, d) with exp(A - A^T) = the rotation by one token.
at::Tensor generator_of(const FixedRotation& rotation, std::int64_t heads, std::int64_t dim) {
  const std::int64_t planes = rotation.frequencies.size(0);
  const at::Tensor plane = at::arange(planes, at::kLong);
  const at::Tensor first = rotation.interleaved ? 2 * plane : plane;
  const at::Tensor second = rotation.interleaved ? 2 * plane + 1 : plane + planes;
  const at::Tensor half = rotation.frequencies / 2;
  at::Tensor generator = at::zeros({dim, dim}, at::kDouble);
  generator.index_put_({second, first}, half);
  generator.index_put_({first, second}, -half);
  return generator.expand({heads, dim, dim});
}

ConversionPlan plan(CheckpointReader& reader, const ConvertOptions& options) {
  ModelConfig config = changed_config(reader, options);
  require_one_rotation(config, "ape");
  const FixedRotation rotation = fixed_rotation(config, "ape");
  Changes changes;
  std::vector<std::string> notes;
  expand_heads(reader, config, rotation.magnitude, changes, notes);
  config.encoding = {"ape_sequence",
                     {{"base", make_encoding(config)->options().at("base")}, {"decay", 1.0}}};
  changes["model.encoding.generator"] = {[rotation, heads = config.heads, dim = config.head_dim] {
    return generator_of(rotation, heads, dim);
  }};
  ConversionPlan plan = canonical_plan(reader, options, std::move(config), std::move(changes));
  plan.notes = std::move(notes);
  plan.notes.emplace_back(
      "the generator of every head is the logarithm of RoPE's rotation by one token; no decay");
  return plan;
}

}  // namespace

Conversion rope_to_ape_conversion() {
  return {"ape", "a RoPE model as APE on sequences with the same logits", &plan};
}

}  // namespace phasescope::model
