#include "formats/formula/tokens.h"

#include <charconv>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formula {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
// Whether this byte continues a character of several bytes.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

class Words {
 public:
  explicit Words(const std::string& text) : text_(text) {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    for (skip_space(); at_ < text_.size(); skip_space()) tokens.push_back(next());
    Token end;
    end.column = column_;
    tokens.push_back(std::move(end));
    return tokens;
  }

 private:
  void step(std::size_t bytes) {
    for (std::size_t n = 0; n < bytes; ++n) {
      ++at_;
      if (at_ >= text_.size() || !continues(text_[at_])) ++column_;
    }
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) step(1);
  }

  Token next() {
    const char c = text_[at_];
    if (is_letter(c)) return name();
    if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      return number();
    }
    return sign();
  }

  Token taken(Token::Kind kind, std::size_t bytes) {
    Token token;
    token.kind = kind, token.text = text_.substr(at_, bytes), token.column = column_;
    step(bytes);
    return token;
  }

  Token name() {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    return taken(Token::Kind::name, end - at_);
  }

  Token number() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail_at(text_, column_, "this number is too large or too small");
    Token token = taken(Token::Kind::number, static_cast<std::size_t>(end - begin));
    token.number = value;
    return token;
  }

  Token sign() {
    for (const char* two : {"<=", ">=", "=="}) {
      if (text_.compare(at_, 2, two) == 0) return taken(Token::Kind::sign, 2);
    }
    if (std::string("~[](),;=+-*/^:<>").find(text_[at_]) != std::string::npos) {
      return taken(Token::Kind::sign, 1);
    }
    std::size_t end = at_ + 1;
    while (end < text_.size() && continues(text_[end])) ++end;
    fail_at(text_, column_,
            formats::in_quotes(text_.substr(at_, end - at_)) + " has no meaning in a formula");
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int column_ = 1;
};

}  // namespace

std::vector<Token> tokens_of(const std::string& text) { return Words(text).all(); }

void fail_at(const std::string& text, int column, const std::string& sentence,
             const std::string& hint) {
  int line = 1, first = 1, here = 1;
  for (std::size_t n = 0; n < text.size() && here < column; ++n) {
    if (text[n] == '\n') ++line, first = here + 1;
    if (n + 1 >= text.size() || !continues(text[n + 1])) ++here;
  }
  const bool several = text.find('\n') != std::string::npos;
  const std::string place = several ? "line " + std::to_string(line) + ", " : "";
  throw formats::bad_input(place + "column " + std::to_string(column - first + 1) + ": " + sentence,
                           "formula", hint);
}

}  // namespace phasescope::formula
