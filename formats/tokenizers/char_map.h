#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::formats {

// SentencePiece's `precompiled_charsmap`: rules "these bytes become those" in a double-array trie.
// Source: sentencepiece's normalizer.cc; darts-clone's unit layout.
class CharMap {
 public:
  CharMap() = default;
  // Throws Error "bad_input" naming `where` for blobs that are none.
  CharMap(std::string_view blob, const std::string& where);

  struct Rule {
    std::size_t length;            // bytes taken
    std::string_view replacement;  // what they become
  };
  // The longest rule that the text's beginning fits; nothing where none does.
  std::optional<Rule> longest(std::string_view text) const { return find(text, true); }
  std::optional<Rule> shortest(std::string_view text) const { return find(text, false); }
  bool empty() const { return units_.empty(); }

 private:
  std::optional<Rule> find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a zero
};

}  // namespace phasescope::formats
