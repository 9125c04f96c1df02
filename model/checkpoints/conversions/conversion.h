#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/tensors/safetensors_writer.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/convert.h"

// What a conversion is, and the list of them. To add one: a file pair, a line in conversions.cpp,
// one in CMakeLists.txt, a test.

namespace phasescope::model {

struct ConversionPlan {
  std::vector<formats::TensorSource> tensors;
  Json config;                     // null: the checkpoint's own, unchanged
  std::vector<std::string> notes;  // what is done, and what to know
};

struct Conversion {
  const char* key;
  const char* help;
  // The reader outlives the plan. Throws Error "bad_input" for a model that it cannot be done to.
  ConversionPlan (*plan)(CheckpointReader& reader, const ConvertOptions& options);
  // In its place where the weights are not read: of the configuration with its overrides.
  ConversionPlan (*plan_of_sizes)(const ModelConfig& config,
                                  const ConvertOptions& options) = nullptr;
};

const std::vector<Conversion>& conversions();

// ---- What conversions share --------------------------------------------------------------------

// The reader's configuration with the overrides.
ModelConfig changed_config(const CheckpointReader& reader, const ConvertOptions& options);

// A tensor that differs from the checkpoint's of that canonical name, or is not in it; computed
// when it is written.
struct Change {
  std::function<at::Tensor()> make;
  at::ScalarType dtype = at::kDouble;
};
using Changes = std::map<std::string, Change>;

// A plan that writes our own form: every tensor of `config`, the changes in place of the
// checkpoint's.
ConversionPlan canonical_plan(CheckpointReader& reader, const ConvertOptions& options,
                              ModelConfig config, Changes changes);

// Throws Error "bad_input" that says what of a model other than its rotation stands in the way of
// `form`: an encoder, local layers with an encoding of their own.
void require_one_rotation(const ModelConfig& config, const std::string& form);

// Radians a token of each plane and the channels of the planes, of an encoding that rotates every
// token by fixed angles.
struct FixedRotation {
  at::Tensor frequencies;  // (planes) float64
  double magnitude = 1;    // of both q and k
  bool interleaved = false;
};
// The rotation of a model with the encoding `rope`. Throws Error "bad_input" for any other and for
// rotations that depend on the text's length, are stored, or turn values too.
FixedRotation fixed_rotation(const ModelConfig& config, const std::string& form);

// Gives every query head a key head and a value head of its own, where several share one, and
// multiplies q and k: in their projections, or behind those in their norms. Throws Error
// "bad_input" where a norm over all key heads would see the copies, or a clip the factor.
void expand_heads(CheckpointReader& reader, ModelConfig& config, double magnitude, Changes& changes,
                  std::vector<std::string>& notes);

}  // namespace phasescope::model
