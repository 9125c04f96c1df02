// The bits of the 16-bit types against the definitions of IEEE 754 and bfloat16.

#include "tests/kernels/half_types.h"

#include <gtest/gtest.h>

#include <limits>

namespace phasescope::kernels::testing {
namespace {

TEST(HalfTypes, HaveTheBitsOfTheStandard) {
  // IEEE 754 binary16: 1, -2, the largest, the least normal, the least, halfway cases to even.
  EXPECT_EQ(to_float16(0.0f), 0);
  EXPECT_EQ(to_float16(-0.0f), 0x8000);
  EXPECT_EQ(to_float16(1.0f), 0x3C00);
  EXPECT_EQ(to_float16(-2.0f), 0xC000);
  EXPECT_EQ(to_float16(65504.0f), 0x7BFF);
  EXPECT_EQ(to_float16(65520.0f), 0x7C00);
  EXPECT_EQ(to_float16(0x1p-14f), 0x0400);
  EXPECT_EQ(to_float16(0x1p-24f), 0x0001);
  EXPECT_EQ(to_float16(0x1p-25f), 0x0000);
  EXPECT_EQ(to_float16(1 + 0x1p-11f), 0x3C00);
  EXPECT_EQ(to_float16(1 + 0x3p-11f), 0x3C02);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(to_bfloat16(0.0f), 0);
  EXPECT_EQ(to_bfloat16(1.0f), 0x3F80);
  EXPECT_EQ(to_bfloat16(1 + 0x1p-8f), 0x3F80);
  EXPECT_EQ(to_bfloat16(1 + 0x3p-8f), 0x3F82);
}

TEST(HalfTypes, ComeBackFromEveryBitPattern) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_float16(pattern))) {
      ASSERT_EQ(to_float16(from_float16(pattern)), pattern);
    }
    if (!std::isnan(from_bfloat16(pattern))) {
      ASSERT_EQ(to_bfloat16(from_bfloat16(pattern)), pattern);
    }
  }
}

}  // namespace
}  // namespace phasescope::kernels::testing
