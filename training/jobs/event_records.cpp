#include "training/jobs/event_records.h"

#include <bit>

#include "protocol/crc32c.h"

namespace phasescope::training {
namespace {

// Kinds of a field in protobuf's wire form.
enum WireKind : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthPrefixed = 2, kFixed32 = 5 };

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int n = 0; n < bytes; ++n) text += static_cast<char>((value >> (8 * n)) & 0xff);
  return text;
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7f) | 0x80);
  text += static_cast<char>(value);
  return text;
}

std::string field(std::uint32_t number, WireKind kind, const std::string& value) {
  return varint((std::uint64_t{number} << 3) | kind) + value;
}

std::string prefixed(std::uint32_t number, std::string_view value) {
  return field(number, kLengthPrefixed, varint(value.size()) + std::string(value));
}

std::string timed(const EventTime& time) {
  return field(1, kFixed64, little_endian(std::bit_cast<std::uint64_t>(time.wall), 8)) +
         field(2, kVarint, varint(static_cast<std::uint64_t>(time.step)));
}

// So that sums over data that holds sums stay apart (TFRecord's own reason).
std::uint32_t masked_crc(const std::string& bytes) {
  const std::uint32_t crc = protocol::crc32c(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string record(const std::string& event) {
  const std::string length = little_endian(event.size(), 8);
  return length + little_endian(masked_crc(length), 4) + event +
         little_endian(masked_crc(event), 4);
}

}  // namespace

std::string version_record(double wall) {
  return record(timed({wall, 0}) + prefixed(3, "brain.Event:2"));
}

std::string restart_record(const EventTime& time) {
  constexpr std::uint64_t kStart = 1;  // SessionLog.START
  return record(timed(time) + prefixed(7, field(1, kVarint, varint(kStart))));
}

std::string scalars_record(const EventTime& time,
                           std::span<const std::pair<std::string, double>> values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    summary += prefixed(1, prefixed(1, tag) + field(2, kFixed32, little_endian(bits, 4)));
  }
  return record(timed(time) + prefixed(5, summary));
}

}  // namespace phasescope::training
