#include "model/checkpoints/conversions/rope_to_tape.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <memory>

#include "formats/error.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

constexpr std::uint64_t kSeed = 0;  // of the matrices that a fine-tuning starts from

ConversionPlan plan(CheckpointReader& reader, const ConvertOptions& options) {
  ModelConfig config = changed_config(reader, options);
  require_one_rotation(config, "tape");
  const FixedRotation rotation = fixed_rotation(config, "tape");
  if (2 * rotation.frequencies.size(0) != config.head_dim) {
    throw formats::bad_input("only a part of each head is rotated, and tape rotates all of it",
                             "model");
  }
  Changes changes;
  std::vector<std::string> notes;
  expand_heads(reader, config, rotation.magnitude, changes, notes);
  const Json rope = make_encoding(config)->options();
  config.encoding = {
      "tape",
      {{"base", rope.at("base")}, {"layout", rope.at("layout")}, {"shift", rope.at("shift")}}};
  const bool plain = rope.at("scaling") == "none";
  if (!plain) {
    const at::Tensor frequencies = rotation.frequencies;
    changes["model.encoding.inv_freq"] = {[frequencies] { return frequencies; }};
    notes.push_back("the frequencies of the scaling " + rope.at("scaling").get<std::string>() +
                    " are stored");
  }
  auto generator = std::make_shared<at::Generator>(at::make_generator<at::CPUGeneratorImpl>(kSeed));
  for (const TensorSpec& spec : tensor_specs(config, *make_encoding(config))) {
    const std::size_t at = spec.name.find(".encoding.");
    if (!spec.name.starts_with("model.layers.") || at == std::string::npos) continue;
    const bool zero = spec.init == ParameterSpec::Init::zeros;
    changes[spec.name] = {[shape = spec.shape, zero, std = config.init_std, generator] {
                            at::Tensor tensor = at::zeros(shape, at::kFloat);
                            return zero ? tensor : tensor.normal_(0, std, *generator);
                          },
                          at::kFloat};
  }
  ConversionPlan plan = canonical_plan(reader, options, std::move(config), std::move(changes));
  plan.notes = std::move(notes);
  plan.notes.emplace_back(
      "W1 and the post-attention linear are zero, so that the logits are those of RoPE; W2 and W_x "
      "are drawn at random, for fine-tuning");
  return plan;
}

}  // namespace

Conversion rope_to_tape_conversion() {
  return {"tape", "a RoPE model as TAPE with the same logits, for fine-tuning", &plan};
}

}  // namespace phasescope::model
