// 17.A11: an allocation that fails inside a kernel's parallel region is std::bad_alloc for the
// caller, not the end of the process. A program of its own: it replaces operator new.

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "tests/kernels/case_probes.h"
#include "tests/kernels/cases.h"

namespace {

/// Allocations of one call until one fails; negative: none fails. `in_region` counts those made
/// where exceptions cannot pass.
std::atomic<std::int64_t> before_failure{-1};
std::atomic<std::int64_t> in_region{0};

void* allocate(std::size_t size, std::size_t alignment) {
  if (omp_in_parallel()) ++in_region;
  if (before_failure.load() >= 0 && before_failure.fetch_sub(1) == 0) throw std::bad_alloc();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t at) {
  return allocate(size, static_cast<std::size_t>(at));
}
void* operator new[](std::size_t size, std::align_val_t at) {
  return allocate(size, static_cast<std::size_t>(at));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace phasescope::kernels::testing {
namespace {

/// Runs `call` with its nth allocation failing; whether it threw std::bad_alloc.
bool fails_at(std::int64_t nth, const std::function<void()>& call) {
  before_failure = nth;
  bool thrown = false;
  try {
    call();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  const bool reached = before_failure.exchange(-1) < 0;
  EXPECT_EQ(thrown, reached) << "allocation " << nth;
  return thrown;
}

/// Lets each allocation of the call fail in turn, and hands back how many of them a region made.
std::int64_t expect_failures_are_thrown(const std::function<void()>& call) {
  in_region = 0;
  call();
  const std::int64_t of_regions = in_region;
  for (std::int64_t nth = 0; nth < 4096 && fails_at(nth, call); ++nth) {
  }
  return of_regions;
}

class OutOfMemory : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { omp_set_num_threads(2); }
};

TEST_P(OutOfMemory, IsThrownByEveryPass) {
  Problem problem{GetParam()};
  problem.shape = {1, 3, 3, 100, 100, 16};
  Case c(problem);
  Probes probes(c, {0, 1, 16, 1000});
  c.forward();
  const std::vector<float> right = c.out;
  std::vector<float> mean(64), scores(3 * 100 * 100), weights(scores.size());
  const Region whole{0, 0, 3, 0, 100, 0, 100};
  const MapOutputs map{.height = 4, .width = 4, .mean = mean.data()};
  std::int64_t of_regions = 0;
  of_regions += expect_failures_are_thrown([&] { attention_forward(c.inputs, c.outputs); });
  EXPECT_EQ(c.out, right);  // the last call found memory
  of_regions +=
      expect_failures_are_thrown([&] { attention_backward(c.inputs, c.saved, c.gradients); });
  of_regions += expect_failures_are_thrown(
      [&] { attention_region(c.inputs, c.lse.data(), whole, scores.data(), weights.data()); });
  of_regions +=
      expect_failures_are_thrown([&] { attention_map(c.inputs, c.lse.data(), whole, map); });
  EXPECT_GT(of_regions, 0) << "no region allocates, so nothing was shown";
}

INSTANTIATE_TEST_SUITE_P(Kernels, OutOfMemory, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace phasescope::kernels::testing
