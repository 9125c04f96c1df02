// The vector functions of every instruction set against float64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/vector_math_test.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "hwy/foreach_target.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// function(x) of each; their number is a multiple of every target's lanes.
template <class Function>
std::vector<float> each(const std::vector<float>& x, const Function& function) {
  std::vector<float> result(x.size());
  for (std::size_t n = 0; n < x.size(); n += static_cast<std::size_t>(kLanes)) {
    store_unaligned(function(load_unaligned(x.data() + n)), result.data() + n);
  }
  return result;
}

std::vector<float> test_exp2(const std::vector<float>& x) {
  return each(x, [](Vec v) { return exp2_any(v); });
}
std::vector<float> test_tanh(const std::vector<float>& x) {
  return each(x, [](Vec v) { return hyperbolic_tangent(v); });
}
std::vector<float> test_cosine(const std::vector<float>& x) {
  return each(x, [](Vec v) { return cosine(v); });
}
std::vector<float> test_sine(const std::vector<float>& x) {
  return each(x, [](Vec v) {
    Vec sine, other;
    sine_cosine(v, sine, other);
    return sine;
  });
}
std::vector<float> test_cosine_beside_sine(const std::vector<float>& x) {
  return each(x, [](Vec v) {
    Vec sine, other;
    sine_cosine(v, sine, other);
    return other;
  });
}

/// How many sums along the diagonals of `rows` rows are not those of a loop over all numbers: whole
/// ones, so that no sum is rounded. What lies beside the rows is NaN.
int test_diagonals(std::int64_t rows) {
  const std::int64_t pitch = 2 * kPanel;
  FloatBuffer block((rows + 2) * pitch, std::nanf(""));
  float* const first = block.data() + pitch;
  std::vector<float> want(static_cast<std::size_t>(rows + kPanel)), got = want;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const auto x = static_cast<float>((r * 131 + n * 17) % 97 - 40);
      first[r * pitch + n] = x;
      want[static_cast<std::size_t>(n - r + rows)] += x;
    }
  }
  add_diagonals(first, pitch, rows, got.data() + rows);
  int wrong = 0;
  for (std::size_t n = 0; n < want.size(); ++n) wrong += got[n] == want[n] ? 0 : 1;
  return wrong;
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasescope::kernels::testing {
namespace {

using Values = std::vector<float>;
using Function = std::function<Values(const Values&)>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kMostLanes = 16;

/// `count` (a multiple of 16) values from `first` to `last`, evenly spaced.
Values spaced(double first, double last, int count) {
  Values x;
  for (int n = 0; n < count; ++n) {
    x.push_back(static_cast<float>(first + (last - first) * n / (count - 1)));
  }
  return x;
}

/// Both signs of `count` (a multiple of 16) values from 1e-30 to `last`, each the same factor above
/// the one before.
Values graded(double last, int count) {
  Values x;
  const double step = std::log(last / 1e-30) / (count - 1);
  for (int n = 0; n < count; ++n) x.push_back(static_cast<float>(1e-30 * std::exp(step * n)));
  for (int n = 0; n < count; ++n) x.push_back(-x[static_cast<std::size_t>(n)]);
  return x;
}

/// A vector of one value; the first lane of the result.
float at(const Function& function, float x) { return function(Values(kMostLanes, x))[0]; }

/// Largest |got - want|, relative to |want| where asked; NaN counts as infinite.
double worst(const Values& x, const Function& function, double (*want)(double), bool relative) {
  const Values got = function(x);
  double most = 0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    const double right = want(static_cast<double>(x[n]));
    const double error = std::abs(static_cast<double>(got[n]) - right);
    const double of = relative ? error / std::abs(right) : error;
    if (!(of <= most)) most = std::isnan(of) ? static_cast<double>(kInfinity) : of;
  }
  return most;
}

double exact_exp2(double x) { return std::exp2(x); }
double exact_tanh(double x) { return std::tanh(x); }
double exact_sine(double x) { return std::sin(x); }
double exact_cosine(double x) { return std::cos(x); }

/// With every instruction set of this processor in turn.
class VectorMath : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!choose_target(GetParam())) GTEST_SKIP() << "not on this processor";
  }
  ~VectorMath() override { choose_target(best_); }

 private:
  const Target best_ = current_target();
};

TEST_P(VectorMath, Exp2IsAccurate) {
  const Function function = PHASESCOPE_SELECT_TARGET(test_exp2);
  // The error stated there: the polynomial's 1.6e-7 and the last roundings of 6e-8.
  EXPECT_LE(worst(spaced(-125.9, 127, 1 << 18), function, exact_exp2, true), 2.5e-7);
  EXPECT_LE(worst(spaced(-1, 1, 1 << 16), function, exact_exp2, true), 2.5e-7);
  for (const float x : {-127.5f, -1000.0f, -1e30f, -kInfinity}) EXPECT_EQ(at(function, x), 0) << x;
  // No smaller ones: subnormals slow down whatever they are multiplied by.
  for (const float y : function(spaced(-160, -100, 1 << 16))) EXPECT_TRUE(y == 0 || y >= 0x1p-127f);
  EXPECT_TRUE(std::isnan(at(function, std::nanf(""))));
}

TEST_P(VectorMath, DiagonalsAreSummed) {
  const auto wrong = PHASESCOPE_SELECT_TARGET(test_diagonals);
  for (const std::int64_t rows : {0, 1, 3, 4, 8, 15, 16, 17, 48, 128}) {
    EXPECT_EQ(wrong(rows), 0) << rows;
  }
}

TEST_P(VectorMath, TanhIsAccurate) {
  const Function function = PHASESCOPE_SELECT_TARGET(test_tanh);
  // Four roundings of 6e-8 and polynomials of up to 7.5e-8.
  EXPECT_LE(worst(graded(1e4, 1 << 16), function, exact_tanh, true), 3e-7);
  EXPECT_LE(worst(spaced(-20, 20, 1 << 16), function, exact_tanh, true), 3e-7);
  EXPECT_EQ(at(function, 0), 0);
  EXPECT_EQ(at(function, kInfinity), 1);
  EXPECT_EQ(at(function, -kInfinity), -1);
  EXPECT_TRUE(std::isnan(at(function, std::nanf(""))));
}

/// The error stated for |x| <= 2.5e4: of the reduction 1e-7, of two roundings the rest. A grid over
/// all of it, one over a few periods, and the floats beside every zero, extremum and change of n.
void expect_accurate(const Function& function, double (*want)(double)) {
  constexpr double kStated = 2e-7;
  EXPECT_LE(worst(spaced(-2.5e4, 2.5e4, 1 << 20), function, want, false), kStated);
  EXPECT_LE(worst(spaced(-20, 20, 1 << 18), function, want, false), kStated);
  Values turns;
  for (int n = 0; n < 15904; ++n) {
    const float x = static_cast<float>(n * (std::acos(-1.0) / 2));
    for (const float near : {x, std::nextafter(x, kInfinity), std::nextafter(x, -kInfinity)}) {
      turns.push_back(near);
      turns.push_back(-near);
    }
  }
  EXPECT_LE(worst(turns, function, want, false), kStated);
}

/// Too large an angle has no right digit left, but what it gives is finite; what is no number gives
/// NaN.
void expect_bounded(const Function& function) {
  for (const float x : {1e5f, 1e6f, 1.3e7f, 2e7f, 5e7f, 1e9f, 1e12f, 1e20f, 1e30f, 3.4e38f}) {
    EXPECT_LE(std::abs(at(function, x)), 1.0000002f) << x;
    EXPECT_LE(std::abs(at(function, -x)), 1.0000002f) << -x;
  }
  EXPECT_TRUE(std::isnan(at(function, kInfinity)));
  EXPECT_TRUE(std::isnan(at(function, -kInfinity)));
  EXPECT_TRUE(std::isnan(at(function, std::nanf(""))));
}

TEST_P(VectorMath, CosineIsAccurate) {
  for (const Function& function : {Function(PHASESCOPE_SELECT_TARGET(test_cosine)),
                                   Function(PHASESCOPE_SELECT_TARGET(test_cosine_beside_sine))}) {
    expect_accurate(function, exact_cosine);
    expect_bounded(function);
    // At distance 0 a phase is 0 and the score the content's own.
    EXPECT_EQ(at(function, 0), 1);
  }
}

TEST_P(VectorMath, SineIsAccurate) {
  const Function function = PHASESCOPE_SELECT_TARGET(test_sine);
  expect_accurate(function, exact_sine);
  expect_bounded(function);
  // Where nothing is reduced: two roundings of 6e-8 and the polynomial.
  EXPECT_LE(worst(graded(1.57, 1 << 16), function, exact_sine, true), 2e-7);
}

TEST(InstructionSet, IsTheOneNamedOrRefused) {
  EXPECT_EQ(best_target("scalar"), Target::scalar);
  EXPECT_EQ(best_target(""), best_target(nullptr));
  EXPECT_THROW(best_target("bogus"), std::invalid_argument);
  EXPECT_THROW(best_target("AVX2"), std::invalid_argument);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, VectorMath, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return target_name(info.param); });

}  // namespace phasescope::kernels::testing
#endif
