#include "app/cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "formats/error.h"

namespace phasescope::app {

namespace {

template <class T>
T number(std::string_view text, const std::string& option, const char* kind) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    throw formats::bad_usage(
        std::string("expected ") + kind + " but got \"" + std::string(text) + "\"", option);
  }
  return value;
}

int64_t integer(std::string_view text, const std::string& option) {
  return number<int64_t>(text, option, "a whole number");
}

int64_t integer_between(std::string_view text, const std::string& option, int64_t low,
                        int64_t high) {
  const int64_t value = integer(text, option);
  if (value < low || value > high) {
    throw formats::bad_usage("expected a number from " + std::to_string(low) + " to " +
                                 std::to_string(high) + " but got " + std::to_string(value),
                             option);
  }
  return value;
}

double finite(std::string_view text, const std::string& option) {
  const double value = number<double>(text, option, "a number");
  if (!std::isfinite(value)) {
    throw formats::bad_usage("expected a finite number but got " + std::string(text), option);
  }
  return value;
}

}  // namespace

void Options::argument(const std::string& name, std::string& value, const std::string& help,
                       bool required) {
  parser_.add_option(name, value, help)->required(required);
}

void Options::arguments(const std::string& name, std::vector<std::string>& values,
                        const std::string& help, bool required) {
  parser_.add_option(name, values, help)->required(required);
}

void Options::option(const std::string& name, std::string& value, const std::string& help) {
  parser_.add_option(name, value, help);
}

void Options::option(const std::string& name, std::optional<std::string>& value,
                     const std::string& help) {
  parser_.add_option_function<std::string>(
      name, [&value](const std::string& given) { value = given; }, help);
}

// The parser's own conversion clamps what is too large, and a clamped seed or length is a wrong
// one.
void Options::option(const std::string& name, int64_t& value, const std::string& help, int64_t low,
                     int64_t high) {
  parser_
      .add_option_function<std::string>(
          name,
          [&value, name, low, high](const std::string& given) {
            value = integer_between(given, name, low, high);
          },
          help)
      ->type_name("INT");
}

void Options::option(const std::string& name, double& value, const std::string& help) {
  parser_
      .add_option_function<std::string>(
          name, [&value, name](const std::string& given) { value = finite(given, name); }, help)
      ->type_name("FLOAT");
}

void Options::choice(const std::string& name, std::string& value,
                     const std::vector<std::string>& allowed, const std::string& help) {
  parser_.add_option(name, value, help)->check(CLI::IsMember(allowed));
}

void Options::repeated(const std::string& name, std::vector<std::string>& values,
                       const std::string& help) {
  parser_.add_option(name, values, help)->expected(1)->take_all();
}

void Options::flag(const std::string& name, bool& value, const std::string& help) {
  parser_.add_flag(name, value, help);
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<int64_t> integer_list(const std::string& text, const std::string& option) {
  std::vector<int64_t> values;
  for (const std::string& part : split_list(text)) values.push_back(integer(part, option));
  return values;
}

std::vector<int64_t> integer_range(const std::string& text, const std::string& option) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw formats::bad_usage("expected BEGIN:END but got \"" + text + "\"", option);
  }
  const std::string_view view(text);
  return {integer(view.substr(0, colon), option), integer(view.substr(colon + 1), option)};
}

}  // namespace phasescope::app
