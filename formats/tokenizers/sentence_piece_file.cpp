#include "formats/tokenizers/sentence_piece_file.h"

#include <bitset>
#include <cmath>

#include "formats/error.h"
#include "formats/text_input.h"
#include "formats/tokenizers/subword_model.h"
#include "formats/tokenizers/vocabulary.h"
#include "formats/tokenizers/wire_fields.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

std::string text_of(const WireFields& field, const std::string& where) {
  if (first_invalid_utf8(field.bytes()) != field.bytes().size()) {
    throw bad_input("a piece of the SentencePiece model is not UTF-8", where);
  }
  return std::string(field.bytes());
}

SentencePieceFile::Piece read_piece(WireFields fields, const std::string& where) {
  SentencePieceFile::Piece piece;
  while (fields.next()) {
    if (fields.number() == 1) piece.text = text_of(fields, where);
    if (fields.number() == 2) piece.score = fields.real();
    if (!std::isfinite(piece.score)) {
      throw bad_input("a piece of the SentencePiece model has a score that is no number", where);
    }
    if (fields.number() == 3) {
      if (fields.integer() < 1 || fields.integer() > 6) {
        throw bad_input("a piece of the SentencePiece model has an unknown type", where);
      }
      piece.kind = static_cast<SentencePieceFile::Kind>(fields.integer());
    }
  }
  if (piece.text.empty()) throw bad_input("a piece of the SentencePiece model is empty", where);
  return piece;
}

void read_trainer(WireFields fields, const std::string& where, SentencePieceFile& file) {
  while (fields.next()) {
    switch (fields.number()) {
      case 3:
        if (fields.integer() != 1 && fields.integer() != 2) {
          throw bad_input("the SentencePiece model is neither of type Unigram nor BPE", where,
                          "word and character models are not supported");
        }
        file.model = static_cast<SentencePieceFile::Model>(fields.integer());
        break;
      case 24:
        file.whitespace_is_suffix = fields.integer() != 0;
        break;
      case 35:
        file.byte_fallback = fields.integer() != 0;
        break;
      case 44:
        file.unknown_surface = text_of(fields, where);
        break;
      case 46:
        file.bos_piece = text_of(fields, where);
        break;
      case 47:
        file.eos_piece = text_of(fields, where);
        break;
      default:
        break;
    }
  }
}

void read_normalizer(WireFields fields, SentencePieceFile& file) {
  while (fields.next()) {
    if (fields.number() == 2) file.char_map = std::string(fields.bytes());
    if (fields.number() == 3) file.dummy_prefix = fields.integer() != 0;
    if (fields.number() == 4) file.remove_extra_whitespace = fields.integer() != 0;
    if (fields.number() == 5) file.escape_whitespace = fields.integer() != 0;
  }
}

void refuse_denormalizer(WireFields fields, const std::string& where) {
  while (fields.next()) {
    if (fields.number() == 2 && !fields.bytes().empty()) {
      throw bad_input("the SentencePiece model changes texts after decoding (denormalizer_spec)",
                      where, "such models are not supported");
    }
  }
}

// As the library has it: all 256 bytes where byte_fallback is on, none where it is off.
void check_bytes(const SentencePieceFile& file, const std::string& where) {
  std::bitset<256> there;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.kind != SentencePieceFile::Kind::byte) continue;
    const int byte = byte_of_token(piece.text);
    if (byte < 0) {
      throw bad_input("the piece " + in_quotes(piece.text) + " is a byte, and names none", where);
    }
    there.set(static_cast<std::size_t>(byte));
  }
  if (file.byte_fallback ? there.all() : there.none()) return;
  throw bad_input("the SentencePiece model has " + std::to_string(there.count()) +
                      " of the 256 byte pieces, and byte_fallback is " +
                      (file.byte_fallback ? "on" : "off"),
                  where);
}

// Some converters write a piece of one NUL beside <0x00>; the library leaves it unused.
void leave_nul_unused(SentencePieceFile& file) {
  for (SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.text == std::string(1, '\0')) piece.kind = SentencePieceFile::Kind::unused;
  }
}

}  // namespace

SentencePieceFile read_sentence_piece_file(std::string_view bytes, const std::string& where) {
  SentencePieceFile file;
  WireFields fields(bytes, where);
  bool has_trainer = false, has_normalizer = false;
  while (fields.next()) {
    has_trainer = has_trainer || fields.number() == 2;
    has_normalizer = has_normalizer || fields.number() == 3;
    if (fields.number() == 1) file.pieces.push_back(read_piece(fields.message(), where));
    if (fields.number() == 2) read_trainer(fields.message(), where, file);
    if (fields.number() == 3) read_normalizer(fields.message(), file);
    if (fields.number() == 5) refuse_denormalizer(fields.message(), where);
    if (file.pieces.size() > static_cast<std::size_t>(kMaxVocabulary)) {
      throw bad_input("the SentencePiece model has more than 16777216 pieces", where);
    }
  }
  if (file.pieces.empty()) throw bad_input("the file holds no SentencePiece model", where);
  // The library writes both behind the pieces: without them the file ended between two pieces.
  if (!has_trainer || !has_normalizer) {
    throw bad_input("the SentencePiece model has no " +
                        std::string(has_trainer ? "normalizer_spec" : "trainer_spec") +
                        ": the file is cut short",
                    where);
  }
  finish_sentence_piece_file(file, where);
  return file;
}

void finish_sentence_piece_file(SentencePieceFile& file, const std::string& where) {
  check_bytes(file, where);
  if (file.byte_fallback) leave_nul_unused(file);
}

}  // namespace phasescope::formats
