#include "formats/tokenizers/symbols.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

bool is_special(std::string_view symbol) {
  return symbol.size() > 2 && symbol.front() == '[' && symbol.back() == ']';
}

ByteTrie trie_of(const std::vector<std::string>& symbols) {
  std::vector<std::pair<std::string, std::int64_t>> entries;
  std::set<std::string> seen;
  for (std::size_t n = 0; n < symbols.size(); ++n) {
    if (seen.insert(symbols[n]).second) {
      entries.emplace_back(symbols[n], static_cast<std::int64_t>(n));
    }
  }
  return ByteTrie(std::move(entries));
}

bool is_one_character(const std::string& symbol) {
  return utf8_char_at(symbol, 0).length == symbol.size();
}

}  // namespace

SymbolTokenizer::SymbolTokenizer(std::vector<std::string> symbols, std::optional<std::int64_t> bos)
    : symbols_(std::move(symbols)), bos_(bos), trie_(trie_of(symbols_)) {
  if (symbols_.empty()) throw bad_input("a vocabulary has at least one symbol");
  for (const std::string& one : symbols_) {
    if (one.empty()) throw bad_input("a symbol has no name");
    spaced_ = spaced_ || (!is_special(one) && !is_one_character(one));
  }
  if (bos) symbol(*bos);
}

TokenizedText SymbolTokenizer::encode(std::string_view text, Template use) const {
  TokenizedText result;
  const auto add = [&result](std::int64_t id, std::size_t begin, std::size_t end) {
    result.ids.push_back(id);
    result.spans.push_back({begin, end});
  };
  if (use == Template::apply && bos_) add(*bos_, 0, 0);
  for (std::size_t at = 0; at < text.size();) {
    const auto [length, id] = trie_.longest_prefix(text.substr(at));
    if (length > 0) {
      add(id, at, at + length);
    } else if (text[at] != ' ' && text[at] != '\n') {
      throw bad_input("no symbol of the model's vocabulary stands at byte " + std::to_string(at),
                      shortened(std::string(text)), "tokenize shows the vocabulary's symbols");
    }
    at += std::max<std::size_t>(length, 1);
  }
  return result;
}

std::string SymbolTokenizer::decode(std::span<const std::int64_t> ids,
                                    SpecialTokens special) const {
  std::string text;
  for (const std::int64_t id : ids) {
    const std::string& one = symbol(id);
    if (special == SpecialTokens::skip && is_special(one)) continue;
    if (spaced_ && !text.empty()) text += ' ';
    text += one;
  }
  return text;
}

std::string SymbolTokenizer::decode_text(std::span<const std::int64_t> ids,
                                         SpecialTokens special) const {
  return with_replacements(decode(ids, special));
}

std::string SymbolTokenizer::token_text(std::int64_t id) const { return visible_text(symbol(id)); }

std::optional<std::string> SymbolTokenizer::token_bytes(std::int64_t id) const {
  const std::string& one = symbol(id);
  return is_special(one) ? std::nullopt : std::optional<std::string>(one);
}

const std::string& SymbolTokenizer::symbol(std::int64_t id) const {
  if (id >= 0 && id < vocab_size()) return symbols_[static_cast<std::size_t>(id)];
  throw bad_input("the id " + std::to_string(id) + " is not in the vocabulary of " +
                  std::to_string(vocab_size()) + " ids");
}

std::unique_ptr<Tokenizer> make_symbol_tokenizer(const Json& description, const std::string& where,
                                                 std::optional<std::int64_t> embedding_rows) {
  const std::string key = where + ", key tokenizer.symbols";
  const auto found = description.find("symbols");
  if (found == description.end() || !found->is_array() || found->empty()) {
    throw bad_input("tokenizer.symbols must be a list of names", key);
  }
  std::vector<std::string> symbols;
  for (const Json& one : *found) {
    if (!one.is_string() || one.get<std::string>().empty()) {
      throw bad_input("each of tokenizer.symbols must be a name, not " + shortened(one.dump()),
                      key);
    }
    symbols.push_back(one.get<std::string>());
  }
  check_embedding(static_cast<std::int64_t>(symbols.size()), embedding_rows, key);
  std::optional<std::int64_t> bos;
  if (const auto given = description.find("bos"); given != description.end() && !given->is_null()) {
    const bool fits = given->is_number_integer() && given->get<std::int64_t>() >= 0 &&
                      given->get<std::int64_t>() < static_cast<std::int64_t>(symbols.size());
    if (!fits) throw bad_input("tokenizer.bos must be one of the symbols' ids", key);
    bos = given->get<std::int64_t>();
  }
  return std::make_unique<SymbolTokenizer>(std::move(symbols), bos);
}

}  // namespace phasescope::formats
