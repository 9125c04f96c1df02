#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tokenizers/byte_trie.h"
#include "formats/tokenizers/normalizers.h"
#include "formats/tokenizers/pre_tokenizers.h"
#include "formats/tokenizers/vocabulary.h"

namespace phasescope::formats {

// The tokens of tokenizer.json's `added_tokens`: found in a text before anything else is done to
// it, or (those with "normalized") after it was normalised.
class AddedTokens {
 public:
  // `known`: the model's vocabulary. A token that is in it has that id; the others get the ids
  // after it in the order of the list, as the reference gives them, whatever the file says. Throws
  // Error "bad_input" for a token that is empty, that claims the id of another one, or one past
  // the embedding's rows (Vocabulary::most_ids, where those are not known).
  AddedTokens(const JsonFields& file, const Vocabulary& known, const Normalizer* normalizer,
              std::optional<std::int64_t> embedding_rows);

  // The text cut at them, what lies between normalised.
  std::vector<TextPiece> cut(std::string_view text, const Normalizer* normalizer) const;

  const std::string* token_of(std::int64_t id) const;  // null for ids of the model alone
  bool is_special(std::string_view content) const {
    const auto at = special_.find(content);
    return at != special_.end() && at->second;
  }
  std::int64_t end() const { return end_; }  // largest id + 1; 0 for none

 private:
  struct Token {
    std::string content;
    std::int64_t id;
    bool single_word, left_strip, right_strip, normalized;
  };

  void read(const JsonFields& fields, const Vocabulary& known, std::int64_t most);
  void cut_one(const AlignedText& text, const ByteTrie& trie, std::vector<TextPiece>& out) const;
  static bool is_part_of_a_word(std::string_view text, std::size_t begin, std::size_t end);

  std::vector<Token> tokens_;
  std::unordered_map<std::int64_t, std::size_t> by_id_;  // into tokens_
  TextMap<bool> special_;                                // of every token
  ByteTrie raw_, normalized_;                            // values are places in tokens_
  std::int64_t end_ = 0;
};

}  // namespace phasescope::formats
