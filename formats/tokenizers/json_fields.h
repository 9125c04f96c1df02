#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/json.h"

namespace phasescope::formats {

// The fields of one object of a file, read with their types; what is wrong throws Error "bad_input"
// that names file and key. `key` is the way to the object ("pre_tokenizer.pretokenizers[1]"), empty
// for the whole file. The JSON value must outlive this.
class JsonFields {
 public:
  // Throws where `value` is no object.
  JsonFields(const Json& value, std::string file, std::string key);

  bool has(const std::string& name) const;  // there and not null
  std::string text(const std::string& name) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  // A text that is put in once for every character, token or match: 64 bytes at most.
  std::string short_text(const std::string& name,
                         const std::optional<std::string>& fallback = {}) const;
  bool flag(const std::string& name, bool fallback) const;
  std::int64_t integer(const std::string& name, std::int64_t least, std::int64_t most) const;
  const Json& raw(const std::string& name) const;  // throws where it is not there
  const Json& array(const std::string& name) const;
  JsonFields object(const std::string& name) const;
  std::vector<JsonFields> objects(const std::string& name) const;

  // One character, "▁".
  char32_t character(const std::string& name, char32_t fallback) const;

  std::string key_of(const std::string& name) const;
  std::string where(const std::string& name = {}) const;  // "FILE, key KEY.NAME"
  [[noreturn]] void fail(const std::string& name, const std::string& message,
                         const std::string& hint = {}) const;

 private:
  const Json& value_;
  std::string file_, key_;
};

}  // namespace phasescope::formats
