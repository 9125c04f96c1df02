#include "formats/tokenizers/subword_model.h"

#include <algorithm>
#include <cstdio>

#include "formats/tokenizers/make_by_type.h"

namespace phasescope::formats {
namespace {

constexpr std::pair<const char*, MakeFromFields<SubwordModel>> kModels[] = {
    {"BPE", make_bpe},
    {"WordPiece", make_word_piece},
    {"Unigram", make_unigram},
    {"WordLevel", make_word_level},
};

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::unique_ptr<SubwordModel> make_subword_model(const JsonFields& fields) {
  if (!fields.has("type") && fields.has("merges")) {
    return make_bpe(fields);  // as older files have it
  }
  return make_by_type(kModels, fields);
}

bool append_byte_tokens(const Vocabulary& vocabulary, std::string_view text, std::size_t begin,
                        std::size_t end, std::vector<PieceToken>& tokens) {
  const std::size_t before = tokens.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned char>(text[i]));
    const auto id = vocabulary.id_of(name);
    if (!id) {
      tokens.resize(before);
      return false;
    }
    const std::size_t at = std::min(begin + i, end - 1);
    tokens.push_back({*id, at, at + 1});
  }
  return true;
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  // The reference's parser of numbers takes a sign before the digit.
  const int high = token[3] == '+' ? 0 : hexadecimal(token[3]);
  const int low = hexadecimal(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace phasescope::formats
