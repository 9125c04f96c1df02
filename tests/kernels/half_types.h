#pragma once
// The 16-bit floating types by their bits: round to nearest even.

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/attention.h"

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
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255u : static_cast<std::uint32_t>(exponent + 112);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

inline std::uint16_t to_float16(float x) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  if (std::isnan(x)) return 0x7FFF;
  const float a = std::abs(x);
  if (a >= 65520) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (a < 0x1p-14f) {  // steps of 2^-24
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint32_t>(std::nearbyint(a * 0x1p24f)));
  }
  const auto bits = std::bit_cast<std::uint32_t>(a);
  const std::uint32_t rounded = bits + 0xFFF + ((bits >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

/// One of them.
struct HalfFormat {
  std::uint16_t (*to)(float);
  float (*from)(std::uint16_t);
  double epsilon;  ///< half a unit in the last place of 1

  float round(float x) const { return from(to(x)); }
};

/// Of a storage that is not float32.
inline const HalfFormat& half_type(Storage storage) {
  static constexpr HalfFormat kBfloat16{to_bfloat16, from_bfloat16, 0x1p-9};
  static constexpr HalfFormat kFloat16{to_float16, from_float16, 0x1p-12};
  return storage == Storage::bfloat16 ? kBfloat16 : kFloat16;
}

}  // namespace phasescope::kernels::testing
