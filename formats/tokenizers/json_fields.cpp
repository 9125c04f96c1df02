#include "formats/tokenizers/json_fields.h"

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formats {

JsonFields::JsonFields(const Json& value, std::string file, std::string key)
    : value_(value), file_(std::move(file)), key_(std::move(key)) {
  if (!value_.is_object()) {
    throw bad_input((key_.empty() ? "the file" : key_) + " must hold an object", where());
  }
}

bool JsonFields::has(const std::string& name) const {
  const auto at = value_.find(name);
  return at != value_.end() && !at->is_null();
}

const Json& JsonFields::raw(const std::string& name) const {
  if (!has(name)) fail(name, key_of(name) + " is missing");
  return *value_.find(name);
}

std::string JsonFields::text(const std::string& name) const {
  const Json& value = raw(name);
  if (!value.is_string()) fail(name, key_of(name) + " must be a string");
  return value.get<std::string>();
}

std::string JsonFields::text(const std::string& name, const std::string& fallback) const {
  return has(name) ? text(name) : fallback;
}

std::string JsonFields::short_text(const std::string& name,
                                   const std::optional<std::string>& fallback) const {
  constexpr std::size_t kMost = 64;
  std::string value = fallback ? text(name, *fallback) : text(name);
  if (value.size() > kMost) {
    fail(name, key_of(name) + " has " + std::to_string(value.size()) + " bytes, and at most " +
                   std::to_string(kMost) + " make sense");
  }
  return value;
}

bool JsonFields::flag(const std::string& name, bool fallback) const {
  if (!has(name)) return fallback;
  const Json& value = raw(name);
  if (!value.is_boolean()) fail(name, key_of(name) + " must be true or false");
  return value.get<bool>();
}

std::int64_t JsonFields::integer(const std::string& name, std::int64_t least,
                                 std::int64_t most) const {
  const Json& value = raw(name);
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                        : value.is_number_integer() && value.get<std::int64_t>() <= most;
  if (!fits || value.get<std::int64_t>() < least) {
    fail(name, key_of(name) + " must be an integer from " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  return value.get<std::int64_t>();
}

const Json& JsonFields::array(const std::string& name) const {
  const Json& value = raw(name);
  if (!value.is_array()) fail(name, key_of(name) + " must be a list");
  return value;
}

JsonFields JsonFields::object(const std::string& name) const {
  return JsonFields(raw(name), file_, key_of(name));
}

std::vector<JsonFields> JsonFields::objects(const std::string& name) const {
  std::vector<JsonFields> found;
  for (const Json& item : array(name)) {
    found.emplace_back(item, file_, key_of(name) + '[' + std::to_string(found.size()) + ']');
  }
  return found;
}

char32_t JsonFields::character(const std::string& name, char32_t fallback) const {
  if (!has(name)) return fallback;
  const std::string value = text(name);
  const Utf8Char first = value.empty() ? Utf8Char{} : utf8_char_at(value, 0);
  if (!first.valid || first.length != value.size()) {
    fail(name, key_of(name) + " must be one character");
  }
  return first.code;
}

std::string JsonFields::key_of(const std::string& name) const {
  return key_.empty() ? name : key_ + '.' + name;
}

std::string JsonFields::where(const std::string& name) const {
  const std::string key = name.empty() ? key_ : key_of(name);
  return key.empty() ? file_ : file_ + ", key " + key;
}

void JsonFields::fail(const std::string& name, const std::string& message,
                      const std::string& hint) const {
  throw bad_input(message, where(name), hint);
}

}  // namespace phasescope::formats
