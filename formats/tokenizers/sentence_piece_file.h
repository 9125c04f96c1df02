#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::formats {

// What a SentencePiece .model file says. Names and numbers: sentencepiece_model.proto.
struct SentencePieceFile {
  enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  enum class Model { unigram = 1, bpe = 2 };

  std::vector<Piece> pieces;
  Model model = Model::unigram;
  bool byte_fallback = false;
  bool whitespace_is_suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string char_map;  // see CharMap
  bool dummy_prefix = true, remove_extra_whitespace = true, escape_whitespace = true;
};

// Throws Error "bad_input" with the byte offset, and for what cannot be carried out.
SentencePieceFile read_sentence_piece_file(std::string_view bytes, const std::string& where);

// What the library sees to once the pieces are read: all 256 bytes are there where byte_fallback is
// on, none where it is off (Error "bad_input"), and a piece of one NUL stays unused.
void finish_sentence_piece_file(SentencePieceFile& file, const std::string& where);

}  // namespace phasescope::formats
