#pragma once

#include "formats/hf_config.h"
#include "model/families/family.h"

namespace phasescope::model {

// Llama as transformers 4 and 5 and the hub have it: rope in the half layout.
Family llama_family();

// The parts other families share with it: sizes and switches of config.json, and tensor names with
// or without "model." in front.
void read_llama_sizes(const formats::ConfigReader& reader, ModelConfig& config);
TensorPlace llama_place(const std::string& name);

}  // namespace phasescope::model
