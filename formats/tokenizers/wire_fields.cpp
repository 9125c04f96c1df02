#include "formats/tokenizers/wire_fields.h"

#include <bit>

#include "formats/error.h"

namespace phasescope::formats {

void WireFields::fail(const std::string& message) const {
  throw bad_input(message, where_ + ", byte " + std::to_string(offset_ + at_));
}

std::uint64_t WireFields::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ >= message_.size()) fail("the file is cut short");
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than ten bytes");
}

std::string_view WireFields::take(std::uint64_t count) {
  if (count > message_.size() - at_) fail("the file is cut short, or is no SentencePiece model");
  const std::string_view bytes = message_.substr(at_, count);
  at_ += count;
  return bytes;
}

bool WireFields::next() {
  if (at_ >= message_.size()) return false;
  const std::uint64_t tag = varint();
  number_ = tag >> 3;
  if (number_ == 0) fail("the file is damaged: a field has the number 0");
  bytes_ = {};
  integer_ = 0;
  switch (tag & 7) {
    case 0:
      integer_ = varint();
      return true;
    case 1:
      bytes_ = take(8);
      return true;
    case 2:
      bytes_ = take(varint());
      return true;
    case 5:
      bytes_ = take(4);
      return true;
    default:
      fail("the file is no SentencePiece model");
  }
}

float WireFields::real() const {
  if (bytes_.size() != 4) fail("a number has the wrong type");
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    bits |= std::uint32_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
  }
  return std::bit_cast<float>(bits);
}

WireFields WireFields::message() const {
  if (bytes_.data() == nullptr) fail("a part has the wrong type");
  return {bytes_, where_, offset_ + static_cast<std::size_t>(bytes_.data() - message_.data())};
}

}  // namespace phasescope::formats
