#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/limits.h"
#include "formats/tokenizers/json_fields.h"

namespace phasescope::formats {

// Lets maps of strings be asked with string_views.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

// Tokens and their ids, which are in [0, kMaxVocabulary) and may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // {"token": id, ...} of a tokenizer.json. Throws Error "bad_input" for ids out of range or far
  // past the number of tokens, and for an id that two tokens have.
  static Vocabulary from_json(const JsonFields& fields, const std::string& name);

  // How large ids may be where there are so many tokens: they index a table, which one id of 10^7
  // must not make that long. Files leave gaps, and small ones.
  static std::int64_t most_ids(std::int64_t tokens);

  // False where the id has a token already. A token that is there keeps its newest id.
  bool add(std::string token, std::int64_t id);
  std::optional<std::int64_t> id_of(std::string_view token) const;
  const std::string* token_of(std::int64_t id) const;  // null for ids without a token
  std::int64_t count() const { return static_cast<std::int64_t>(ids_.size()); }
  std::int64_t end() const { return static_cast<std::int64_t>(tokens_.size()); }  // largest id + 1
  std::size_t longest() const { return longest_; }  // bytes of the longest token

 private:
  TextMap<std::int64_t> ids_;
  std::vector<const std::string*> tokens_;  // by id; into ids_, whose keys stay where they are
  std::size_t longest_ = 0;
};

}  // namespace phasescope::formats
