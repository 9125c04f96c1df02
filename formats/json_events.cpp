#include "formats/json_events.h"

#include <iterator>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// Characters of a text; counts the bytes handed out, which the JSON library does not tell handlers.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

// The part of the library's message that says what was wrong, without its code and position.
std::string reason_of(const std::string& library_message) {
  std::string text = library_message;
  for (const std::string mark : {"syntax error while ", "parse error: ", "] "}) {
    const auto at = text.find(mark);
    if (at == std::string::npos) continue;
    text = text.substr(at + mark.size());
    break;
  }
  return shortened(text, 160);
}

}  // namespace

void JsonEvents::parse(std::string_view text, std::size_t offset) {
  depth_ = 0;
  offset_ = offset;
  position_ = 0;
  // The library takes a zero byte for the end of the text, whatever follows it.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) refuse_at(zero, "not valid JSON: a zero byte", {});
  const CountingIterator begin(text.data(), &position_);
  const CountingIterator end(text.data() + text.size(), &position_);
  Json::sax_parse(begin, end, this);
}

bool JsonEvents::parse_error(std::size_t position, const std::string&,
                             const nlohmann::detail::exception& exception) {
  // The library counts bytes from 1.
  refuse_at(position > 0 ? position - 1 : 0, "not valid JSON: " + reason_of(exception.what()), {});
}

void JsonEvents::refuse(const std::string& sentence, const std::string& hint) const {
  refuse_at(position_ > 0 ? position_ - 1 : 0, sentence, hint);
}

void JsonEvents::refuse_at(std::size_t byte, const std::string& sentence,
                           const std::string& hint) const {
  std::string at = where_ + ", byte " + std::to_string(offset_ + byte);
  const std::string detail = place();
  if (!detail.empty()) at += ", " + detail;
  throw bad_input(sentence, at, hint);
}

bool JsonEvents::enter() {
  if (++depth_ > max_depth_) {
    refuse("JSON nested deeper than " + std::to_string(max_depth_) + " levels");
  }
  return true;
}

bool JsonEvents::leave() {
  --depth_;
  return true;
}

}  // namespace phasescope::formats
