#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "formats/tokenizers/json_fields.h"
#include "formats/tokenizers/pattern.h"
#include "formats/utf8.h"

namespace phasescope::formats {

// The entry of a table {"Type", function that makes it from its fields} that "type" names.
template <typename Base>
using MakeFromFields = std::unique_ptr<Base> (*)(const JsonFields&);

template <class Base, class Made>
std::unique_ptr<Base> make_from_fields(const JsonFields& fields) {
  return std::make_unique<Made>(fields);
}

template <typename Base, std::size_t Size>
std::unique_ptr<Base> make_by_type(
    const std::pair<const char*, MakeFromFields<Base>> (&known)[Size], const JsonFields& fields) {
  const std::string type = fields.text("type");
  std::string names;
  for (const auto& [name, make] : known) {
    if (type == name) return make(fields);
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fields.fail("type", "the type " + in_quotes(type) + " is not known", "known types: " + names);
}

// The `pattern` of a Split or Replace: {"String": ...} or {"Regex": ...}.
inline Pattern read_pattern(const JsonFields& fields) {
  const JsonFields pattern = fields.object("pattern");
  if (pattern.has("Regex")) return Pattern::regex(pattern.text("Regex"), pattern.where("Regex"));
  return Pattern::literal(pattern.text("String"));
}

}  // namespace phasescope::formats
