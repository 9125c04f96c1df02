#include "formats/tokenizers/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <chrono>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxPattern = 1 << 16;
constexpr std::uint32_t kMatchLimit = 10'000'000;  // steps of one attempt
constexpr std::chrono::seconds kTimeLimit{10};     // for every megabyte or part of one
constexpr std::size_t kAttemptsBetweenLooks = 256;

struct Freed {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Code {
  std::unique_ptr<pcre2_code, Freed> regex;
  std::string where;
};

namespace {

// One walk over one text.
class Walk {
 public:
  Walk(const pcre2_code* regex, std::string_view text, const std::string& where)
      : regex_(regex),
        text_(text),
        where_(where),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        until_(Clock::now() + kTimeLimit * (1 + (text.size() >> 20))) {
    if (!data_ || !context_) throw std::bad_alloc();
    const std::size_t limit = kMatchLimit + 8 * text.size();
    pcre2_set_match_limit(context_.get(),
                          static_cast<std::uint32_t>(std::min<std::size_t>(limit, 1u << 31)));
  }

  // The first match that begins at or after `at`; false where there is none.
  bool find(std::size_t at, std::size_t& begin, std::size_t& end) {
    while (true) {
      if (matches_at(at)) {
        // \K may move the beginning to before the search's.
        const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data_.get());
        begin = std::max<std::size_t>(place[0], at);
        end = std::max<std::size_t>(place[1], begin);
        return true;
      }
      if (at >= text_.size()) return false;
      at += utf8_char_at(text_, at).length;
    }
  }

 private:
  bool matches_at(std::size_t at) {
    if (++attempts_ % kAttemptsBetweenLooks == 0 && Clock::now() > until_) too_slow();
    int found = attempt(at, PCRE2_NO_UTF_CHECK);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = attempt(at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    }
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_HEAPLIMIT ||
        found == PCRE2_ERROR_DEPTHLIMIT) {
      too_slow();
    }
    if (found < 0) throw bad_input("the regular expression failed: " + message_of(found), where_);
    return true;
  }

  int attempt(std::size_t at, std::uint32_t options) {
    return pcre2_match(regex_, bytes_of(text_), text_.size(), at, options, data_.get(),
                       context_.get());
  }

  [[noreturn]] void too_slow() const {
    throw bad_input("the regular expression needs too many steps on this text", where_,
                    "it tries too many ways to match; the file that it stands in is at fault");
  }

  const pcre2_code* regex_;
  std::string_view text_;
  const std::string& where_;
  std::unique_ptr<pcre2_match_data, Freed> data_;
  std::unique_ptr<pcre2_match_context, Freed> context_;
  Clock::time_point until_;
  std::size_t attempts_ = 0;
};

void add_part(std::vector<Pattern::Part>& parts, std::size_t begin, std::size_t end, bool matches,
              std::size_t& done) {
  if (done != begin) parts.push_back({done, begin, false});
  parts.push_back({begin, end, matches});
  done = end;
}

}  // namespace

Pattern Pattern::literal(const std::string& text) {
  if (text.empty()) return regex("", "an empty pattern");
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

Pattern Pattern::regex(const std::string& expression, const std::string& where) {
  if (expression.size() > kMaxPattern) {
    throw bad_input("the regular expression is longer than 65536 bytes", where);
  }
  const std::string own = pcre_of_oniguruma(expression, where);
  int error = 0;
  PCRE2_SIZE at = 0;
  // Anchored, because a walk of our own can look at the clock between two attempts.
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  const auto code = std::make_shared<Code>();
  code->regex.reset(pcre2_compile(bytes_of(own), own.size(), options, &error, &at, nullptr));
  if (!code->regex) {
    throw bad_input(
        "the regular expression " + in_quotes(expression) + " cannot be read: " + message_of(error),
        where);
  }
  pcre2_jit_compile(code->regex.get(), PCRE2_JIT_COMPLETE);  // without it: slower, the same result
  code->where = where;
  Pattern pattern;
  pattern.code_ = code;
  return pattern;
}

std::vector<Pattern::Part> Pattern::literal_parts(std::string_view text) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos;) {
    add_part(parts, at, at + literal_.size(), true, done);
    at += literal_.size();
  }
  if (done != text.size()) parts.push_back({done, text.size(), false});
  return parts;
}

std::vector<Pattern::Part> Pattern::parts(std::string_view text) const {
  if (text.empty()) return {{0, 0, false}};
  if (!code_) return literal_parts(text);
  Walk walk(code_->regex.get(), text, code_->where);
  std::vector<Part> parts;
  std::size_t at = 0, done = 0, begin = 0, end = 0;
  bool any = false;
  while (at <= text.size() && walk.find(at, begin, end)) {
    if (begin == end && any && end == done) {  // no empty match right after a match
      if (at >= text.size()) break;
      at += utf8_char_at(text, at).length;
      continue;
    }
    add_part(parts, begin, end, true, done);
    at = end;
    any = true;
  }
  if (done != text.size()) parts.push_back({done, text.size(), false});
  return parts;
}

}  // namespace phasescope::formats
