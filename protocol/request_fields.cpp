// The types that fields of requests have: their JSON and their words on the command line.
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/base64.h"
#include "protocol/error_info.h"
#include "protocol/input_options.h"
#include "protocol/prompt_bytes.h"
#include "protocol/request.h"

namespace phasescope::protocol {

using nlohmann::json;

namespace {

using Strings = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

struct WrongValue {
  std::string message;
};

template <class T>
struct OptionalOf : std::false_type {};
template <class T>
struct OptionalOf<std::optional<T>> : std::true_type {
  using Inner = T;
};

std::string in_quotes(const std::string& word) { return "\"" + word + "\""; }

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

[[noreturn]] void expected(const std::string& wanted, const std::string& got) {
  throw WrongValue{"expected " + wanted + " but got " + got};
}

std::string number_text(double x) {
  if (x == std::floor(x) && std::abs(x) < 1e15) return std::to_string(static_cast<std::int64_t>(x));
  return json(x).dump();
}

// "from 1 to 4096", "at least 1"; empty where anything goes.
std::string range_text(const About& about) {
  const bool low = std::isfinite(about.low), high = std::isfinite(about.high);
  if (low && high) return "from " + number_text(about.low) + " to " + number_text(about.high);
  if (low) return "at least " + number_text(about.low);
  return high ? "at most " + number_text(about.high) : "";
}

// `given` is the number as it was written.
double in_range(double value, const About& about, const std::string& given) {
  if (std::isnan(value) || value < about.low || value > about.high) {
    expected("a number " + range_text(about), given);
  }
  return value;
}

std::int64_t integer_in_range(std::int64_t value, const About& about) {
  in_range(static_cast<double>(value), about, std::to_string(value));
  return value;
}

std::string among_choices(std::string word, const About& about) {
  const Strings choices = choices_of(about);
  for (const std::string& choice : choices) {
    if (choice == word) return word;
  }
  if (!choices.empty()) expected(in_words(choices), in_quotes(word));
  return word;
}

// What is said of a number with more digits than are read.
constexpr const char* kOf64Bits = " of 64 bits";

template <class T>
T number_of(std::string_view word, const char* wanted) {
  T value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole_word = !word.empty() && end == word.data() + word.size();
  if (whole_word && error == std::errc::result_out_of_range) {
    expected(wanted + std::string(kOf64Bits), std::string(word));
  }
  if (!whole_word || error != std::errc()) expected(wanted, in_quotes(std::string(word)));
  return value;
}

constexpr const char* kWhole = "a whole number";

std::int64_t integer_of(std::string_view word) { return number_of<std::int64_t>(word, kWhole); }

// `whole` is what is expected where `value`, which stands in `shown_of`, is no whole number.
std::int64_t integer_of(const json& value, const char* whole, const json& shown_of) {
  if (!value.is_number_integer()) expected(whole, shown(shown_of));
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
    expected(std::string(kWhole) + kOf64Bits, value.dump());
  }
  return value.get<std::int64_t>();
}

// The two numbers of "a:b" or "HxW".
std::pair<std::int64_t, std::int64_t> pair_of(const std::string& word, char between,
                                              const char* wanted) {
  const std::size_t at = word.find(between);
  if (at == std::string::npos) expected(wanted, in_quotes(word));
  const std::string_view view(word);
  return {integer_of(view.substr(0, at)), integer_of(view.substr(at + 1))};
}

std::pair<std::int64_t, std::int64_t> pair_of(const json& value, char between, const char* wanted) {
  if (value.is_string()) return pair_of(value.get<std::string>(), between, wanted);
  if (!value.is_array() || value.size() != 2) expected(wanted, shown(value));
  return {integer_of(value[0], wanted, value), integer_of(value[1], wanted, value)};
}

constexpr const char* kRange = "a range a:b";
constexpr const char* kSize = "a size HxW";

Range range_of(const auto& given) {
  const auto [begin, end] = pair_of(given, ':', kRange);
  if (begin < 0 || end <= begin) {
    expected("a range a:b with 0 <= a < b", std::to_string(begin) + ":" + std::to_string(end));
  }
  return {begin, end};
}

Size size_of(const auto& given, const About& about) {
  const auto [height, width] = pair_of(given, 'x', kSize);
  integer_in_range(height, about), integer_in_range(width, about);
  return {height, width};
}

Strings read_words(const json& value, const About& about) {
  if (value.is_string()) {
    Strings words = split_words(value.get<std::string>());
    for (std::string& word : words) word = among_choices(word, about);
    return words;
  }
  if (!value.is_array()) expected("a list of words", shown(value));
  Strings words;
  for (const json& item : value) {
    if (!item.is_string()) expected("a list of words", shown(value));
    words.push_back(among_choices(item.get<std::string>(), about));
  }
  return words;
}

Strings distinct_words(const Strings& words, const About& about) {
  std::set<std::string> known;
  for (const std::string& word : words) {
    if (!about.repeats && !known.insert(word).second) {
      expected("different names", in_quotes(word) + " twice");
    }
  }
  return words;
}

Integers read_integers(const json& value, const About& about) {
  Integers numbers;
  for (const json& item : value.is_array() ? value : json::array({value})) {
    numbers.push_back(integer_in_range(integer_of(item, "a list of whole numbers", value), about));
  }
  return numbers;
}

Assignments read_assignments(const json& value) {
  Assignments settings;
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      settings.list.push_back(key + "=" +
                              (item.is_string() ? item.get<std::string>() : item.dump()));
    }
    return settings;
  }
  settings.list = read_words(value.is_string() ? json::array({value}) : value, {});
  return settings;
}

Corpus read_corpus(const json& value) {
  if (value.is_boolean()) return {.asked = value.get<bool>()};
  if (value.is_string() && value != "") return {.asked = true, .path = value.get<std::string>()};
  if (value.is_array() && !value.empty()) return {.asked = true, .texts = value};
  expected("true or the path of a file, a folder or a .jsonl file", shown(value));
}

std::string joined(const Strings& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

// The words that give the same input on the command line; none where it has no option for it.
Strings input_words(const Input& input) {
  // What --sample drew is named after it.
  constexpr std::string_view sample = "sample ";
  if (input.name.starts_with(sample)) return {kSampleOption.name, input.name.substr(sample.size())};
  if (input.prompt) return {kPromptOption.name, *input.prompt};
  if (input.base64 && input.name == kNameOfPromptBytes) {
    return {kPromptOption.name, formats::decoded_base64(*input.base64, kPromptOption.name)};
  }
  if (input.inputs) return {kInputsOption.name, *input.inputs};
  if (!input.ids.is_null()) return {kIdsOption.name, input.name.empty() ? "ids.json" : input.name};
  if (input.corpus.is_string()) return {"--corpus", input.corpus.get<std::string>()};
  if (input.corpus == json(true)) return {"--corpus"};
  const bool text = input.text || input.base64 || !input.name.empty();
  return text ? Strings{kTextOption.name, input.name.empty() ? "text.txt" : input.name} : Strings{};
}

}  // namespace

Strings choices_of(const About& about) { return split_choices(about.choices); }

Strings split_choices(const std::string& choices) {
  Strings words;
  for (std::size_t begin = 0; begin < choices.size();) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    words.push_back(choices.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string in_words(const Strings& choices) {
  std::string text;
  for (std::size_t n = 0; n < choices.size(); ++n) {
    text += (n == 0 ? "" : n + 1 < choices.size() ? ", " : " or ") + choices[n];
  }
  return text;
}

Strings split_words(const std::string& text) {
  Strings words(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth <= 0) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

namespace detail {

void naming(const std::string& where, const std::function<void()>& step) {
  const auto refuse = [&](const std::string& message) {
    throw RequestError({std::string(error_code::bad_usage), message, where, ""});
  };
  try {
    step();
  } catch (const WrongValue& wrong) {
    refuse(wrong.message);
  } catch (const json::exception& wrong) {
    refuse(wrong.what());
  }
}

void add_to(std::vector<BoundField>& fields, BoundField field) {
  fields.push_back(std::move(field));
}

template <class T>
BoundField FieldType<T>::bound(const char* name, T& member, const About& about) {
  BoundField field;
  field.key = name, field.about = about;
  field.kind = kind(), field.type = type(about);
  field.write = [&member] { return write(member); };
  field.read = [&member, about, key = field.key](const nlohmann::json& value) {
    naming(key, [&] { member = read(value, about); });
  };
  field.parse = [&member, about, where = *about.argument ? about.argument : option_name(name)](
                    const std::string& word) {
    naming(where, [&] {
      if constexpr (requires { member.list; }) {  // repeated: one word each time
        for (std::string& one : parse(word, about).list) member.list.push_back(std::move(one));
      } else {
        member = parse(word, about);
      }
    });
  };
  field.words = [&member] { return words(member); };
  return field;
}

template <class T>
FieldKind FieldType<T>::kind() {
  if constexpr (OptionalOf<T>::value) return FieldType<typename OptionalOf<T>::Inner>::kind();
  if constexpr (std::is_same_v<T, bool>) return FieldKind::flag;
  if constexpr (std::is_same_v<T, Strings> || std::is_same_v<T, Integers>) return FieldKind::list;
  if constexpr (std::is_same_v<T, Assignments>) return FieldKind::repeated;
  if constexpr (std::is_same_v<T, Corpus>) return FieldKind::optional_value;
  if constexpr (std::is_same_v<T, Input> || std::is_same_v<T, json>) return FieldKind::object;
  return FieldKind::value;
}

template <class T>
std::string FieldType<T>::type(const About& about) {
  const std::string range = range_text(about);
  if constexpr (OptionalOf<T>::value) return FieldType<typename OptionalOf<T>::Inner>::type(about);
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::int64_t>) return kWhole;
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, Strings>) return "words";
  if constexpr (std::is_same_v<T, Integers>) return "whole numbers";
  if constexpr (std::is_same_v<T, Range>) return "[a, b]";
  if constexpr (std::is_same_v<T, Size>) return "[H, W]";
  if constexpr (std::is_same_v<T, Assignments>) return "settings";
  if constexpr (std::is_same_v<T, Corpus>) return "true or a path";
  if constexpr (std::is_same_v<T, Input> || std::is_same_v<T, json>) return "an object";
  return "a word";
}

template <class T>
json FieldType<T>::write(const T& value) {
  if constexpr (OptionalOf<T>::value) {
    using Inner = typename OptionalOf<T>::Inner;
    return value ? FieldType<Inner>::write(*value) : json(nullptr);
  } else if constexpr (std::is_same_v<T, Range>) {
    return {value.begin, value.end};
  } else if constexpr (std::is_same_v<T, Size>) {
    return {value.height, value.width};
  } else if constexpr (std::is_same_v<T, Assignments>) {
    return value.list;
  } else if constexpr (std::is_same_v<T, Corpus>) {
    return value.asked ? value.form() : json(false);
  } else if constexpr (std::is_same_v<T, Input>) {
    Input copy = value, defaults;
    return written(bound_fields(copy), bound_fields(defaults));
  } else {
    return value;
  }
}

template <class T>
T FieldType<T>::read(const json& value, const About& about) {
  if constexpr (OptionalOf<T>::value) {
    if (value.is_null()) return std::nullopt;
    return FieldType<typename OptionalOf<T>::Inner>::read(value, about);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) expected("true or false", shown(value));
    return value.get<bool>();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    if (value.is_boolean() && about.when_true != 0) return value.get<bool>() ? about.when_true : 0;
    return integer_in_range(integer_of(value, kWhole, value), about);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) expected("a number", shown(value));
    return in_range(value.get<double>(), about, value.dump());
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) expected("a word", shown(value));
    return among_choices(value.get<std::string>(), about);
  } else if constexpr (std::is_same_v<T, Strings>) {
    return distinct_words(read_words(value, about), about);
  } else if constexpr (std::is_same_v<T, Integers>) {
    return read_integers(value, about);
  } else if constexpr (std::is_same_v<T, Range>) {
    return range_of(value);
  } else if constexpr (std::is_same_v<T, Size>) {
    return size_of(value, about);
  } else if constexpr (std::is_same_v<T, Assignments>) {
    return read_assignments(value);
  } else if constexpr (std::is_same_v<T, Corpus>) {
    return read_corpus(value);
  } else if constexpr (std::is_same_v<T, Input>) {
    Input input;
    read_into(bound_fields(input), value, "input");
    return input;
  } else {
    return value;
  }
}

template <class T>
T FieldType<T>::parse(const std::string& word, const About& about) {
  if constexpr (OptionalOf<T>::value) {
    return FieldType<typename OptionalOf<T>::Inner>::parse(word, about);
  } else if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return integer_in_range(integer_of(word), about);
  } else if constexpr (std::is_same_v<T, double>) {
    const auto value = number_of<double>(word, "a number");
    if (!std::isfinite(value)) expected("a finite number", word);
    return in_range(value, about, word);
  } else if constexpr (std::is_same_v<T, Strings>) {
    Strings words = split_words(word);
    if (words.empty()) expected("words", in_quotes(word));
    for (std::string& one : words) one = among_choices(one, about);
    return words;
  } else if constexpr (std::is_same_v<T, Integers>) {
    const Strings words = split_words(word);
    if (words.empty()) expected("whole numbers", in_quotes(word));
    Integers numbers;
    for (const std::string& one : words) {
      numbers.push_back(integer_in_range(integer_of(one), about));
    }
    return numbers;
  } else if constexpr (std::is_same_v<T, Range>) {
    return range_of(word);
  } else if constexpr (std::is_same_v<T, Size>) {
    return size_of(word, about);
  } else if constexpr (std::is_same_v<T, Assignments>) {
    return {{word}};
  } else if constexpr (std::is_same_v<T, Corpus>) {
    return {.asked = true, .path = word};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return among_choices(word, about);
  } else {
    throw WrongValue{"an object has no word on the command line"};
  }
}

template <class T>
Strings FieldType<T>::words(const T& value) {
  if constexpr (OptionalOf<T>::value) {
    return value ? FieldType<typename OptionalOf<T>::Inner>::words(*value) : Strings{};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {value};
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return {std::to_string(value)};
  } else if constexpr (std::is_same_v<T, double>) {
    return {number_text(value)};
  } else if constexpr (std::is_same_v<T, Strings>) {
    return {joined(value)};
  } else if constexpr (std::is_same_v<T, Integers>) {
    Strings words;
    for (const std::int64_t number : value) words.push_back(std::to_string(number));
    return {joined(words)};
  } else if constexpr (std::is_same_v<T, Range>) {
    return {std::to_string(value.begin) + ":" + std::to_string(value.end)};
  } else if constexpr (std::is_same_v<T, Size>) {
    return {std::to_string(value.height) + "x" + std::to_string(value.width)};
  } else if constexpr (std::is_same_v<T, Assignments>) {
    return value.list;
  } else if constexpr (std::is_same_v<T, Corpus>) {
    return value.path.empty() ? Strings{} : Strings{value.path};
  } else if constexpr (std::is_same_v<T, Input>) {
    return input_words(value);
  } else {
    return {};
  }
}

template struct FieldType<bool>;
template struct FieldType<std::optional<bool>>;
template struct FieldType<std::int64_t>;
template struct FieldType<std::optional<std::int64_t>>;
template struct FieldType<double>;
template struct FieldType<std::optional<double>>;
template struct FieldType<std::string>;
template struct FieldType<std::optional<std::string>>;
template struct FieldType<Strings>;
template struct FieldType<Integers>;
template struct FieldType<std::optional<Integers>>;
template struct FieldType<Range>;
template struct FieldType<std::optional<Range>>;
template struct FieldType<Size>;
template struct FieldType<Assignments>;
template struct FieldType<Corpus>;
template struct FieldType<Input>;
template struct FieldType<json>;

}  // namespace detail

std::vector<FieldInfo> described(const std::vector<BoundField>& fields) {
  std::vector<FieldInfo> all;
  for (const BoundField& field : fields) {
    const json value = field.write();
    const bool empty = value.is_null() || value == json("") || value == json::array() ||
                       value == json::object() || value == json(false);
    const std::string owner = in_words(detail::owner_of(field.about).values);
    std::string help = (owner.empty() ? "" : "of " + owner + ": ") + field.about.help;
    if (*field.about.needs) help += " (with " + option_name(field.about.needs) + ")";
    all.push_back({field.key, field.type, empty ? "" : value.dump(), std::move(help),
                   in_words(choices_of(field.about)), range_text(field.about),
                   field.about.wire_only});
  }
  return all;
}

}  // namespace phasescope::protocol
