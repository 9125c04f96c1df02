#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Numbers of 4 to 16 bits as float32, which holds all of them exactly.

namespace phasescope::formats {

// IEEE 754 binary16, subnormal numbers, infinities and NaN included.
inline float f16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// OCP 8-bit floating point (OFP8, revision 1.0), table 1. E4M3 has no infinity; 0x7F and 0xFF are
// NaN, the largest number is 448.
inline float e4m3_value(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -9);
  return sign * std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
}

// E5M2 is the upper byte of a binary16.
inline float e5m2_value(std::uint8_t bits) {
  return f16_value(static_cast<std::uint16_t>(bits << 8));
}

// OCP microscaling formats (MX, revision 1.0), 5.4.1: a power of two, 2^(byte - 127); 255 is NaN.
inline float e8m0_value(std::uint8_t bits) {
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, bits - 127);
}

// OCP microscaling formats, 5.3.3: E2M1, the elements of MXFP4; code 8 is -0.
inline constexpr std::array<float, 16> kE2m1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                      4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                      -2.0f, -3.0f, -4.0f, -6.0f};

}  // namespace phasescope::formats
