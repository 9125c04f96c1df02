#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::formats {

// What a tokenizer looks for in a text: a literal, or a regular expression as the reference's
// library (Oniguruma) understands it, carried out by PCRE2.
class Pattern {
 public:
  struct Part {
    std::size_t begin, end;
    bool matches;
  };

  static Pattern literal(const std::string& text);
  // `where` names the key for errors. Throws Error "bad_input" for expressions that are none, and
  // for the few of Oniguruma's forms that PCRE2 has no like of (nested classes, &&).
  static Pattern regex(const std::string& expression, const std::string& where);

  // The whole text cut into what matches and what lies between, in order; one empty part for an
  // empty text. The text must be valid UTF-8. Throws Error "bad_input" where the expression needs
  // more steps than any sensible one does.
  std::vector<Part> parts(std::string_view text) const;

 private:
  struct Code;

  std::vector<Part> literal_parts(std::string_view text) const;

  std::string literal_;
  std::shared_ptr<const Code> code_;  // null for literals
};

// The expression in PCRE2's words: classes by the reference's version of Unicode, quantifiers that
// mean something else there. `where` as above.
std::string pcre_of_oniguruma(std::string_view expression, const std::string& where);

}  // namespace phasescope::formats
