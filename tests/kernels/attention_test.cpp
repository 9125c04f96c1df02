// Forward and backward of every variant against float64, over sizes, head dimensions, groups, masks.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

void expect_right(const Problem& problem) {
  SCOPED_TRACE(problem_name(problem));
  Case c(problem);
  c.forward();
  Reference<double> truth(c.inputs);
  Reference<float> plain(c.inputs);
  expect_close("out", c.out, plain.out, truth.out);
  expect_close("lse", c.lse, plain.lse, truth.lse, 8, 1);
  if (problem.kind == Kind::tape) {
    expect_close("out_state", c.out_state, plain.out_state, truth.out_state);
  }
  c.backward();
  // A phase of hundreds of radians carries its relative rounding as an absolute error hundreds of
  // times larger into sine and cosine; a small problem's plain error may be lucky.
  const bool phases = problem.kind == Kind::tapa || problem.kind == Kind::tapa_linear;
  const double floor = phases ? 256 : 16;
  const auto* tape = std::get_if<TapeGradients>(&c.gradients.variant);
  const InputTensor d_state = tape ? tape->d_out_state : InputTensor{};
  truth.backward(c.saved.d_out, d_state);
  plain.backward(c.saved.d_out, d_state);
  expect_close("dq", c.dq, plain.dq, truth.dq, floor, 1);
  expect_close("dk", c.dk, plain.dk, truth.dk, floor, 1);
  expect_close("dv", c.dv, plain.dv, truth.dv, floor, 1);
  if (!c.d_state.empty()) expect_close("d_state", c.d_state, plain.d_state, truth.d_state, floor, 1);
  if (!c.d_table.empty()) expect_close("d_table", c.d_table, plain.d_table, truth.d_table, floor, 1);
  if (!c.d_w1.empty()) {
    expect_close("d_w1", c.d_w1, plain.d_w1, truth.d_w1, floor, 1);
    expect_close("d_b1", c.d_b1, plain.d_b1, truth.d_b1, floor, 1);
    expect_close("d_w2", c.d_w2, plain.d_w2, truth.d_w2, floor, 1);
    // A row's d score sums to 0, so d_b2 is 0 but for the rounding of its rows.
    const AttentionShape& s = problem.shape;
    const double rows = static_cast<double>(s.batch * s.queries);
    expect_close("d_b2", c.d_b2, plain.d_b2, truth.d_b2, floor, rows);
  }
}

constexpr std::int64_t kSizes[] = {1, 2, 17, 63, 64, 65, 81, 127, 128, 129, 1000};
constexpr std::int64_t kDims[] = {8, 16, 32, 48, 64, 80, 96, 128, 256};

class EveryVariant : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryVariant, IsRightAtEverySize) {
  std::size_t dim = 0;
  for (const std::int64_t size : kSizes) {
    Problem problem{GetParam()};
    const std::int64_t heads = size == 1000 ? 1 : 2;
    problem.shape = {1, heads, heads, size, size, kDims[dim++ % 6]};
    if (size == 1000) problem.shape.head_dim = 16;
    expect_right(problem);
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryVariant, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
