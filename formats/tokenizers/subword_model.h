#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizers/json_fields.h"
#include "formats/tokenizers/vocabulary.h"

namespace phasescope::formats {

// A token of a piece of text: its id and the piece's bytes that it stands for.
struct PieceToken {
  std::int64_t id;
  std::size_t begin, end;
};

// Turns one piece of text into tokens of its vocabulary.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  virtual std::string name() const = 0;
  // Appends the tokens. The piece is valid UTF-8 and not empty. Throws Error "bad_input" where a
  // piece cannot be written and there is no unknown token.
  virtual void tokenize(std::string_view piece, std::vector<PieceToken>& tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // Whether tokens like "<0x0A>" stand for bytes.
  virtual bool has_byte_tokens() const { return false; }
};

// From tokenizer.json's `model`; by its "type".
std::unique_ptr<SubwordModel> make_subword_model(const JsonFields& fields);

// A token "<0x0A>" for every byte of `text`, which stands at [begin, end) of the piece; false, and
// nothing is appended, where one of them is not in the vocabulary.
bool append_byte_tokens(const Vocabulary& vocabulary, std::string_view text, std::size_t begin,
                        std::size_t end, std::vector<PieceToken>& tokens);
// The byte of "<0x0A>"; -1 for what is no such token.
int byte_of_token(std::string_view token);

// The makers of the types; make_subword_model lists them.
std::unique_ptr<SubwordModel> make_bpe(const JsonFields& fields);
std::unique_ptr<SubwordModel> make_word_piece(const JsonFields& fields);
std::unique_ptr<SubwordModel> make_unigram(const JsonFields& fields);
std::unique_ptr<SubwordModel> make_word_level(const JsonFields& fields);

}  // namespace phasescope::formats
