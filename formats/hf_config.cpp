#include "formats/hf_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

constexpr std::size_t kShownProblems = 10;

std::string number_text(double value) { return Json(value).dump(); }

std::string range_text(IntegerRange range) {
  if (range.max == std::numeric_limits<std::int64_t>::max()) {
    return "at least " + std::to_string(range.min);
  }
  return "from " + std::to_string(range.min) + " to " + std::to_string(range.max);
}

std::string range_text(NumberRange range) {
  const std::string lower = (range.min_excluded ? "above " : "at least ") + number_text(range.min);
  if (std::isinf(range.max)) return std::isinf(range.min) ? "finite" : lower;
  return lower + " and at most " + number_text(range.max);
}

bool in_range(double value, NumberRange range) {
  const bool above = range.min_excluded ? value > range.min : value >= range.min;
  return std::isfinite(value) && above && value <= range.max;
}

// A whole number, also when written as 4.0.
std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::abs(number) > 9e15 || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string value_text(const Json& value) {
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

}  // namespace

void ConfigProblems::add(std::string_view key, const std::string& sentence) {
  constexpr std::size_t kKeyBytes = 160;  // names of tensors are keys too
  std::string problem = shortened(key, kKeyBytes) + ": " + sentence;
  if (std::ranges::count(list_, problem) > 0) return;  // several readers may want the key
  list_.push_back(std::move(problem));
}

void ConfigProblems::throw_if_any(const std::string& where) const {
  if (list_.empty()) return;
  std::string message =
      list_.size() == 1 ? "the configuration cannot be used: "
                        : "the configuration has " + std::to_string(list_.size()) + " problems: ";
  const std::size_t shown = std::min(list_.size(), kShownProblems);
  for (std::size_t i = 0; i < shown; ++i) message += (i > 0 ? "; " : "") + list_[i];
  if (shown < list_.size()) message += "; and " + std::to_string(list_.size() - shown) + " more";
  throw bad_input(message, where);
}

ConfigReader::ConfigReader(const Json& object, ConfigProblems& problems, std::string prefix)
    : object_(&object),
      problems_(&problems),
      prefix_(std::move(prefix)),
      asked_(std::make_shared<std::set<std::string, std::less<>>>()) {
  static const Json kEmpty = Json::object();
  if (object.is_object()) return;
  problems.add(prefix_.empty() ? "configuration" : prefix_.substr(0, prefix_.size() - 1),
               "must be an object, but is " + value_text(object));
  object_ = &kEmpty;
}

const Json* ConfigReader::raw(std::string_view key) const {
  asked_->emplace(key);
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

bool ConfigReader::has(std::string_view key) const { return raw(key) != nullptr; }

bool ConfigReader::has_or_null(std::string_view key) const {
  asked_->emplace(key);
  return object_->contains(key);
}

std::vector<std::string> ConfigReader::unread(FieldNames words) const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->items()) {
    const std::string_view name = key;
    const bool of_them = std::ranges::any_of(
        words, [name](std::string_view word) { return name.find(word) != name.npos; });
    const bool says_something = !value.is_null() && !value.is_boolean();
    if (of_them && says_something && !asked_->contains(key)) keys.push_back(key);
  }
  return keys;
}

const Json* ConfigReader::unasked(std::string_view key) const {
  if (asked_->contains(key)) return nullptr;
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

// The name that is there; a note where two are, with different values.
std::optional<std::string_view> ConfigReader::pick(FieldNames names) const {
  std::optional<std::string_view> chosen;
  for (const std::string_view name : names) {
    const Json* value = raw(name);
    if (!value) continue;
    if (!chosen) {
      chosen = name;
    } else if (*value != *raw(*chosen)) {
      notes_.push_back(prefix_ + std::string(*chosen) + " " + value_text(*raw(*chosen)) +
                       " is taken over " + prefix_ + std::string(name) + " " + value_text(*value));
    }
  }
  return chosen;
}

std::optional<std::int64_t> ConfigReader::integer(FieldNames names, IntegerRange range) const {
  const auto name = pick(names);
  if (!name) return std::nullopt;
  const auto number = whole_number(*raw(*name));
  if (number && *number >= range.min && *number <= range.max) return number;
  problem(*name, "must be an integer " + range_text(range) + ", but is " + value_text(*raw(*name)));
  return std::nullopt;
}

std::optional<double> ConfigReader::number(FieldNames names, NumberRange range) const {
  const auto name = pick(names);
  if (!name) return std::nullopt;
  const Json& value = *raw(*name);
  if (value.is_number() && in_range(value.get<double>(), range)) return value.get<double>();
  problem(*name, "must be a number " + range_text(range) + ", but is " + value_text(value));
  return std::nullopt;
}

std::optional<bool> ConfigReader::boolean(FieldNames names) const {
  const auto name = pick(names);
  if (!name) return std::nullopt;
  if (raw(*name)->is_boolean()) return raw(*name)->get<bool>();
  problem(*name, "must be true or false, but is " + value_text(*raw(*name)));
  return std::nullopt;
}

std::optional<std::string> ConfigReader::text(FieldNames names) const {
  const auto name = pick(names);
  if (!name) return std::nullopt;
  if (raw(*name)->is_string()) return raw(*name)->get<std::string>();
  problem(*name, "must be a string, but is " + value_text(*raw(*name)));
  return std::nullopt;
}

std::optional<std::vector<double>> ConfigReader::numbers(FieldNames names,
                                                         NumberRange range) const {
  const auto name = pick(names);
  if (!name) return std::nullopt;
  const Json& value = *raw(*name);
  std::vector<double> list;
  bool good = value.is_array();
  for (std::size_t i = 0; good && i < value.size(); ++i) {
    good = value[i].is_number() && in_range(value[i].get<double>(), range);
    if (good) list.push_back(value[i].get<double>());
  }
  if (good) return list;
  problem(*name,
          "must be a list of numbers " + range_text(range) + ", but is " + value_text(value));
  return std::nullopt;
}

std::optional<std::vector<std::string>> ConfigReader::texts(FieldNames names) const {
  const auto name = pick(names);
  if (!name) return std::nullopt;
  const Json& value = *raw(*name);
  std::vector<std::string> list;
  bool good = value.is_array();
  for (std::size_t i = 0; good && i < value.size(); ++i) {
    good = value[i].is_string();
    if (good) list.push_back(value[i].get<std::string>());
  }
  if (good) return list;
  problem(*name, "must be a list of strings, but is " + value_text(value));
  return std::nullopt;
}

std::int64_t ConfigReader::integer_or(FieldNames names, std::int64_t fallback,
                                      IntegerRange range) const {
  return integer(names, range).value_or(fallback);
}

double ConfigReader::number_or(FieldNames names, double fallback, NumberRange range) const {
  return number(names, range).value_or(fallback);
}

bool ConfigReader::boolean_or(FieldNames names, bool fallback) const {
  return boolean(names).value_or(fallback);
}

std::string ConfigReader::text_or(FieldNames names, const std::string& fallback) const {
  return text(names).value_or(fallback);
}

std::int64_t ConfigReader::required_integer(FieldNames names, IntegerRange range) const {
  if (!pick(names)) {
    problem(*names.begin(), "is missing");
    return 1;
  }
  return integer(names, range).value_or(1);
}

std::int64_t ConfigReader::integer_of_class(std::string_view key, std::int64_t class_default,
                                            IntegerRange range) const {
  if (has(key)) return integer({key}, range).value_or(1);
  left_out_.push_back(std::string(key) + " " + std::to_string(class_default));
  return class_default;
}

std::optional<ConfigReader> ConfigReader::section(std::string_view key) const {
  const Json* value = raw(key);
  if (!value) return std::nullopt;
  return ConfigReader(*value, *problems_, prefix_ + std::string(key) + ".");
}

void ConfigReader::problem(std::string_view key, const std::string& sentence) const {
  problems_->add(prefix_ + std::string(key), sentence);
}

std::optional<std::string> remote_code_notice(const ConfigReader& config) {
  const Json* map = config.raw("auto_map");
  if (!map) return std::nullopt;
  return "the configuration names Python code of its own (auto_map " + value_text(*map) +
         "); Python code is never run, the weights are read by model_type alone";
}

void check_heads(ConfigProblems& problems, std::int64_t hidden_size, std::int64_t heads,
                 std::int64_t key_heads, std::optional<std::int64_t> head_dim) {
  if (heads < 1) return problems.add("num_attention_heads", "must be at least 1");
  if (key_heads < 1 || heads % key_heads != 0) {
    problems.add("num_key_value_heads", std::to_string(key_heads) + " does not divide the " +
                                            std::to_string(heads) + " heads");
  }
  if (!head_dim && hidden_size % heads != 0) {
    problems.add(
        "num_attention_heads",
        std::to_string(heads) + " does not divide the hidden size " + std::to_string(hidden_size));
  }
}

}  // namespace phasescope::formats
