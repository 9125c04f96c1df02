#pragma once

#include <string>
#include <vector>

namespace phasescope::formula {

// A word of a formula: a name, a number, or a sign ("<=", "(").
struct Token {
  enum class Kind { name, number, sign, end };
  Kind kind = Kind::end;
  std::string text;
  double number = 0;
  int column = 1;  // of its first character, from 1, over the whole text
};

// The words of a text, the last of them its end. Throws formats::Error "bad_input" with a column.
std::vector<Token> tokens_of(const std::string& text);

// Throws formats::Error "bad_input" with the column, and the line where the text has several.
[[noreturn]] void fail_at(const std::string& text, int column, const std::string& sentence,
                          const std::string& hint = {});

}  // namespace phasescope::formula
