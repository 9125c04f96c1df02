#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer.h"
#include "formats/tokenizers/byte_trie.h"

namespace phasescope::formats {

// A vocabulary of a few named symbols, as tasks have: id n is the n-th name. A text is read by the
// longest name at each place; blanks between names are skipped where no name begins with one. Names
// in brackets ("[EOS]") are special tokens. Of equal names the first one is read.
class SymbolTokenizer : public Tokenizer {
 public:
  // Throws Error "bad_input" for no symbols, an empty name, or a `bos` that is no id.
  explicit SymbolTokenizer(std::vector<std::string> symbols,
                           std::optional<std::int64_t> bos = std::nullopt);

  std::string name() const override { return "symbols"; }
  // Throws Error "bad_input" with the byte where no name begins.
  TokenizedText encode(std::string_view text, Template use = Template::apply) const override;
  // Names, with blanks between them where one that is not special is longer than a character.
  std::string decode(std::span<const std::int64_t> ids,
                     SpecialTokens special = SpecialTokens::skip) const override;
  std::string decode_text(std::span<const std::int64_t> ids,
                          SpecialTokens special = SpecialTokens::skip) const override;
  std::string token_text(std::int64_t id) const override;
  std::optional<std::string> token_bytes(std::int64_t id) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(symbols_.size()); }
  std::optional<std::int64_t> bos_id() const override { return bos_; }

 private:
  const std::string& symbol(std::int64_t id) const;

  std::vector<std::string> symbols_;
  std::optional<std::int64_t> bos_;
  ByteTrie trie_;
  bool spaced_ = false;
};

// From a configuration's {"type": "symbols", "symbols": [...], "bos": 10}; `where` names the file.
std::unique_ptr<Tokenizer> make_symbol_tokenizer(const Json& description, const std::string& where,
                                                 std::optional<std::int64_t> embedding_rows);

}  // namespace phasescope::formats
