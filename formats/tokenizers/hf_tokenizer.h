#pragma once

#include <memory>
#include <string>

#include "formats/tokenizer.h"

namespace phasescope::formats {

// A Hugging Face tokenizer.json: normaliser, pre-tokenizer, model, template and decoder as the file
// names them, with the ids, pieces and texts of the reference (tokenizers 0.23). Its `truncation`
// and `padding` are left out, as transformers does. `where` names the file.
//
// encode throws Error "bad_input" with the byte offset for texts that are not UTF-8, as nothing
// after it could be compared with the reference. Throws Error "bad_input" that names the key where
// the file is not one that can be carried out exactly.
std::unique_ptr<Tokenizer> make_hf_tokenizer(const Json& file, const std::string& where,
                                             std::optional<std::int64_t> embedding_rows = {});

// Throws Error "bad_input" with the byte offset for what is not UTF-8, and for texts of 4 GiB.
void check_text(std::string_view text);

}  // namespace phasescope::formats
