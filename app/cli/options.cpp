#include "app/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "app/cli/given_input.h"
#include "formats/error.h"
#include "protocol/input_options.h"

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

std::int64_t integer(std::string_view text, const std::string& option) {
  return number<std::int64_t>(text, option, "a whole number");
}

std::int64_t integer_between(std::string_view text, const std::string& option, std::int64_t low,
                             std::int64_t high) {
  const std::int64_t value = integer(text, option);
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

// An empty word, as a variable of the shell that is not set leaves, would stand for the default:
// the option would be dropped.
const std::string& given_word(const std::string& word, const std::string& name) {
  if (word.empty()) {
    throw formats::bad_usage("expected a word but got \"\"", name, "give one or leave it out");
  }
  return word;
}

const std::vector<std::string>& given_words(const std::vector<std::string>& words,
                                            const std::string& name) {
  for (const std::string& word : words) given_word(word, name);
  return words;
}

// What the parser gives where an option's value was left out: no word of a command line has it.
const std::string kLeftOut(1, '\0');

// What the parser calls with a given word, or words; `value` takes them.
template <class Value>
auto word_into(Value& value, const std::string& name) {
  return [&value, name](const std::string& word) { value = given_word(word, name); };
}

auto words_into(std::vector<std::string>& values, const std::string& name) {
  return
      [&values, name](const std::vector<std::string>& words) { values = given_words(words, name); };
}

// What protocol::kInputOptions read, in their order.
constexpr std::array<nlohmann::json (*)(const std::string&), protocol::kInputOptions.size()>
    kInputReaders{input_of_file, input_of_prompt, input_of_ids, input_of_tensors, input_of_sample};

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

// The field that says which request it is to which another belongs.
const protocol::BoundField* owner_among(const std::vector<protocol::BoundField>& fields,
                                        const protocol::BoundField& field) {
  const std::string key = protocol::detail::owner_of(field.about).key;
  return &*std::ranges::find(fields, key, &protocol::BoundField::key);
}

bool owns_any(const std::vector<protocol::BoundField>& fields, const protocol::BoundField& owner) {
  return std::ranges::any_of(fields, [&](const protocol::BoundField& field) {
    return protocol::detail::owner_of(field.about).key == owner.key;
  });
}

// The same field, which takes nothing where it does not belong to the request. Given as it is by
// default it is given all the same.
protocol::BoundField refusing(protocol::BoundField field, const protocol::BoundField& owner) {
  const auto require = [field, owner] { protocol::detail::require_belonging(field, {owner}); };
  field.parse = [require, parse = field.parse](const std::string& word) { require(), parse(word); };
  field.read = [require, read = field.read](const nlohmann::json& value) {
    require(), read(value);
  };
  return field;
}

// The same field, with something done once its word is read.
protocol::BoundField then(protocol::BoundField field, const std::function<void()>& done) {
  field.parse = [done, parse = field.parse](const std::string& word) { parse(word), done(); };
  return field;
}

struct Belonging {
  protocol::BoundField field, owner;
  std::vector<CLI::Option*> options;
};

// An option of no group is not listed by the help.
void hide_what_does_not_belong(const std::vector<Belonging>& all) {
  for (const Belonging& one : all) {
    if (protocol::detail::belongs(one.field, {one.owner})) continue;
    for (CLI::Option* option : one.options) option->group("");
  }
}

}  // namespace

void Options::argument(const std::string& name, std::string& value, const std::string& help,
                       bool required) {
  parser_.add_option_function<std::string>(name, word_into(value, name), help)->required(required);
}

void Options::arguments(const std::string& name, std::vector<std::string>& values,
                        const std::string& help, bool required) {
  parser_.add_option_function<std::vector<std::string>>(name, words_into(values, name), help)
      ->required(required);
}

void Options::option(const std::string& name, std::string& value, const std::string& help) {
  parser_.add_option_function<std::string>(name, word_into(value, name), help);
}

void Options::option(const std::string& name, std::optional<std::string>& value,
                     const std::string& help) {
  parser_.add_option_function<std::string>(name, word_into(value, name), help);
}

// The parser's own conversion clamps what is too large, and a clamped seed or length is a wrong
// one.
void Options::option(const std::string& name, std::int64_t& value, const std::string& help,
                     std::int64_t low, std::int64_t high) {
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
  keep_values(parser_.add_option(name, value, help)->check(CLI::IsMember(allowed)), allowed);
}

void Options::keep_values(const CLI::Option* option, const std::vector<std::string>& values) {
  if (values_ && !values.empty()) (*values_)[option] = values;
}

void Options::repeated(const std::string& name, std::vector<std::string>& values,
                       const std::string& help) {
  parser_.add_option_function<std::vector<std::string>>(name, words_into(values, name), help)
      ->expected(1)
      ->take_all();
}

void Options::flag(const std::string& name, bool& value, const std::string& help) {
  parser_.add_flag(name, value, help);
}

Options::Declared Options::declare_argument(protocol::BoundField field, Arguments arguments) {
  const std::string name = field.about.argument, help = help_of(field);
  const bool required = field.about.required && arguments == Arguments::needed;
  if (field.kind != protocol::FieldKind::list) {
    const auto parse = [field, name](const std::string& word) {
      field.parse(given_word(word, name));
    };
    return {parser_.add_option_function<std::string>(name, parse, help)->required(required)};
  }
  // A word is a name as it is: a path may hold commas and parentheses.
  const auto read = [field, name](const std::vector<std::string>& words) {
    field.read(nlohmann::json(given_words(words, name)));
  };
  return {
      parser_.add_option_function<std::vector<std::string>>(name, read, help)->required(required)};
}

Options::Declared Options::declare_input(const protocol::BoundField& field) {
  Declared declared;
  // One of them; given empty is not the same as not given: an empty text is refused.
  const auto taken = std::make_shared<bool>(false);
  const std::vector<std::string> kinds = protocol::choices_of(field.about);
  const std::vector<std::string> names = protocol::names_of_input_options(kinds);
  for (std::size_t n = 0; n < protocol::kInputOptions.size(); ++n) {
    const protocol::InputOption& option = protocol::kInputOptions[n];
    if (!protocol::takes(kinds, option)) continue;
    const auto read = [field, taken, names, input = kInputReaders[n]](const std::string& word) {
      if (std::exchange(*taken, true)) {
        throw formats::bad_usage("give " + protocol::in_words(names) + ", not several");
      }
      field.read(input(word));
    };
    declared.push_back(parser_.add_option_function<std::string>(option.name, read, option.help));
  }
  return declared;
}

Options::Declared Options::declare(protocol::BoundField field, Arguments arguments) {
  using protocol::FieldKind;
  if (field.about.wire_only) return {};
  if (*field.about.argument) return declare_argument(std::move(field), arguments);
  if (field.kind == FieldKind::object) return declare_input(field);
  const std::string name = protocol::option_name(field.key), help = help_of(field);
  if (field.kind == FieldKind::flag) {
    return {parser_.add_flag_callback(
        name, [field] { field.read(true); }, help)};
  }
  // Numbers, lists and choices say themselves what they expect.
  const bool any_word = field.type == "a word" && protocol::choices_of(field.about).empty();
  const bool may_be_left_out = field.kind == FieldKind::optional_value;
  const auto read = [field, name, any_word,
                     may_be_left_out](const std::vector<std::string>& words) {
    if (words.empty()) given_word("", name);
    for (const std::string& word : words) {
      if (may_be_left_out && word == kLeftOut) {
        field.read(true);
        continue;
      }
      if (any_word || may_be_left_out) given_word(word, name);
      field.parse(word);
    }
  };
  CLI::Option* option = parser_.add_option_function<std::vector<std::string>>(name, read, help)
                            ->type_name(value_name_of(field));
  // The text keeps what stands for a left out value out of the help.
  if (may_be_left_out) {
    option->expected(0, 1)->default_str(kLeftOut)->option_text(value_name_of(field));
  }
  if (field.kind == FieldKind::repeated) option->expected(1)->take_all();
  if (field.kind == FieldKind::value || field.kind == FieldKind::list) option->expected(1);
  // A word behind the value is an argument: "--texts 0:4:2 none".
  if (field.kind != FieldKind::optional_value) option->allow_extra_args(false);
  keep_values(option, protocol::choices_of(field.about));
  return {option};
}

// Values are read in the order of the fields: what says which request this is comes before what
// belongs to some requests alone.
void Options::declare_all(const std::vector<protocol::BoundField>& fields, Arguments arguments,
                          const std::vector<std::string>& only) {
  const auto belonging = std::make_shared<std::vector<Belonging>>();
  const auto declared = [&only](const std::string& key) {
    return only.empty() || std::ranges::find(only, key) != only.end();
  };
  for (protocol::BoundField field : fields) {
    if (!declared(field.key)) continue;
    // The verb sees to what is no option of it.
    if (!declared(field.about.needs)) field.about.needs = "";
    if (*field.about.of) {
      const protocol::BoundField* owner = owner_among(fields, field);
      belonging->push_back({field, *owner, declare(refusing(field, *owner), arguments)});
    } else if (owns_any(fields, field)) {
      declare(then(field, [belonging] { hide_what_does_not_belong(*belonging); }), arguments);
    } else {
      declare(field, arguments);
    }
  }
}

std::vector<std::int64_t> integer_range(const std::string& text, const std::string& option) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw formats::bad_usage("expected BEGIN:END but got \"" + text + "\"", option);
  }
  const std::string_view view(text);
  return {integer(view.substr(0, colon), option), integer(view.substr(colon + 1), option)};
}

}  // namespace phasescope::app
