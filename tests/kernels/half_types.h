#pragma once
// The 16-bit floating types by their bits: round to nearest even.

#include <bit>
#include <cmath>
#include <cstdint>

namespace phasescope::kernels::testing {

inline std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

inline float from_float16(std::uint16_t x) {
  const int exponent = (x >> 10) & 31;
  const std::uint32_t mantissa = x & 1023u;
  const std::uint32_t sign = (x & 0x8000u) << 16;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255u : static_cast<std::uint32_t>(exponent + 112);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

inline std::uint16_t to_float16(float x) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  if (std::isnan(x)) return 0x7FFF;
  const float a = std::abs(x);
  if (a == 0) return static_cast<std::uint16_t>(sign);
  if (a >= 65520) return static_cast<std::uint16_t>(sign | 0x7C00);
  int exponent = 0;
  std::frexp(a, &exponent);
  const int shift = exponent - 11 > -24 ? exponent - 11 : -24;  // of the last bit kept
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(a, -shift)));
  const std::uint32_t bits =
      shift == -24 ? steps : (static_cast<std::uint32_t>(shift + 24) << 10) + steps;
  return static_cast<std::uint16_t>(bits | sign);
}

}  // namespace phasescope::kernels::testing
