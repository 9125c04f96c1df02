// Relative keys beside no keys and beside a table of the products with them, and what is refused.
// That they are right is seen with all other variants.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <variant>

#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {
namespace {

// Keys of 0 add nothing; others add what the products that are made of them before do, but for the
// order of the products' sums.
TEST(RelativeKeys, AddTheProductsThatAQuerysOwnTableHas) {
  Problem problem{Kind::plain};
  problem.shape = {2, 4, 2, 150, 190, 24, 0, true, 40};
  problem.query_distances = 77;
  Case plain(problem);
  problem.kind = Kind::relative_keys;
  Case c(problem), zero(problem);
  std::fill(zero.table.begin(), zero.table.end(), 0.0f);
  for (Case* one : {&plain, &zero}) one->forward(), one->backward();
  EXPECT_EQ(zero.out, plain.out);
  EXPECT_EQ(zero.lse, plain.lse);
  EXPECT_EQ(zero.dq, plain.dq);
  EXPECT_EQ(zero.dk, plain.dk);
  EXPECT_EQ(zero.dv, plain.dv);
  problem.kind = Kind::query_table;
  Case table(problem);
  for (std::int64_t n = 0; n < 2 * 4 * 150; ++n) {
    const std::int64_t i = n % 150, h = n / 150 % 4, b = n / 600;
    for (std::int64_t lambda = 0; lambda < 77; ++lambda) {
      float sum = 0;
      for (std::int64_t d = 0; d < problem.rank; ++d) {
        sum += c.far_q[static_cast<std::size_t>(((b * 150 + i) * 4 + h) * problem.rank + d)] *
               c.table[static_cast<std::size_t>((h * problem.rank + d) * 77 + lambda)];
      }
      table.table[static_cast<std::size_t>(n * 77 + lambda)] = sum;
    }
  }
  for (Case* one : {&c, &table}) one->forward(), one->backward();
  // Of scores of about ten, sums of `rank` products in two orders: some 2^-24 of them each, times
  // values of about three, and in dq times keys and the products' sums too.
  for (std::size_t n = 0; n < c.out.size(); ++n) EXPECT_NEAR(c.out[n], table.out[n], 3e-6);
  for (std::size_t n = 0; n < c.dq.size(); ++n) EXPECT_NEAR(c.dq[n], table.dq[n], 1e-5);
}

// All heads have the same table: their queries' part is the same, and the shared table's gradient
// is the sum of theirs, of up to 4 * 2 * 150 terms of about 0.1 in two orders.
TEST(RelativeKeys, ThatHeadsShareAddUpOverThem) {
  Problem problem{Kind::relative_keys};
  problem.shape = {2, 4, 2, 150, 190, 24, 0, true, 40};
  problem.query_distances = 77;
  Case by_head(problem), shared(problem);
  const std::ptrdiff_t one = problem.rank * 77;
  for (Case* c : {&by_head, &shared}) {
    for (int h = 1; h < 4; ++h) std::copy_n(c->table.begin(), one, c->table.begin() + h * one);
  }
  std::get<RelativeKeysVariant>(shared.inputs.variant).head_stride = 0;
  for (Case* c : {&by_head, &shared}) c->forward(), c->backward();
  EXPECT_EQ(shared.out, by_head.out);
  EXPECT_EQ(shared.dq, by_head.dq);
  EXPECT_EQ(shared.dk, by_head.dk);
  EXPECT_EQ(shared.d_far_q, by_head.d_far_q);
  double largest = 0;
  for (std::ptrdiff_t n = 0; n < one; ++n) {
    double sum = 0;
    for (std::ptrdiff_t h = 0; h < 4; ++h) {
      sum += by_head.d_table[static_cast<std::size_t>(h * one + n)];
    }
    EXPECT_NEAR(shared.d_table[static_cast<std::size_t>(n)], sum, 1e-4);
    largest = std::max(largest, std::abs(sum));
  }
  EXPECT_GT(largest, 0.1);
}

TEST(RelativeKeys, AreRefusedInOneSentenceWhereTheyDoNotFit) {
  Problem problem{Kind::relative_keys};
  problem.shape = {1, 2, 1, 20, 20, 16};
  const auto expect_refused = [&](const auto& change, const std::string& sentence) {
    Case c(problem);
    change(std::get<RelativeKeysVariant>(c.inputs.variant));
    try {
      c.forward();
      ADD_FAILURE() << sentence;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()), "[attention] expected " + sentence);
    }
  };
  using Relative = RelativeKeysVariant;
  expect_refused([](Relative& r) { r.rank = 0; }, "relative keys of 1 to 512 channels but got 0");
  expect_refused([](Relative& r) { r.length = 0, r.head_stride = 0, r.clips = true; },
                 "a length of the relative keys of at least 1 but got 0");
  expect_refused([](Relative& r) { r.head_stride = 7; },
                 "relative keys that heads share or that lie head by head but got a head_stride of "
                 "7");
  expect_refused([](Relative& r) { r.keys = nullptr; },
                 "the relative keys but their pointer is null");
  expect_refused([](Relative& r) { r.r.data = nullptr; },
                 "the queries' vectors for relative keys but their pointer is null");
  Case c(problem);
  c.forward();
  c.gradients.variant = std::monostate{};
  EXPECT_THROW(c.backward(), std::invalid_argument);
}

}  // namespace
}  // namespace phasescope::kernels::testing
