#pragma once

#include <cstdint>
#include <optional>

#include "formats/hf_config.h"
#include "model/families/family.h"
#include "model/families/family_reader.h"

namespace phasescope::model {

// Llama as transformers 4 and 5 and the hub have it: rope in the half layout.
Family llama_family();

// What a family's class has where a file leaves it out, by transformers 5.23. At the top of a file
// transformers writes the first five always, inside "text_config" it leaves out what is the
// default; none: a file must have it.
struct LlamaDefaults {
  std::optional<std::int64_t> vocab_size = {}, width = {}, layers = {}, heads = {}, ffn_width = {};
  std::optional<std::int64_t> kv_heads = {};  // none: as many as heads; so says null
  std::optional<std::int64_t> head_dim = {};  // none: the width over the heads
  std::int64_t context = 2048;
};

// The parts other families share with it: sizes and switches of config.json, and tensor names with
// or without "model." in front.
void read_llama_sizes(const formats::ConfigReader& reader, ModelConfig& config,
                      const LlamaDefaults& defaults = {});
TensorPlace llama_place(const std::string& name);
// Sizes, activation and the norms' eps, whose class default is `eps`.
void read_llama_part(FamilyReader& reading, const LlamaDefaults& defaults, double eps);

}  // namespace phasescope::model
