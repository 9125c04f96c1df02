#pragma once
// The rows of tensors as float32, whatever they are stored in. Always inlined, so that the loops
// become instructions of the target that calls them.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/attention.h"

namespace phasescope::kernels {

inline std::int64_t storage_bytes(Storage storage) { return storage == Storage::float32 ? 4 : 2; }

/// `tensor` from its n-th number on.
template <typename Void>
Tensor4<Void> skip_numbers(Tensor4<Void> tensor, std::int64_t n) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  tensor.data = static_cast<Byte*>(tensor.data) + n * storage_bytes(tensor.storage);
  return tensor;
}

template <typename Void>
Void* row_pointer(const Tensor4<Void>& tensor, std::int64_t batch, std::int64_t head,
                  std::int64_t row) {
  return skip_numbers(tensor, batch * tensor.batch + head * tensor.head + row * tensor.row).data;
}

[[gnu::always_inline]] inline float from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

[[gnu::always_inline]] inline std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40;  // rounding could carry one to infinity
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? nan : nearest);
}

/// All bits or none.
[[gnu::always_inline]] inline std::uint32_t mask_of(bool condition) {
  return 0u - static_cast<std::uint32_t>(condition);
}

[[gnu::always_inline]] inline float from_float16(std::uint16_t x) {
  const std::uint32_t size = (x & 0x7FFFu) << 13;
  // As a float its exponent is 112 too small, and the largest one stands for no number.
  const std::uint32_t normal = (size + (112u << 23)) | (mask_of(size >= 0x0F800000) & 0x7F800000);
  // Those without a leading bit are the digits after 2^-14. (Masks, no choices: those around
  // floating-point operations keep the compiler from vectors. No operand is subnormal as a float,
  // which a thread may be set to take for 0.)
  const auto small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(size | 0x38800000) - 0x1p-14f);
  const std::uint32_t is_small = mask_of(size < 0x00800000);
  return std::bit_cast<float>((small & is_small) | (normal & ~is_small) |
                              (static_cast<std::uint32_t>(x & 0x8000u) << 16));
}

[[gnu::always_inline]] inline std::uint16_t to_float16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7FFFFFFF;
  // Exponent 112 less, and half a unit of the 13 bits that go, or a little less where the last that
  // stays is even.
  const std::uint32_t normal = (size - (112u << 23) + 0xFFF + ((size >> 13) & 1)) >> 13;
  // Below 2^-14 steps are 2^-24, the unit of floats at 0.5: the addition rounds.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3F000000;
  const std::uint32_t large = 0x7C00 | (mask_of(size > 0x7F800000) & 0x0200);  // from 65520; NaN
  const std::uint32_t is_small = mask_of(size < 0x38800000);
  const std::uint32_t is_large = mask_of(size >= 0x477FF000);
  const std::uint32_t rounded =
      (small & is_small) | (large & is_large) | (normal & ~(is_small | is_large));
  return static_cast<std::uint16_t>(rounded | ((bits >> 16) & 0x8000));
}

/// `count` numbers from where they are stored.
[[gnu::always_inline]] inline void read_numbers(Storage storage, const void* from,
                                                std::int64_t count, float* __restrict to) {
  const auto* bits = static_cast<const std::uint16_t*>(from);
  if (storage == Storage::float32) {
    std::copy_n(static_cast<const float*>(from), count, to);
  } else if (storage == Storage::bfloat16) {
    for (std::int64_t n = 0; n < count; ++n) to[n] = from_bfloat16(bits[n]);
  } else {
    for (std::int64_t n = 0; n < count; ++n) to[n] = from_float16(bits[n]);
  }
}

/// Rounded to nearest even; overflow gives infinity, NaN stays NaN.
[[gnu::always_inline]] inline void write_numbers(Storage storage, const float* __restrict from,
                                                 std::int64_t count, void* to) {
  auto* bits = static_cast<std::uint16_t*>(to);
  if (storage == Storage::float32) {
    std::copy_n(from, count, static_cast<float*>(to));
  } else if (storage == Storage::bfloat16) {
    for (std::int64_t n = 0; n < count; ++n) bits[n] = to_bfloat16(from[n]);
  } else {
    for (std::int64_t n = 0; n < count; ++n) bits[n] = to_float16(from[n]);
  }
}

}  // namespace phasescope::kernels
