#include "formats/tokenizers/aligned_text.h"

#include <algorithm>

namespace phasescope::formats {

AlignedText AlignedText::cut(std::size_t first, std::size_t last) const {
  AlignedText piece(std::string_view(text_).substr(first, last - first), base_ + first);
  if (!origins_.empty()) {
    piece.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(first),
                          origins_.begin() + static_cast<std::ptrdiff_t>(last));
  }
  piece.cut_at_ = first < last ? origin_at(first).begin : cut_at_;
  return piece;
}

AlignedText::Origin AlignedText::origin_at(std::size_t at) const {
  if (!origins_.empty()) return origins_[at];
  const auto begin = static_cast<std::uint32_t>(base_ + at);
  return {begin, begin + 1};
}

TextSpan AlignedText::origin(std::size_t first, std::size_t last) const {
  if (first >= last) return {};
  if (origins_.empty()) return {base_ + first, base_ + last};
  TextSpan span{origins_[first].begin, origins_[first].end};
  for (std::size_t at = first + 1; at < last; ++at) {
    if (origins_[at].begin == origins_[at].end) continue;  // put in
    if (span.begin == span.end) span = {origins_[at].begin, origins_[at].end};
    span.begin = std::min<std::size_t>(span.begin, origins_[at].begin);
    span.end = std::max<std::size_t>(span.end, origins_[at].end);
  }
  return span;
}

void AlignedText::spell_out() {
  if (!origins_.empty()) return;
  origins_.reserve(text_.size());
  for (std::size_t at = 0; at < text_.size(); ++at) {
    const auto begin = static_cast<std::uint32_t>(base_ + at);
    origins_.push_back({begin, begin + 1});
  }
}

void AlignedText::take(const AlignedText& from, std::size_t first, std::size_t last) {
  if (first >= last) return;
  if (text_.empty() && from.origins_.empty()) base_ = from.base_ + first;
  const bool goes_on =
      from.origins_.empty() && origins_.empty() && base_ + text_.size() == from.base_ + first;
  if (!goes_on) {
    spell_out();
    for (std::size_t at = first; at < last; ++at) origins_.push_back(from.origin_at(at));
  }
  text_.append(from.text_, first, last - first);
}

void AlignedText::put(std::string_view made, const AlignedText& from, std::size_t first,
                      std::size_t last) {
  if (made.empty()) return;
  spell_out();
  TextSpan span = from.origin(first, last);
  if (first >= last) {  // between two bytes: at the next one's begin, or after the last one
    const std::size_t at = first < from.size() ? from.origin_at(first).begin
                           : from.empty()      ? from.base_
                                               : from.origin_at(from.size() - 1).end;
    span = {at, at};
  }
  const Origin origin{static_cast<std::uint32_t>(span.begin), static_cast<std::uint32_t>(span.end)};
  origins_.insert(origins_.end(), made.size(), origin);
  text_ += made;
}

AlignedText AlignedText::like(const AlignedText& from) {
  AlignedText made;
  made.base_ = from.base_;
  made.cut_at_ = from.cut_at_;
  return made;
}

}  // namespace phasescope::formats
