#include "formats/tokenizers/added_tokens.h"

#include <algorithm>

#include "formats/tokenizers/unicode.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// Where the last character before `end` begins; end > 0.
std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const JsonFields& file, const Vocabulary& known,
                         const Normalizer* normalizer, std::optional<std::int64_t> embedding_rows) {
  if (!file.has("added_tokens")) return;
  const std::vector<JsonFields> list = file.objects("added_tokens");
  const std::int64_t count = known.count() + static_cast<std::int64_t>(list.size());
  const std::int64_t most = embedding_rows.value_or(Vocabulary::most_ids(count));
  for (const JsonFields& fields : list) read(fields, known, most);
  std::vector<std::pair<std::string, std::int64_t>> raw, normalized;
  for (std::size_t at = 0; at < tokens_.size(); ++at) {
    const Token& token = tokens_[at];
    const auto value = static_cast<std::int64_t>(at);
    if (!token.normalized) {
      raw.emplace_back(token.content, value);
    } else if (normalizer) {
      normalized.emplace_back(normalizer->normalize(AlignedText(token.content)).text(), value);
    } else {
      normalized.emplace_back(token.content, value);
    }
  }
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

void AddedTokens::read(const JsonFields& fields, const Vocabulary& known, std::int64_t most) {
  Token token;
  token.content = fields.text("content");
  token.single_word = fields.flag("single_word", false);
  token.left_strip = fields.flag("lstrip", false);
  token.right_strip = fields.flag("rstrip", false);
  const bool special = fields.flag("special", false);
  token.normalized = fields.flag("normalized", !special);
  const std::int64_t wanted = fields.integer("id", 0, kMaxVocabulary - 1);
  if (token.content.empty()) fields.fail("content", "an added token is empty");
  if (wanted >= most) {
    fields.fail("id", "the id " + std::to_string(wanted) + " of the added token " +
                          in_quotes(token.content) + " is past the " + std::to_string(most) +
                          " ids that there can be");
  }
  const auto there = known.id_of(token.content);
  token.id = there ? *there : std::max(end_, known.count());
  if (special_.contains(token.content)) return;
  if (!there && wanted < known.count() && known.token_of(wanted)) {
    fields.fail("id", "the id " + std::to_string(wanted) + " of the added token " +
                          in_quotes(token.content) + " is that of " +
                          in_quotes(*known.token_of(wanted)) + " in the vocabulary");
  }
  end_ = std::max(end_, token.id + 1);
  by_id_[token.id] = tokens_.size();
  special_[token.content] = special;
  tokens_.push_back(std::move(token));
}

const std::string* AddedTokens::token_of(std::int64_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &tokens_[at->second].content;
}

bool AddedTokens::is_part_of_a_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin > 0 && is_word_character(utf8_char_at(text, character_before(text, begin)).code)) ||
         (end < text.size() && is_word_character(utf8_char_at(text, end).code));
}

void AddedTokens::cut_one(const AlignedText& text, const ByteTrie& trie,
                          std::vector<TextPiece>& out) const {
  const std::string_view bytes = text.text();
  std::size_t done = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [length, place] = trie.longest_prefix(bytes.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    const Token& token = tokens_[static_cast<std::size_t>(place)];
    std::size_t begin = at, end = at + length;
    at = end;
    if (token.single_word && is_part_of_a_word(bytes, begin, end)) continue;
    if (token.left_strip) {
      while (begin > done) {
        const std::size_t before = character_before(bytes, begin);
        if (!is_whitespace(utf8_char_at(bytes, before).code)) break;
        begin = before;
      }
    }
    if (token.right_strip) {
      while (end < bytes.size() && is_whitespace(utf8_char_at(bytes, end).code)) {
        end += utf8_char_at(bytes, end).length;
      }
    }
    if (done < begin) out.push_back({text.cut(done, begin), {}});
    out.push_back({text.cut(begin, end), token.id});
    done = end;
  }
  if (done < bytes.size()) out.push_back({text.cut(done, bytes.size()), {}});
}

std::vector<TextPiece> AddedTokens::cut(std::string_view text, const Normalizer* normalizer) const {
  std::vector<TextPiece> raw, pieces;
  cut_one(AlignedText(text), raw_, raw);
  for (TextPiece& piece : raw) {
    if (piece.id) {
      pieces.push_back(std::move(piece));
    } else {
      if (normalizer) piece.text = normalizer->normalize(std::move(piece.text));
      cut_one(piece.text, normalized_, pieces);
    }
  }
  return pieces;
}

}  // namespace phasescope::formats
