#include "protocol/model_reading.h"

#include <algorithm>
#include <filesystem>

namespace phasescope::protocol {
namespace {

constexpr std::string_view kEncoding = "encoding.";
constexpr std::string_view kModel = "model.";
constexpr std::string_view kScaling = "encoding.scaling";
constexpr std::string_view kFactor = "encoding.factor";

const std::string* value_of(const Settings& settings, std::string_view key) {
  for (const auto& [name, value] : settings) {
    if (name == key) return &value;
  }
  return nullptr;
}

// Settings of the model itself ("context") have no group, which here means the encoding's.
std::string short_key(const std::string& key) {
  if (key.find('.') == std::string::npos) return std::string(kModel) + key;
  return key.starts_with(kEncoding) ? key.substr(kEncoding.size()) : key;
}

std::string full_key(const std::string& key) {
  if (key.starts_with(kModel)) return key.substr(kModel.size());
  return key.find('.') == std::string::npos ? std::string(kEncoding) + key : key;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.eE+-") == text.npos;
}

// Parts between ", " outside brackets: a value may be a list.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[') - (text[i] == ']');
    if (depth == 0 && text.compare(i, 2, ", ") == 0) {
      parts.emplace_back();
      ++i;
    } else {
      parts.back() += text[i];
    }
  }
  return parts;
}

// Whether `part` is "yarn x2" or "base=1e6", which is then added.
bool add_part(const std::string& part, Settings& settings) {
  if (const std::size_t equals = part.find('='); equals != part.npos) {
    const std::string key = part.substr(0, equals);
    if (!is_word(key)) return false;
    settings.emplace_back(full_key(key), part.substr(equals + 1));
    return true;
  }
  const std::size_t cross = part.find(" x");
  if (cross == part.npos) return false;
  const std::string scaling = part.substr(0, cross), factor = part.substr(cross + 2);
  if (!is_word(scaling) || !is_number(factor)) return false;
  settings.emplace_back(kScaling, scaling);
  settings.emplace_back(kFactor, factor);
  return true;
}

}  // namespace

std::string name_of(const ModelReading& reading) {
  std::string text;
  const std::string* scaling = value_of(reading.settings, kScaling);
  const std::string* factor = value_of(reading.settings, kFactor);
  const bool both =
      scaling != nullptr && factor != nullptr && is_word(*scaling) && is_number(*factor);
  if (both) text = *scaling + " x" + *factor;
  for (const auto& [key, value] : reading.settings) {
    if (both && (key == kScaling || key == kFactor)) continue;
    text += (text.empty() ? "" : ", ") + short_key(key) + "=" + value;
  }
  return text.empty() ? reading.model : reading.model + " (" + text + ")";
}

ModelReading model_reading(const std::string& name) {
  const std::size_t open = name.rfind(" (");
  std::error_code error;
  if (open == name.npos || open == 0 || !name.ends_with(")") ||
      std::filesystem::exists(name, error)) {
    return {name};
  }
  ModelReading reading{name.substr(0, open)};
  for (const std::string& part : parts_of(name.substr(open + 2, name.size() - open - 3))) {
    if (!add_part(part, reading.settings)) return {name};
  }
  return reading;
}

}  // namespace phasescope::protocol
