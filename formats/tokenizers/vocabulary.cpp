#include "formats/tokenizers/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/utf8.h"

namespace phasescope::formats {

std::int64_t Vocabulary::most_ids(std::int64_t tokens) {
  return std::min(kMaxVocabulary, std::max(std::int64_t{1} << 18, 8 * tokens));
}

Vocabulary Vocabulary::from_json(const JsonFields& fields, const std::string& name) {
  const Json& object = fields.raw(name);
  if (!object.is_object()) {
    fields.fail(name, fields.key_of(name) + " must be an object of tokens and their ids");
  }
  Vocabulary vocabulary;
  vocabulary.ids_.reserve(object.size());
  const std::int64_t most = most_ids(static_cast<std::int64_t>(object.size()));
  for (const auto& [token, id] : object.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMaxVocabulary) {
      fields.fail(name, "the id of the token " + in_quotes(token) +
                            " must be an integer from 0 to " + std::to_string(kMaxVocabulary - 1));
    }
    const auto number = id.get<std::int64_t>();
    if (number >= most) {
      fields.fail(name, "the id " + std::to_string(number) + " of the token " + in_quotes(token) +
                            " is far past the " + std::to_string(object.size()) +
                            " tokens of the vocabulary");
    }
    if (!vocabulary.add(token, number)) {
      fields.fail(name, "the id " + std::to_string(number) + " is that of " +
                            in_quotes(*vocabulary.token_of(number)) + " and of " +
                            in_quotes(token));
    }
  }
  return vocabulary;
}

bool Vocabulary::add(std::string token, std::int64_t id) {
  const auto at = static_cast<std::size_t>(id);
  if (at < tokens_.size() && tokens_[at]) return false;
  if (at >= tokens_.size()) tokens_.resize(at + 1, nullptr);
  longest_ = std::max(longest_, token.size());
  const auto entry = ids_.insert_or_assign(std::move(token), id).first;
  tokens_[at] = &entry->first;
  return true;
}

std::optional<std::int64_t> Vocabulary::id_of(std::string_view token) const {
  const auto at = ids_.find(token);
  if (at == ids_.end()) return std::nullopt;
  return at->second;
}

const std::string* Vocabulary::token_of(std::int64_t id) const {
  return id >= 0 && id < end() ? tokens_[static_cast<std::size_t>(id)] : nullptr;
}

}  // namespace phasescope::formats
