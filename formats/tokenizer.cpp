#include "formats/tokenizer.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/limits.h"
#include "formats/tokenizers/symbols.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::int64_t kBytes = 256;

std::string hex_mark(const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Characters that would not show or would turn the text around them.
bool is_invisible(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD || code == 0x61C ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0x3000 || code == 0xFEFF ||
         (code >= 0xE0000 && code <= 0xE007F);
}

std::string visible_character(std::string_view text, std::size_t at, const Utf8Char& character) {
  if (!character.valid) return hex_mark("<0x%02X>", static_cast<unsigned char>(text[at]));
  switch (character.code) {
    case ' ':
      return "·";
    case '\n':
      return "⏎";
    case '\t':
      return "⇥";
    default:
      break;
  }
  if (character.code < 0x80 && is_invisible(character.code)) {
    return hex_mark("<0x%02X>", character.code);
  }
  if (is_invisible(character.code)) return hex_mark("<U+%04X>", character.code);
  return std::string(text.substr(at, character.length));
}

// The length of the longest beginning of a character at `at`; at least 1.
std::size_t broken_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const int lead = byte(at);
  int low = 0x80, high = 0xBF, more = 0;  // of the second byte; how many come after the first
  if (lead >= 0xC2 && lead <= 0xDF) more = 1;
  if (lead >= 0xE0 && lead <= 0xEF) more = 2;
  if (lead >= 0xF0 && lead <= 0xF4) more = 3;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  std::size_t length = 1;
  for (; more > 0 && byte(at + length) >= low && byte(at + length) <= high; --more) {
    ++length;
    low = 0x80, high = 0xBF;
  }
  return length;
}

std::optional<std::int64_t> read_bos(const Json& description, const std::string& where) {
  if (!description.contains("bos") || description["bos"].is_null()) return std::nullopt;
  const Json& bos = description["bos"];
  const bool too_large = bos.is_number_unsigned() && bos.get<std::uint64_t>() > kMaxVocabulary;
  if (!bos.is_number_integer() || too_large) {
    throw bad_input("tokenizer.bos must be an integer up to " + std::to_string(kMaxVocabulary) +
                        " or null, but is " + shortened(bos.dump()),
                    where + ", key tokenizer.bos");
  }
  return bos.get<std::int64_t>();
}

std::int64_t read_vocab_size(const Json& description, const std::string& where,
                             std::optional<std::int64_t> embedding_rows) {
  const std::string key = where + ", key tokenizer.vocab_size";
  if (!description.contains("vocab_size")) return kBytes;
  const Json& value = description["vocab_size"];
  if (!value.is_number_integer() || value < kBytes || value > kMaxVocabulary) {
    throw bad_input("a byte tokenizer's vocab_size must be an integer from 256 to 16777216", key);
  }
  const auto size = value.get<std::int64_t>();
  check_embedding(size, embedding_rows, key);
  return size;
}

}  // namespace

ByteTokenizer::ByteTokenizer(std::int64_t vocab_size, std::optional<std::int64_t> bos)
    : vocab_size_(vocab_size), bos_(bos) {
  if (vocab_size < kBytes) throw bad_input("a byte tokenizer needs at least 256 ids");
  if (bos) check_id(*bos);
}

TokenizedText ByteTokenizer::encode(std::string_view text, Template use) const {
  TokenizedText result;
  const bool with_bos = use == Template::apply && bos_;
  result.ids.reserve(text.size() + 1);
  result.spans.reserve(text.size() + 1);
  if (with_bos) {
    result.ids.push_back(*bos_);
    result.spans.push_back({0, 0});
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    result.ids.push_back(static_cast<unsigned char>(text[i]));
    result.spans.push_back({i, i + 1});
  }
  return result;
}

std::string ByteTokenizer::decode(std::span<const std::int64_t> ids, SpecialTokens special) const {
  std::string bytes;
  bytes.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check_id(ids[i]);
    const bool template_bos = i == 0 && bos_ && ids[i] == *bos_;
    if (special == SpecialTokens::skip && (template_bos || ids[i] >= kBytes)) continue;
    if (template_bos || ids[i] >= kBytes) {
      bytes += token_text(ids[i]);
    } else {
      bytes += static_cast<char>(ids[i]);
    }
  }
  return bytes;
}

std::string ByteTokenizer::decode_text(std::span<const std::int64_t> ids,
                                       SpecialTokens special) const {
  return with_replacements(decode(ids, special));
}

std::string ByteTokenizer::token_text(std::int64_t id) const {
  if (const auto bytes = token_bytes(id)) return visible_text(*bytes);
  return bos_ && id == *bos_ ? "[BOS]" : '[' + std::to_string(id) + ']';
}

std::optional<std::string> ByteTokenizer::token_bytes(std::int64_t id) const {
  check_id(id);
  if (id >= kBytes || (bos_ && id == *bos_)) return std::nullopt;
  return std::string(1, static_cast<char>(id));
}

void ByteTokenizer::check_id(std::int64_t id) const {
  if (id >= 0 && id < vocab_size_) return;
  throw bad_input("the id " + std::to_string(id) + " is not in the vocabulary of " +
                  std::to_string(vocab_size_) + " ids");
}

std::unique_ptr<Tokenizer> make_tokenizer(const Json& description, const std::string& where,
                                          std::optional<std::int64_t> embedding_rows) {
  const std::string key = where + ", key tokenizer";
  if (!description.is_object() || !description.contains("type") ||
      !description["type"].is_string()) {
    throw bad_input("tokenizer must be an object with a string \"type\"", key);
  }
  const auto type = description["type"].get<std::string>();
  if (type == "symbols") return make_symbol_tokenizer(description, where, embedding_rows);
  if (type != "bytes") {
    throw bad_input("the tokenizer type \"" + shortened(type) + "\" is not known", key + ".type",
                    "known types: bytes, symbols");
  }
  const std::int64_t vocab_size = read_vocab_size(description, where, embedding_rows);
  const auto bos = read_bos(description, where);
  if (bos && (*bos < 0 || *bos >= vocab_size)) {
    throw bad_input("tokenizer.bos is " + std::to_string(*bos) + ", outside the vocabulary of " +
                        std::to_string(vocab_size) + " ids",
                    key + ".bos");
  }
  return std::make_unique<ByteTokenizer>(vocab_size, bos);
}

void check_embedding(std::int64_t ids_end, std::optional<std::int64_t> embedding_rows,
                     const std::string& where) {
  if (!embedding_rows || ids_end <= *embedding_rows) return;
  throw bad_input("the tokenizer has " + std::to_string(ids_end) + " ids, but the embedding only " +
                      std::to_string(*embedding_rows) + " rows",
                  where, "the tokenizer belongs to another model");
}

void check_ids(std::span<const std::int64_t> ids, std::int64_t vocab_size,
               const std::string& where) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    throw bad_input("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                        " is outside the vocabulary of " + std::to_string(vocab_size) + " ids",
                    where, "ids run from 0 to " + std::to_string(vocab_size - 1));
  }
}

std::string visible_text(std::string_view bytes) {
  std::string shown;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char character = utf8_char_at(bytes, at);
    shown += visible_character(bytes, at, character);
    at += character.length;
  }
  return shown;
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char character = utf8_char_at(bytes, at);
    const std::size_t length = character.valid ? character.length : broken_length(bytes, at);
    text += character.valid ? bytes.substr(at, length) : "\xEF\xBF\xBD";
    at += length;
  }
  return text;
}

std::vector<std::string> visible_tokens(const Tokenizer& tokenizer,
                                        std::span<const std::int64_t> ids) {
  std::vector<std::string> shown(ids.size());
  std::string run;                    // bytes of tokens without a special one between
  std::vector<std::size_t> token_of;  // of each of its bytes
  const auto show_run = [&] {
    for (std::size_t at = 0; at < run.size();) {
      const std::size_t length = utf8_char_at(run, at).length;
      shown[token_of[at]] += visible_text(std::string_view(run).substr(at, length));
      at += length;
    }
    run.clear();
    token_of.clear();
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (const auto bytes = tokenizer.token_bytes(ids[i])) {
      run += *bytes;
      token_of.resize(run.size(), i);
    } else {
      show_run();
      shown[i] = tokenizer.token_text(ids[i]);
    }
  }
  show_run();
  return shown;
}

}  // namespace phasescope::formats
