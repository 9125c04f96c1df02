#pragma once

#include <memory>

#include "formats/tokenizer.h"

namespace phasescope::formats {

// The tokenizer of a GGUF file's keys (tokenizer.ggml.*): "llama" is SentencePiece's BPE with
// scores, "gpt2" a byte-level BPE with merges, whose cutting of texts tokenizer.ggml.pre names.
// Null where the keys hold no tokens. Throws Error "bad_input" for a kind, a way of cutting or a
// list that cannot be carried out exactly; `where` names the file.
std::unique_ptr<Tokenizer> make_gguf_tokenizer(const Json& keys, const std::string& where,
                                               std::optional<std::int64_t> embedding_rows = {});

}  // namespace phasescope::formats
