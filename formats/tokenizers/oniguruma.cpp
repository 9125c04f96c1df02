#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iterator>

#include "formats/error.h"
#include "formats/tokenizers/pattern.h"
#include "formats/tokenizers/unicode.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// White_Space; PCRE2's \s has U+180E too.
constexpr const char* kSpace =
    "\\t-\\r "
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
constexpr const char* kNotSpace =
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}!-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}"
    "\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{"
    "10FFFF}";

std::string ranges_text(const std::vector<CodePoints>& ranges) {
  std::string text;
  for (const auto& [first, last] : ranges) {
    char piece[32];
    std::snprintf(piece, sizeof piece, "\\x{%X}-\\x{%X}", static_cast<unsigned>(first),
                  static_cast<unsigned>(last));
    text += piece;
  }
  return text;
}

std::vector<CodePoints> without(const std::vector<CodePoints>& ranges) {
  std::vector<CodePoints> rest;
  char32_t next = 0;
  const auto add = [&rest](char32_t first, char32_t last) {
    if (first <= std::min<char32_t>(last, 0xD7FF)) {
      rest.emplace_back(first, std::min<char32_t>(last, 0xD7FF));
    }
    if (std::max<char32_t>(first, 0xE000) <= last) {
      rest.emplace_back(std::max<char32_t>(first, 0xE000), last);
    }
  };
  for (const auto& [first, last] : ranges) {
    if (first > next) add(next, first - 1);
    next = last + 1;
  }
  if (next <= 0x10FFFF) add(next, 0x10FFFF);
  return rest;
}

struct LongName {
  const char* name;
  const char* category;
};

// Long names, spelled without case, spaces, "-" and "_".
constexpr LongName kLongNames[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
};
constexpr const char* kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
    "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",
    "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn",
};

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// "Lu" for "Lu", "lu" and "Uppercase_Letter"; empty for what is no category.
std::string category_named(std::string_view name) {
  const std::string plain = plain_name(name);
  for (const char* category : kCategories) {
    if (plain == plain_name(category)) return category;
  }
  for (const LongName& known : kLongNames) {
    if (plain == known.name) return known.category;
  }
  return {};
}

// What a set is inside [...].
std::string category_set(const std::string& category) {
  if (category[0] == 'C') return ranges_text(code_points_of(category));
  return "\\p{" + category + "}" + ranges_text(newer_code_points(category));
}

// \w: letters, marks, digits, letter numbers, connectors, and these.
constexpr const char* kWordCategories[] = {"L", "M", "Nd", "Nl", "Pc"};
constexpr CodePoints kOtherWords[] = {{0xB2, 0xB3},      {0xB9, 0xB9},       {0xBC, 0xBE},
                                      {0x24B6, 0x24E9},  {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
                                      {0x1F170, 0x1F189}};

std::string word_set() {
  std::string set = ranges_text({std::begin(kOtherWords), std::end(kOtherWords)});
  for (const char* category : kWordCategories) set += category_set(category);
  return set;
}

std::vector<CodePoints> word_code_points() {
  std::vector<CodePoints> all(std::begin(kOtherWords), std::end(kOtherWords));
  for (const char* category : kWordCategories) {
    const auto more = code_points_of(category);
    all.insert(all.end(), more.begin(), more.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

class Translator {
 public:
  Translator(std::string_view expression, const std::string& where)
      : in_(expression), where_(where) {}

  std::string translate() {
    while (at_ < in_.size()) step();
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw bad_input(
        "the regular expression " + in_quotes(in_) + " has " + what + ", which is not supported",
        where_);
  }

  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void step() {
    const char c = in_[at_];
    if (in_class_ ? c == ']' && at_ > class_begin_ : c == '[') {
      in_class_ ? close_class() : open_class();
    } else if (c == '\\') {
      escape();
    } else if (in_class_) {
      class_character();
    } else if (c == '{') {
      interval();
    } else {
      plain_character();
    }
  }

  void open_class() {
    begin_atom();
    in_class_ = true;
    out_ += in_[at_++];
    if (next_is("^")) out_ += in_[at_++];
    class_begin_ = at_;
    if (next_is("]")) {  // a "]" that comes first is one of the set
      out_ += "\\]";
      ++at_;
    }
  }

  void close_class() {
    in_class_ = false;
    out_ += in_[at_++];
  }

  void class_character() {
    if (next_is("&&")) refuse("an intersection (&&)");
    if (next_is("[:")) return posix_class();
    if (next_is("[")) refuse("a class in a class");
    out_ += in_[at_++];
  }

  void posix_class() {
    const std::size_t end = in_.find(":]", at_);
    if (end == std::string_view::npos) refuse("a [: without its :]");
    const std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    if (name == "space") {
      out_ += kSpace;
    } else if (name == "digit") {
      out_ += category_set("Nd");
    } else if (name == "word") {
      out_ += word_set();
    } else {
      refuse("[:" + std::string(name) + ":]");  // PCRE2 counts other characters to most of these
    }
    at_ = end + 2;
  }

  void plain_character() {
    const char c = in_[at_];
    if (c == '(') {
      groups_.push_back(out_.size());
    } else if (c == ')' && !groups_.empty()) {
      atom_ = groups_.back();
      groups_.pop_back();
    } else if (c != '?' && c != '*' && c != '+') {
      begin_atom();
    }
    const std::size_t length = utf8_char_at(in_, at_).length;
    out_ += in_.substr(at_, length);
    at_ += length;
  }

  void begin_atom() { atom_ = out_.size(); }

  // "{,n}" is "{0,n}" there; "{n}+" is a repeated repetition, not a possessive one.
  void interval() {
    std::size_t end = at_ + 1;
    while (end < in_.size() &&
           (std::isdigit(static_cast<unsigned char>(in_[end])) || in_[end] == ',')) {
      ++end;
    }
    const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    const bool is_one = end < in_.size() && in_[end] == '}' && !inside.empty() && inside != ",";
    if (!is_one) {
      begin_atom();
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += inside[0] == ',' ? "{0" + std::string(inside) + "}" : "{" + std::string(inside) + "}";
    at_ = end + 1;
    if (!next_is("+")) return;
    out_.insert(atom_, "(?:");
    out_ += ')';
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("a \\ at its end");
    if (!in_class_) begin_atom();
    const char c = in_[at_ + 1];
    if (c == 'p' || c == 'P') return property();
    at_ += 2;
    switch (c) {
      case 's':
        return set(kSpace);
      case 'S':
        return in_class_ ? set(kNotSpace) : negated_set(kSpace);
      case 'd':
        return set(category_set("Nd"));
      case 'D':
        return in_class_ ? set(ranges_text(without(code_points_of("Nd"))))
                         : negated_set(category_set("Nd"));
      case 'w':
        return set(word_set());
      case 'W':
        return in_class_ ? set(ranges_text(without(word_code_points()))) : negated_set(word_set());
      case 'b':
      case 'B':
        return boundary(c == 'b');
      case 'h':
        return set("0-9a-fA-F");
      case 'H':
        if (in_class_) refuse("\\H in a class");
        return negated_set("0-9a-fA-F");
      case 'x':
        return hexadecimal();
      case 'u':
        out_ += "\\x{" + std::string(in_.substr(at_, 4)) + "}";
        at_ = std::min(at_ + 4, in_.size());
        return;
      default:
        out_ += '\\';
        const std::size_t length = utf8_char_at(in_, at_ - 1).length;
        out_ += in_.substr(at_ - 1, length);
        at_ += length - 1;
    }
  }

  // By the words of \w; in a class \b is the backspace.
  void boundary(bool is_one) {
    if (in_class_) {
      out_ += is_one ? "\\x08" : "B";
      return;
    }
    const std::string word = "[" + word_set() + "]";
    out_ += is_one ? "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))"
                   : "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
  }

  // "\x{...}" and "\xHH" mean the same in both.
  void hexadecimal() {
    const std::size_t end = next_is("{") ? in_.find('}', at_) : std::string_view::npos;
    const std::size_t length = end == std::string_view::npos ? 0 : end + 1 - at_;
    out_ += "\\x" + std::string(in_.substr(at_, length));
    at_ += length;
  }

  void set(const std::string& inside) { out_ += in_class_ ? inside : "[" + inside + "]"; }
  void negated_set(const std::string& inside) { out_ += "[^" + inside + "]"; }

  void property() {
    bool negated = in_[at_ + 1] == 'P';
    const std::size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string_view::npos) {
      refuse("a \\p without {...}");
    }
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    at_ = end + 1;
    const std::string category = category_named(name);
    if (category.empty()) return script(name, negated);
    if (!negated) return set(category_set(category));
    if (!in_class_) return negated_set(category_set(category));
    set(ranges_text(without(code_points_of(category))));
  }

  // Script, not Script_Extensions.
  void script(std::string_view name, bool negated) {
    const std::string plain = plain_name(name);
    const bool is_property = plain == "any" || plain == "alphabetic" || plain == "alpha" ||
                             plain == "whitespace" || plain == "uppercase" || plain == "lowercase";
    if (plain == "space" || plain == "whitespace") {
      if (negated && in_class_) return set(kNotSpace);
      return negated ? negated_set(kSpace) : set(kSpace);
    }
    if (plain == "han" && !negated) {
      return set("\\p{sc:Han}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}");
    }
    out_ += std::string(negated ? "\\P{" : "\\p{") + (is_property ? "" : "sc:") +
            (plain == "alpha" ? "Alphabetic" : std::string(name)) + "}";
  }

  std::string_view in_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::size_t class_begin_ = 0;
  std::size_t atom_ = 0;             // where the last atom begins in out_
  std::vector<std::size_t> groups_;  // where the open groups begin
};

}  // namespace

std::string pcre_of_oniguruma(std::string_view expression, const std::string& where) {
  return Translator(expression, where).translate();
}

}  // namespace phasescope::formats
