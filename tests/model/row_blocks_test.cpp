// Rows in blocks that are computed again for their gradients: the numbers of one block, and memory
// that no N x N has a part in. What is read of a layer's scores takes no copy of its text either.
#include "model/attention/row_blocks.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "model/attention/attention.h"
#include "model/attention/layer_attention.h"
#include "model/attention/plain_attention.h"

namespace phasescope::model {
namespace {

at::Tensor normal_numbers(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed),
                   at::TensorOptions(at::kDouble));
}

// Gradients by `leaves` of a weighted sum of what the rows give in blocks of `step`.
std::vector<at::Tensor> gradients_in(std::int64_t step, std::int64_t rows,
                                     const std::vector<at::Tensor>& leaves,
                                     const std::function<RowFunction()>& build) {
  const at::AutoGradMode gradients(true);
  for (at::Tensor leaf : leaves) leaf.mutable_grad() = at::Tensor();
  const std::vector<at::Tensor> made = in_row_blocks(build(), rows, step);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const at::Tensor& one : made) {
    if (one.defined()) sum = sum + (one * normal_numbers(one.sizes(), 77)).sum();
  }
  sum.backward();
  std::vector<at::Tensor> list;
  for (const at::Tensor& leaf : leaves) list.push_back(leaf.grad().clone());
  return list;
}

// Blocks add up in another order: some tens of roundings of float64.
void expect_same_gradients(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) {
    const double largest = a[n].abs().max().item<double>();
    EXPECT_GT(largest, 1e-3) << n;
    EXPECT_LE((a[n] - b[n]).abs().max().item<double>(), 1e-13 * largest) << n;
  }
}

// x is a leaf, h is made of it, and q of h: rows read all three, so that what flows back to x comes
// over three ways, none of which may be counted twice.
TEST(RowBlocks, ReachWhatWasComputedBeforeOnce) {
  constexpr std::int64_t kRows = 11;
  const at::Tensor x = normal_numbers({1, 2, kRows, 3}, 1).requires_grad_(true);
  const at::Tensor w = normal_numbers({3, 3}, 2).requires_grad_(true);
  const auto build = [&]() -> RowFunction {
    const at::Tensor h = at::matmul(x, w).tanh(), q = h * h + x;
    return [=](std::int64_t begin, std::int64_t end) {
      const auto rows = [&](const at::Tensor& t) { return t.slice(2, begin, end); };
      const at::Tensor scores = at::matmul(rows(q), h.transpose(-1, -2)).softmax(-1);
      return std::vector<at::Tensor>{at::matmul(scores, x), {}, rows(x) * at::matmul(rows(h), w)};
    };
  };
  const auto whole = gradients_in(kRows, kRows, {x, w}, build);
  for (const std::int64_t step : {1, 4, 10}) {
    SCOPED_TRACE(step);
    expect_same_gradients(whole, gradients_in(step, kRows, {x, w}, build));
  }
}

// What the first rows do not read gets its gradient from the later ones.
TEST(RowBlocks, ReachWhatLaterRowsAloneRead) {
  const at::Tensor early = normal_numbers({1, 1, 6, 2}, 3).requires_grad_(true);
  const at::Tensor late = normal_numbers({1, 1, 6, 2}, 4).requires_grad_(true);
  const auto build = [&]() -> RowFunction {
    const at::Tensor made = late.exp();
    return [=](std::int64_t begin, std::int64_t end) {
      at::Tensor rows = early.slice(2, begin, end).sin();
      if (begin >= 3) rows = rows * made.slice(2, begin, end);
      return std::vector<at::Tensor>{rows};
    };
  };
  const auto found = gradients_in(3, 6, {early, late}, build);
  const at::Tensor weights = normal_numbers({1, 1, 6, 2}, 77);
  at::Tensor factor = late.detach().exp();
  factor.slice(2, 0, 3).fill_(1);
  at::Tensor of_late = weights * early.detach().sin() * late.detach().exp();
  of_late.slice(2, 0, 3).zero_();
  expect_same_gradients({weights * early.detach().cos() * factor, of_late}, found);
}

// Scores changed by a tensor that was computed before, as capped sinks are, and a bias by distance
// that only its gradient is asked of.
TEST(RowBlocks, OfAttentionHaveTheGradientsOfTheWhole) {
  constexpr std::int64_t kRows = 13;
  const at::Tensor x = normal_numbers({1, 2, kRows, 4}, 5).requires_grad_(true);
  const at::Tensor table = normal_numbers({2, kRows}, 6).requires_grad_(true);
  const at::Tensor bias = at::zeros({1, 2, kRows}, at::kDouble).requires_grad_(true);
  const auto build = [&]() -> RowFunction {
    AttentionProgram program;
    program.q = program.q_plain = x.sin(), program.k = program.k_plain = x.cos() * 2;
    program.scale = 0.5;
    program.variant = TableProgram{table};
    program.positions.length = kRows;
    program.distance_bias = bias;
    const at::Tensor lowered = x.sum(-1).clamp_max(0);  // (1, 2, N)
    program.edit = [lowered](const at::Tensor& scores, const ScoreCorner& corner) {
      const at::Tensor here = lowered.slice(2, corner.row, corner.row + scores.size(2));
      return at::cat({scores.slice(3, 0, 1) + here.unsqueeze(3), scores.slice(3, 1)}, 3);
    };
    const at::Tensor v = x.tanh();
    return [=](std::int64_t begin, std::int64_t end) {
      const AttentionBlock block = plain_block(program, v, {begin, end});
      return std::vector<at::Tensor>{block.out, {}, at::logsumexp(block.scores, -1)};
    };
  };
  const std::vector<at::Tensor> leaves = {x, table, bias};
  const auto whole = gradients_in(kRows, kRows, leaves, build);
  for (const std::int64_t step : {1, 5, 12}) {
    SCOPED_TRACE(step);
    expect_same_gradients(whole, gradients_in(step, kRows, leaves, build));
  }
}

// What is taken and given back on this thread, in bytes.
class AllocatedBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    now += bytes;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t now = 0, most = 0;
};

// 64 heads of 740 tokens: one array of all scores is 140 MB.
TEST(RowBlocks, OfLongTextsHoldNoScoresOfAllPairs) {
  constexpr std::int64_t kHeads = 64, kRows = 740, kWidth = 2;
  const at::AutoGradMode gradients(true);
  const auto leaf = [](std::uint64_t seed) {
    return normal_numbers({1, kHeads, kRows, kWidth}, seed).to(at::kFloat).requires_grad_(true);
  };
  AttentionProgram program;
  program.q = program.q_plain = leaf(7), program.k = program.k_plain = leaf(8);
  program.variant = PlainProgram{};
  program.positions.length = kRows;
  const at::Tensor v = leaf(9);
  const auto memory = std::make_shared<AllocatedBytes>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
    plain_attention(program, v, {.backend = Backend::plain}).out.sum().backward();
  }
  // Kept whole, the weights and what the products of their gradients need are four of them.
  const std::int64_t scores = kHeads * kRows * kRows * 4;
  EXPECT_GT(memory->most, 0);
  EXPECT_LT(memory->most, 2 * scores);
  // Weights of a row add up to 1, so all values together have one gradient a row and channel.
  const double sum = v.grad().sum(at::kDouble).item<double>();
  // Each of the N terms of a key's sum is rounded to 6e-8 of at most 1.
  EXPECT_NEAR(sum / (kHeads * kRows * kWidth), 1, 1e-5);
}

// A region and single pairs of a long text of 16 bits, where passes run fused.
TEST(ScoreParts, WidenNoTokensButThoseThatTheyRead) {
  constexpr std::int64_t kTokens = 4096, kHeads = 4, kGroups = 2, kWidth = 64;
  const at::NoGradGuard no_grad;
  const auto narrow = [](std::int64_t heads, std::uint64_t seed) {
    return normal_numbers({1, heads, kTokens, kWidth}, seed).to(at::kBFloat16);
  };
  AttentionProgram program;
  program.q = narrow(kHeads, 3), program.k = narrow(kGroups, 4);
  program.q_plain = narrow(kHeads, 5), program.k_plain = narrow(kGroups, 6);
  program.transformed = true;
  program.scale = 0.125;
  program.positions.length = kTokens;
  const at::Tensor v = narrow(kGroups, 7);
  const LayerAttention layer(0, program, v, {}, {}, Backend::fused, ran_fused(v));
  ASSERT_TRUE(layer.is_fused());
  const at::Tensor head = at::tensor({3, 0}, at::kLong), row = at::tensor({4000, 77}, at::kLong);
  const at::Tensor column = at::tensor({3999, 5}, at::kLong);
  const auto memory = std::make_shared<AllocatedBytes>();
  ScoreParts region, pairs;
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
    region = layer.scores({{2, 4}, {4000, 4001}, {3990, 4000}});
    pairs = layer.pair_scores({{at::zeros_like(head), head, row, column}, at::kCPU});
  }
  // One of the four tensors alone would be 2 MB or 4 in float32.
  EXPECT_GT(memory->most, 0);
  EXPECT_LT(memory->most, 256 << 10);
  const auto product = [](const at::Tensor& q, const at::Tensor& k, std::int64_t h, std::int64_t i,
                          std::int64_t j) {
    const at::Tensor query = q[0][h][i].to(at::kDouble), key = k[0][h / 2][j].to(at::kDouble);
    return 0.125 * (query * key).sum().item<double>();
  };
  // 64 products of 16-bit numbers of up to four, of which the sum alone is rounded to float32.
  constexpr double kSum = 1e-5;
  const auto expect_parts = [&](double score, double content, std::int64_t h, std::int64_t i,
                                std::int64_t j) {
    EXPECT_NEAR(score, product(program.q, program.k, h, i, j), kSum);
    EXPECT_NEAR(content, product(program.q_plain, program.k_plain, h, i, j), kSum);
  };
  for (std::int64_t j = 0; j < 10; ++j) {
    expect_parts(region.score[0][1][0][j].item<double>(), region.content[0][1][0][j].item<double>(),
                 3, 4000, 3990 + j);
  }
  expect_parts(pairs.score[0].item<double>(), pairs.content[0].item<double>(), 3, 4000, 3999);
  expect_parts(pairs.score[1].item<double>(), pairs.content[1].item<double>(), 0, 77, 5);
}

}  // namespace
}  // namespace phasescope::model
