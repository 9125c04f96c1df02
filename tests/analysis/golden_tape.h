#pragma once
// Models for the tests of analysis/: the reference's TAPE layers as a decoder, small random models.
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "analysis/texts.h"
#include "formats/json.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::analysis::testing {

using ModelPointer = std::shared_ptr<const model::Model>;

// tests/data/theory/NAME as JSON; one tensor of tests/data/theory/tape_layers.safetensors.
formats::Json golden_json(const std::string& name);
at::Tensor golden_tensor(const std::string& file, const std::string& name);

// The reference's three TAPE layers (float64) as a decoder: token n's embedding is row n of its x,
// norms are 1, the head is the embedding. `linear`: "mix" or "rowsum". Ids 0..N-1 read the
// reference's input.
ModelPointer golden_tape(const std::string& linear);
at::Tensor golden_ids();

// A model around other weights or another encoding.
ModelPointer model_with(const ModelPointer& like, std::shared_ptr<const model::Encoding> encoding);

// Two layers of two heads of 8, vocabulary 32, no tokenizer.
model::ModelConfig small_config(const std::string& encoding);
ModelPointer small_model(const std::string& encoding, std::uint64_t seed = 1);
// A TAPE model in which every update is there (public checkpoints start with zeros).
ModelPointer updated_tape();
// The same model without its head.
ModelPointer without_head(const ModelPointer& model);

}  // namespace phasescope::analysis::testing
