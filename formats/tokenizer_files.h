#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "formats/tokenizer.h"

namespace phasescope::formats {

// The tokenizer's file of a folder, or of the folder that a model's file is in: tokenizer.json,
// tokenizer.model, spiece.model or sentencepiece.bpe.model. A path to such a file is taken as it
// is.
std::optional<std::filesystem::path> find_tokenizer_file(const std::filesystem::path& path);

// Opens one. Of a .model, tokenizer_config.json beside it says which template tokens are added
// (add_bos_token, add_eos_token). Throws Error "bad_input" that names file and key or byte.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& file,
                                          std::optional<std::int64_t> embedding_rows = {});

}  // namespace phasescope::formats
