// Byte offsets of a frame's preamble, shared by the writer and the reader of frames only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace phasescope::protocol {

namespace layout {
inline constexpr std::size_t version = 8;
inline constexpr std::size_t type = 10;
inline constexpr std::size_t flags = 12;
inline constexpr std::size_t reserved = 14;  // 16 bit, zero
inline constexpr std::size_t id = 16;
inline constexpr std::size_t header_bytes = 24;
inline constexpr std::size_t reserved_too = 28;  // 32 bit, zero
inline constexpr std::size_t payload_bytes = 32;
inline constexpr std::size_t crc = 40;  // of the 40 bytes before it

inline constexpr std::uint16_t memory_file_flag = 1;
}  // namespace layout

// Tensors start at multiples of this in the payload and in the memory file.
inline constexpr std::size_t tensor_alignment = 64;

constexpr std::size_t aligned(std::size_t at) {
  return (at + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

template <class Unsigned>
void store_little(std::span<std::byte> bytes, std::size_t at, Unsigned value) {
  static_assert(std::is_unsigned_v<Unsigned>);
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <class Unsigned>
Unsigned load_little(std::span<const std::byte> bytes, std::size_t at) {
  static_assert(std::is_unsigned_v<Unsigned>);
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(value | static_cast<Unsigned>(bytes[at + i]) << (8 * i));
  }
  return value;
}

}  // namespace phasescope::protocol
