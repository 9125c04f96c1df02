#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/checkpoints/open_model.h"
#include "model/config.h"

namespace phasescope::model {

// The configuration of a model whose weights are not needed, for sizes and costs. Takes whatever
// open_model opens (names and shapes of the tensors that are there are checked, no weights are
// read), a folder that holds config.json and no weights, that file by itself, or a run
// configuration, whichever of its sections it has. Of a configuration alone, the tensors are those
// it speaks of; whether there is a head says `architectures`. Throws Error "bad_input".
ModelConfig config_without_weights(const std::string& path_or_name,
                                   const std::function<bool()>& cancelled = {});

// The tokenizer of a model whose weights are not needed: of whatever files open_model opens. Null
// where it has none, or none that can be read. Throws Error "bad_input".
std::shared_ptr<const formats::Tokenizer> tokenizer_without_weights(
    const std::string& path_or_name);

// A configuration by itself, and what can be said of it without its weights: of the report all but
// sizes, tensors, hash and tokenizer.
struct ConfigAlone {
  ModelConfig config;
  LoadReport report;
};
// The configuration in a .json file of settings; nothing for another path or name. Throws Error
// "bad_input".
std::optional<ConfigAlone> config_alone(const std::string& path_or_name);

}  // namespace phasescope::model
