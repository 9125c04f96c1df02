#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "formats/tokenizer.h"
#include "formats/tokenizers/sentence_piece_file.h"

namespace phasescope::formats {

// Which of a SentencePiece model's own tokens are put around a text.
struct SentencePieceTemplate {
  bool bos = false, eos = false;
};

// A SentencePiece model (.model): Unigram or BPE, with the ids and texts of libsentencepiece 0.2.3.
//
// The library itself is not linked: it brings a protobuf whose symbols clash with LibTorch's in one
// process, aborts on damaged models, and is there as a shared library only. A model's file is a
// handful of protobuf fields; what is done with them follows the library's sources.
//
// Without `wanted` a text gets BOS where the model has one, else EOS where it has one (so do
// Llama's and T5's). `where` names the file. Throws Error "bad_input"; encode too, with the byte
// offset, for texts that are not UTF-8.
std::unique_ptr<Tokenizer> make_sentence_piece(std::string_view bytes, const std::string& where,
                                               std::optional<std::int64_t> embedding_rows = {},
                                               std::optional<SentencePieceTemplate> wanted = {});
// Makes the tokenizer of a model that was read from elsewhere.
std::unique_ptr<Tokenizer> make_sentence_piece(SentencePieceFile file, const std::string& where,
                                               std::optional<std::int64_t> embedding_rows,
                                               std::optional<SentencePieceTemplate> wanted);

}  // namespace phasescope::formats
