#include "app/cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "app/cli/given_input.h"
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

// "what it does: a, b or c, from 1 to 10 (default: 2)"
std::string help_of(const protocol::BoundField& field) {
  const protocol::FieldInfo info = protocol::described({field}).front();
  std::string help = info.help;
  if (!info.choices.empty()) help += ": " + info.choices;
  if (!info.range.empty()) help += ", " + info.range;
  const std::vector<std::string> words = field.words();
  // A number below its own range stands for what the help says of it.
  const bool stands_in = info.fallback == "0" && field.about.low > 0;
  const bool said = help.find("default") != std::string::npos || info.fallback.empty();
  if (!said && !stands_in && !words.empty()) help += " (default: " + words.front() + ")";
  return help;
}

// What the help shows behind an option's name.
std::string value_name_of(const protocol::BoundField& field) {
  static const std::map<std::string, std::string> names = {
      {"a whole number", "INT"}, {"a number", "FLOAT"},       {"[a, b]", "A:B"},
      {"[H, W]", "HxW"},         {"words", "LIST"},           {"whole numbers", "LIST"},
      {"settings", "KEY=VALUE"}, {"true or a path", "[PATH]"}};
  const auto found = names.find(field.type);
  return found == names.end() ? "TEXT" : found->second;
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

void Options::declare_argument(protocol::BoundField field, Arguments arguments) {
  const std::string name = field.about.argument, help = help_of(field);
  const bool required = field.about.required && arguments == Arguments::needed;
  if (field.kind != protocol::FieldKind::list) {
    parser_.add_option_function<std::string>(name, field.parse, help)->required(required);
    return;
  }
  // A word is a name as it is: a path may hold commas and parentheses.
  const auto read = [field](const std::vector<std::string>& words) {
    field.read(nlohmann::json(words));
  };
  parser_.add_option_function<std::vector<std::string>>(name, read, help)->required(required);
}

void Options::declare_input(const protocol::BoundField& field) {
  // One of the five; given empty is not the same as not given: an empty text is refused.
  const auto taken = std::make_shared<bool>(false);
  const auto add = [&](const char* option, const char* help,
                       nlohmann::json (*input)(const std::string&)) {
    const auto read = [field, taken, input](const std::string& word) {
      if (std::exchange(*taken, true)) {
        throw formats::bad_usage(
            "give one of --text, --prompt, --ids, --inputs, --sample, not several");
      }
      field.read(input(word));
    };
    parser_.add_option_function<std::string>(option, read, help);
  };
  add("--text", "file to read (- is standard input)", input_of_file);
  add("--prompt", "the text itself", input_of_prompt);
  add("--ids", "JSON file: a list of token ids, or several, each a text (capture: of equal length)",
      input_of_ids);
  add("--inputs", "safetensors file: input_ids (B, N), masks, positions, token types",
      [](const std::string& path) {
        return nlohmann::json{{"inputs", path}};
      });
  add("--sample", "a sample of a task: TASK, TASK:SEED or TASK:SEED:LENGTH", input_of_sample);
}

void Options::declare(protocol::BoundField field, Arguments arguments) {
  using protocol::FieldKind;
  if (field.about.wire_only) return;
  if (*field.about.argument) return declare_argument(std::move(field), arguments);
  if (field.kind == FieldKind::object) return declare_input(field);
  const std::string name = protocol::option_name(field.key), help = help_of(field);
  if (field.kind == FieldKind::flag) {
    parser_.add_flag_callback(
        name, [field] { field.read(true); }, help);
    return;
  }
  const auto read = [field](const std::vector<std::string>& words) {
    if (words.empty() ||
        (words.size() == 1 && words[0].empty() && field.kind == FieldKind::optional_value)) {
      field.read(true);
    }
    for (const std::string& word : words) {
      if (!word.empty() || field.kind != FieldKind::optional_value) field.parse(word);
    }
  };
  CLI::Option* option = parser_.add_option_function<std::vector<std::string>>(name, read, help)
                            ->type_name(value_name_of(field));
  if (field.kind == FieldKind::optional_value) option->expected(0, 1);
  if (field.kind == FieldKind::repeated) option->expected(1)->take_all();
  if (field.kind == FieldKind::value || field.kind == FieldKind::list) option->expected(1);
  // A word behind the value is an argument: "--texts 0:4:2 none".
  if (field.kind != FieldKind::optional_value) option->allow_extra_args(false);
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
