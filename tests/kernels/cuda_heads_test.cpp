// Sizes of heads of the CUDA form: wide ones, of more than 128 channels, and values of another
// width than keys.

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/expect_right.h"

namespace phasescope::kernels::testing {
namespace {

class CudaHeadSizes : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
#ifdef PHASESCOPE_CUDA_EMULATION
    emulated_capability = 90;
#endif
  }
  void TearDown() override {
#ifdef PHASESCOPE_CUDA_EMULATION
    emulated_capability = 80;
#endif
  }

  /// Types in turn, and probes every other time.
  void check(const Problem& problem) {
    SCOPED_TRACE("value_dim " + std::to_string(problem.shape.value_dim));
    expect_right(kTypes[turn_ % 2], problem, turn_ / 2 % 2 == 1);
    ++turn_;
  }
  std::size_t turn_ = static_cast<std::size_t>(GetParam());
};

/// On a device whose blocks have room for the gradients of 256 channels, if there is one.
class CudaWideHeads : public CudaHeadSizes {
 protected:
  void SetUp() override {
    CudaHeadSizes::SetUp();
    if (IsSkipped()) return;
    if (cuda_capability() == 86 || cuda_capability() == 89) {
      GTEST_SKIP() << "A block of this device has too little shared memory";
    }
  }
};

struct Widths {
  std::int64_t channels, values;  // values 0: as many
};

// Both padded sizes (192 with 128, 256) full and in part; neither a multiple of 64. The largest of
// each kind has one of them.
TEST_P(CudaWideHeads, AreRightAtEverySize) {
  const Widths widths[] = {{192, 128}, {256, 0}, {160, 0}, {136, 72}, {40, 200}};
  const auto check_one = [&](std::int64_t size, const Widths& width) {
    Problem problem{GetParam()};
    problem.shape = {1, size > 20 ? 2 : 1, 1, size, size, width.channels, width.values};
    check(problem);
  };
  for (const std::int64_t size : {1, 17, 65}) {
    for (const Widths& width : widths) check_one(size, width);
  }
  for (const std::int64_t size : {81, 129}) check_one(size, widths[turn_ % 5]);
}

// Of each padded size both types, with probes and without; keys beyond a tile on both sides.
TEST_P(CudaWideHeads, AreRightInEveryForm) {
  for (const auto [channels, values] : {Widths{192, 128}, Widths{256, 0}}) {
    for (const HalfType& type : kTypes) {
      Problem problem{GetParam()};
      problem.shape = {1, 1, 1, 19, 70, channels, values, false, 20};
      expect_right(type, problem, true);
      expect_right(type, problem, false);
    }
  }
}

// Masks know nothing of channels: together, of two texts.
TEST_P(CudaWideHeads, AreRightWithMasksCapsSinksAndGates) {
  for (const auto [channels, values] : {Widths{192, 128}, Widths{256, 0}}) {
    Problem problem{.kind = GetParam(), .soft_cap = 1.5f, .sinks = Sinks::even};
    problem.shape = {1, 2, 2, 70, 70, channels, values, true, 0, 40};
    problem.padding = Padding::holes;
    problem.gates = Gates::by_channel;
    check(problem);
    problem.documents = Documents::packed;
    problem.shape = {2, 1, 1, 40, 90, channels, values, true, 50};
    problem.gates = Gates::by_row;
    check(problem);
    problem = {GetParam()};
    problem.shape = {1, 1, 1, 70, 20, channels, values, true, -30};  // rows that see no key
    check(problem);
  }
}

class CudaWideTables : public CudaWideHeads {};

// One block a head takes all queries, one stretch of 64 after the other.
TEST_P(CudaWideTables, SumTheirGradients) {
  for (const auto [channels, values] : {Widths{192, 128}, Widths{256, 0}}) {
    Problem problem{GetParam()};
    problem.shape = {1, 1, 1, 150, 70, channels, values, true, -10};
    Case c(problem);
    expect_right(kTypes[turn_++ % 2], problem, c, false,
                 [](CudaAttention& a) { a.table_bytes = 1; });
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaWideHeads,
                         ::testing::Values(Kind::plain, Kind::table, Kind::table_signed),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Kernels, CudaWideTables,
                         ::testing::Values(Kind::table, Kind::table_signed),
                         [](const auto& info) { return kind_name(info.param); });

// Wider values and narrower ones, whose padded size both follow from the wider.
TEST_P(CudaHeadSizes, HaveValuesOfAnotherWidth) {
  for (const auto [channels, values] : {Widths{24, 72}, Widths{72, 24}, Widths{48, 16}}) {
    Problem problem{.kind = GetParam()};
    problem.shape = {1, 2, 1, 19, 71, channels, values, true, 52};
    problem.gates = channels == 48 ? Gates::by_channel : Gates::none;
    check(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaHeadSizes, ::testing::ValuesIn(kinds_but_cape()),
                         [](const auto& info) { return kind_name(info.param); });

TEST(CudaChecks, ListTheSizesOfHeads) {
  const auto padded = [](std::int64_t channels, std::int64_t values) {
    return cuda_padded_heads(channels, values);
  };
  EXPECT_EQ(padded(80, 0).channels, 128);
  EXPECT_EQ(padded(8, 128).channels, 128);
  EXPECT_EQ(padded(192, 128).channels, 192);
  EXPECT_EQ(padded(192, 128).values, 128);
  EXPECT_EQ(padded(192, 0).channels, 256);
  EXPECT_EQ(padded(64, 256).channels, 256);
  for (const auto& [channels, values] :
       {Widths{264, 0}, Widths{64, 264}, Widths{100, 0}, Widths{64, 60}, Widths{0, 0}}) {
    EXPECT_FALSE(padded(channels, values).exist()) << channels << " " << values;
  }
}

std::string refusal_of(const auto& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(CudaChecks, RefuseHeadsThatHaveNoForm) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  const auto forward = [](Kind kind, std::int64_t channels, std::int64_t values) {
    Problem problem{kind};
    problem.shape = {1, 1, 1, 5, 5, channels, values};
    return refusal_of([&] {
      Case c(problem);
      DeviceCase(kTypes[0], c).forward();
    });
  };
  EXPECT_EQ(forward(Kind::plain, 256, 0), "");
  for (const Kind kind : {Kind::tapa, Kind::table_multiplied, Kind::tokens, Kind::clamp}) {
    EXPECT_NE(forward(kind, 136, 0).find("at most 128 channels"), std::string::npos);
  }
  EXPECT_NE(forward(Kind::plain, 264, 0).find("head_dim of 1 to 256"), std::string::npos);
  EXPECT_NE(forward(Kind::plain, 64, 60).find("value_dim"), std::string::npos);
  EXPECT_NE(forward(Kind::cape, 64, 32).find("value_dim equal"), std::string::npos);
}

#ifdef PHASESCOPE_CUDA_EMULATION
// As 8.6 and 8.9 have; the forward pass and its probes of a row fit.
TEST(CudaChecks, RefuseGradientsThatABlockHasNoRoomFor) {
  Problem problem{Kind::table};
  problem.shape = {1, 1, 1, 5, 5, 256};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.forward();
  const std::string sentence = refusal_of([&] { device.backward(); });
  EXPECT_NE(sentence.find("163 KiB of shared memory"), std::string::npos) << sentence;
  problem.shape.head_dim = 192, problem.shape.value_dim = 128;
  Case narrower(problem);
  DeviceCase fits(kTypes[0], narrower);
  fits.forward();
  EXPECT_NO_THROW(fits.backward());
}
#endif

}  // namespace
}  // namespace phasescope::kernels::testing
