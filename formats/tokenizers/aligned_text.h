#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer.h"

namespace phasescope::formats {

// A text in the making (normalised, marked, cut) that knows for each of its bytes from which bytes
// of the text that was given it comes. Untouched stretches of a text need no list for that.
class AlignedText {
 public:
  AlignedText() = default;
  // Bytes as they stand in the given text, the first of them at `begin`.
  explicit AlignedText(std::string_view text, std::size_t begin = 0) : text_(text), base_(begin) {}

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  std::size_t size() const { return text_.size(); }
  // Where in the given text this piece was cut out; normalising it does not move that.
  std::size_t cut_at() const { return cut_at_; }

  // Bytes [first, last) as a piece of their own.
  AlignedText cut(std::size_t first, std::size_t last) const;
  // What bytes [first, last) come from; empty where they were all put in.
  TextSpan origin(std::size_t first, std::size_t last) const;

  // For building the next form of `from`: takes over its bytes [first, last) ...
  void take(const AlignedText& from, std::size_t first, std::size_t last);
  // ... or puts in text that stands for its bytes [first, last).
  void put(std::string_view made, const AlignedText& from, std::size_t first, std::size_t last);
  // An empty text with the place of `from`.
  static AlignedText like(const AlignedText& from);

 private:
  struct Origin {
    std::uint32_t begin, end;
  };

  Origin origin_at(std::size_t at) const;
  void spell_out();  // the list of origins instead of the base

  std::string text_;
  std::vector<Origin> origins_;  // empty: byte i is the given text's byte base_ + i
  std::size_t base_ = 0;
  std::size_t cut_at_ = 0;
};

}  // namespace phasescope::formats
