#include "protocol/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace phasescope::protocol {

namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b] is the effect of byte b standing k bytes before the end of an eight-byte word.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

std::uint64_t load_word(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint32_t one_byte(std::uint32_t crc, std::byte byte) {
  return (crc >> 8) ^ tables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes,
                                                               std::uint32_t crc) {
  std::uint64_t wide = crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) wide = _mm_crc32_u64(wide, load_word(bytes.data() + i));
  crc = static_cast<std::uint32_t>(wide);
  for (; i < bytes.size(); ++i) crc = one_byte(crc, bytes[i]);
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = load_word(bytes.data() + i) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; i < bytes.size(); ++i) crc = one_byte(crc, bytes[i]);
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~by_instruction(bytes, ~before);
#endif
  return crc32c_by_tables(bytes, before);
}

}  // namespace phasescope::protocol
