// What `bench kernels` compares: rivals give what our attention gives, on the same numbers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/attention/attention.h"
#include "worker/bench/kernel_problems.h"
#include "worker/bench/kernel_rivals.h"

namespace phasescope::worker {
namespace {

using at::Tensor;

constexpr KernelSize kSize{.heads = 3, .n = 50, .d = 8};

// Outputs in the order of both, and the gradients of q, k and v of their sum.
struct Results {
  std::vector<Tensor> outputs, gradients;
};

Results results_of(const KernelProblem& problem, std::vector<Tensor> outputs) {
  Tensor sum = at::zeros({});
  for (const Tensor& out : outputs) sum = sum + out.sum();
  const std::vector<Tensor> leaves{problem.program.q, problem.program.k, problem.v};
  for (const Tensor& leaf : leaves) leaf.mutable_grad() = Tensor();
  sum.backward();
  Results results{std::move(outputs), {}};
  for (const Tensor& leaf : leaves) results.gradients.push_back(leaf.grad().clone());
  return results;
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& theirs,
                  const std::string& name) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  for (std::size_t n = 0; n < ours.size(); ++n) {
    // Float32 sums of 50 numbers of size 1 to 10, and of their products.
    EXPECT_LT((ours[n] - theirs[n]).abs().max().item<float>(), 5e-5) << name << ", " << n;
    EXPECT_GT(theirs[n].abs().max().item<float>(), 0.01) << name << ", " << n;
  }
}

// TAPE's rival averages each half of the state twice, side by side.
std::vector<Tensor> as_rival(const model::AttentionResult& result) {
  if (!result.state.defined()) return {result.out};
  std::vector<Tensor> outputs{result.out};
  for (const Tensor& half : result.state.chunk(2, -1)) {
    outputs.push_back(at::cat({half, half}, -1));
  }
  return outputs;
}

TEST(KernelRivals, GiveTheSameOutputsAndGradients) {
  for (const KernelVariant& variant : kernel_variants_at(kSize, false)) {
    const KernelProblem problem =
        with_gradients(random_problem(variant.form, kSize, at::kFloat, 5));
    const Results ours =
        results_of(problem, as_rival(model::attention(problem.program, problem.v, {})));
    ASSERT_FALSE(variant.rivals.empty());
    for (const RivalInfo& rival : variant.rivals) {
      const std::string name = variant.name + ": " + rival.name;
      if (rival.prepare != nullptr) rival.prepare(problem);
      const Results theirs = results_of(problem, rival.call(problem));
      expect_close(ours.outputs, theirs.outputs, name);
      expect_close(ours.gradients, theirs.gradients, name);
    }
  }
}

TEST(KernelProblems, AreDrawnFromTheirSeed) {
  for (const KernelVariant& variant : kernel_variants_at(kSize, false)) {
    const auto scores = [&](std::uint64_t seed) {
      const KernelProblem problem = random_problem(variant.form, kSize, at::kFloat, seed);
      return model::attention(problem.program, problem.v, {}).out;
    };
    EXPECT_TRUE(at::equal(scores(1), scores(1))) << variant.name;
    EXPECT_FALSE(at::equal(scores(1), scores(2))) << variant.name;
  }
}

// As a model's products leave them, a token's heads stand beside each other.
TEST(KernelProblems, HaveTheSameNumbersInEveryLayout) {
  for (const KernelVariant& variant : kernel_variants_at(kSize, false)) {
    const KernelProblem rows = random_problem(variant.form, kSize, at::kFloat, 1);
    const KernelProblem tokens = random_problem(variant.form, kSize, at::kFloat, 1, Layout::model);
    for (const auto& [one, other] :
         {std::pair{rows.v, tokens.v}, std::pair{rows.program.q, tokens.program.q},
          std::pair{rows.program.k, tokens.program.k}}) {
      EXPECT_TRUE(at::equal(one, other)) << variant.name;
      EXPECT_EQ(one.stride(2), kSize.d);
      EXPECT_EQ(other.stride(2), kModelRow) << variant.name;
    }
    EXPECT_TRUE(at::equal(model::attention(rows.program, rows.v, {}).out,
                          model::attention(tokens.program, tokens.v, {}).out))
        << variant.name;
  }
}

}  // namespace
}  // namespace phasescope::worker
