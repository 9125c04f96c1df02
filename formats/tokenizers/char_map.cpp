#include "formats/tokenizers/char_map.h"

#include <cstring>

#include "formats/error.h"

namespace phasescope::formats {
namespace {

std::uint32_t little_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

// The fields of a darts-clone unit.
bool has_leaf(std::uint32_t unit) { return (unit >> 8) & 1; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

CharMap::CharMap(std::string_view blob, const std::string& where) {
  if (blob.empty()) return;
  const std::size_t trie_bytes = blob.size() < 4 ? blob.size() : little_endian(blob, 0);
  if (blob.size() < 4 || trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > blob.size() - 4) {
    throw bad_input("the precompiled character map is cut short", where);
  }
  units_.resize(trie_bytes / 4);
  for (std::size_t i = 0; i < units_.size(); ++i) units_[i] = little_endian(blob, 4 + 4 * i);
  replacements_ = blob.substr(4 + trie_bytes);
  if (replacements_.empty() || replacements_.back() != '\0') replacements_ += '\0';
}

std::optional<CharMap::Rule> CharMap::find(std::string_view text, bool longest) const {
  std::optional<Rule> found;
  if (units_.empty()) return found;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t at = value_of(units_[node]);
    if (at >= replacements_.size()) break;
    found = Rule{i + 1, std::string_view(replacements_.data() + at)};
    if (!longest) break;
  }
  return found;
}

}  // namespace phasescope::formats
