#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace phasescope::formats {

// The fields of a protobuf message, one after the other. Source: protobuf's encoding specification.
class WireFields {
 public:
  // `where` names the file for errors; `offset` is where in it the message begins.
  WireFields(std::string_view message, const std::string& where, std::size_t offset = 0)
      : message_(message), where_(where), offset_(offset) {}

  // Reads the next field; false at the end. Throws Error "bad_input" with the byte offset.
  bool next();

  std::uint64_t number() const { return number_; }  // of the field that was read
  std::uint64_t integer() const { return integer_; }
  float real() const;  // of a four-byte field
  std::string_view bytes() const { return bytes_; }
  WireFields message() const;  // bytes() as a message of its own

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t count);
  [[noreturn]] void fail(const std::string& message) const;

  std::string_view message_;
  const std::string& where_;
  std::size_t offset_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0, integer_ = 0;
  std::string_view bytes_;
};

}  // namespace phasescope::formats
