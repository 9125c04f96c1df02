#include "formats/tokenizers/normal_forms.h"

#include <algorithm>
#include <string>
#include <vector>

#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

struct Piece {
  char32_t code;
  int combining;
  std::size_t first, last;  // bytes of the text before
};

// Decomposed, and marks in canonical order.
std::vector<Piece> decomposed(std::string_view text, std::size_t begin, bool compatibility) {
  std::vector<Piece> pieces;
  std::u32string parts;
  for (std::size_t at = begin; at < text.size();) {
    const Utf8Char character = utf8_char_at(text, at);
    parts.clear();
    decompose(character.code, compatibility, parts);
    for (const char32_t part : parts) {
      pieces.push_back({part, combining_class(part), at, at + character.length});
    }
    at += character.length;
  }
  const auto is_starter = [](const Piece& piece) { return piece.combining == 0; };
  for (auto run = pieces.begin(); run != pieces.end();) {
    run = std::find_if_not(run, pieces.end(), is_starter);
    const auto end = std::find_if(run, pieces.end(), is_starter);
    std::stable_sort(run, end,
                     [](const Piece& a, const Piece& b) { return a.combining < b.combining; });
    run = end;
  }
  return pieces;
}

void compose(std::vector<Piece>& pieces) {
  std::size_t starter = pieces.size();  // none yet
  std::size_t kept = 0;
  int last = 0;  // combining class of the piece kept last after the starter
  for (std::size_t read = 0; read < pieces.size(); ++read) {
    const Piece piece = pieces[read];  // what is kept overwrites what was read before
    const bool blocked = starter >= kept || (kept - 1 > starter && last >= piece.combining);
    const char32_t whole = blocked ? 0 : composed(pieces[starter].code, piece.code);
    if (whole != 0) {
      Piece& into = pieces[starter];
      into.code = whole;
      into.first = std::min(into.first, piece.first);
      into.last = std::max(into.last, piece.last);
      continue;
    }
    if (piece.combining == 0) starter = kept;
    last = piece.combining;
    pieces[kept++] = piece;
  }
  pieces.resize(kept);
}

// Below it every character is its own normal form and nothing joins with the one before.
bool is_plain(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

AlignedText in_normal_form(const AlignedText& text, NormalForm form) {
  const std::string& from = text.text();
  const auto plain = std::find_if_not(from.begin(), from.end(), is_plain);
  if (plain == from.end()) return text;
  // The last plain character may join with the first that is not.
  const std::size_t begin = std::max<std::ptrdiff_t>(0, plain - from.begin() - 1);
  const bool compatibility = form == NormalForm::nfkc || form == NormalForm::nfkd;
  std::vector<Piece> pieces = decomposed(from, begin, compatibility);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(pieces);
  AlignedText made = AlignedText::like(text);
  made.take(text, 0, begin);
  std::string bytes;
  for (const Piece& piece : pieces) {
    bytes.clear();
    append_utf8(bytes, piece.code);
    const std::size_t length = piece.last - piece.first;
    if (std::string_view(from).substr(piece.first, length) == bytes) {
      made.take(text, piece.first, piece.last);
    } else {
      made.put(bytes, text, piece.first, piece.last);
    }
  }
  return made;
}

}  // namespace phasescope::formats
