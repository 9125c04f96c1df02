// Single cases of the CUDA form, and what it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/expect_right.h"

namespace phasescope::kernels::testing {
namespace {

// One document among 23 of 100 tokens each: in the first, the middle and the last of 36 tiles, of
// which a warp asks for 32 at a time.
TEST(CudaChecks, FindADocumentAmongManyTiles) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  for (const std::int32_t document : {0, 11, 22}) {
    for (const bool among_keys : {true, false}) {
      Problem problem{.kind = Kind::plain, .documents = Documents::mixed};
      problem.shape = {1, 1, 1, among_keys ? 10 : 2300, among_keys ? 2300 : 10, 16};
      problem.shape.query_offset = among_keys ? 2290 : 0;
      Case c(problem);
      std::vector<std::int32_t>& few = among_keys ? c.query_documents : c.key_documents;
      std::vector<std::int32_t>& many = among_keys ? c.key_documents : c.query_documents;
      std::fill(few.begin(), few.end(), document);
      for (std::size_t n = 0; n < many.size(); ++n) many[n] = static_cast<std::int32_t>(n / 100);
      expect_right(kTypes[0], problem, c, true);
    }
  }
}

TEST(CudaChecks, RefuseWhatTheKernelsCannotDo) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::table};
  problem.shape = {1, 2, 1, 20, 20, 64};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  const DeviceArray<std::int32_t> documents(20);
  const auto refuses = [&](auto change) {
    CudaAttention attention = device.attention;
    change(attention);
    EXPECT_THROW(cuda_attention_forward(attention, device.outputs), std::invalid_argument);
  };
  refuses([](CudaAttention& a) { a.shape.head_dim = 20; });
  refuses([](CudaAttention& a) { a.shape.head_dim = 264; });
  refuses([](CudaAttention& a) { a.shape.kv_heads = 3; });
  refuses([](CudaAttention& a) { a.k.row = 65; });
  refuses([](CudaAttention& a) { a.soft_cap = -1; });
  refuses([](CudaAttention& a) { a.shape.window = std::numeric_limits<std::int64_t>::max(); });
  refuses([&](CudaAttention& a) { a.key_documents = documents.data(); });
  refuses([&](CudaAttention& a) { a.query_documents = a.key_documents = documents.data(); });
  refuses([](CudaAttention& a) { std::get<TableVariant>(a.variant).length = 10; });
  refuses([](CudaAttention& a) { a.variant = TapaVariant{}; });
  refuses([](CudaAttention& a) { a.variant = FireVariant{}; });
  refuses([](CudaAttention& a) { a.variant = CapeVariant{}; });
  refuses([](CudaAttention& a) { a.variant = TapeVariant{a.k, 136}; });
}

TEST(CudaChecks, RefuseClampsWithoutTheirArraysAndGatesOfOtherWidths) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{.kind = Kind::clamp, .shape = {1, 2, 1, 20, 20, 64}};
  Case clamp(problem);
  DeviceCase far(kTypes[0], clamp);
  far.forward();
  const DeviceArray<char> workspace(cuda_backward_workspace(far.attention));
  CudaGradients gradients = far.gradients(workspace.data());
  gradients.variant = std::monostate{};
  EXPECT_THROW(cuda_attention_backward(far.attention, far.saved(), gradients),
               std::invalid_argument);
  std::get<ClampVariant>(far.attention.variant).limits = nullptr;
  EXPECT_THROW(far.forward(), std::invalid_argument);
  problem.kind = Kind::plain, problem.gates = Gates::by_channel;
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.attention.gate_dim = 8;
  EXPECT_THROW(device.forward(), std::invalid_argument);
}

TEST(CudaChecks, RefuseMoreOfFireAndCapeThanTheyKeep) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem fire{Kind::fire};
  fire.shape = {1, 2, 1, 20, 20, 64};
  fire.knots = 64;
  Case many(fire);
  EXPECT_THROW(DeviceCase(kTypes[0], many).forward(), std::invalid_argument);
  fire.knots = 2;
  Case full(fire);
  DeviceCase uncausal(kTypes[0], full);
  uncausal.attention.shape.causal = false;
  EXPECT_THROW(uncausal.forward(), std::invalid_argument);

  Problem cape{Kind::cape};
  cape.shape = {1, 2, 1, 20, 20, 64};
  cape.hidden = 65;
  Case wide(cape);
  EXPECT_THROW(DeviceCase(kTypes[0], wide).forward(), std::invalid_argument);
  // The forward pass has room for these, the network's gradients have not.
  cape.shape.heads = 64;
  cape.hidden = 64;
  Case large(cape);
  DeviceCase device(kTypes[0], large);
  device.forward();
  EXPECT_THROW(device.backward(), std::invalid_argument);
  device.outputs.score_workspace = nullptr;
  EXPECT_THROW(cuda_attention_forward(device.attention, device.outputs), std::invalid_argument);
  const auto last = std::get<CapeVariant>(device.attention.variant).length;
  std::get<CapeVariant>(device.attention.variant).length = std::min<std::int64_t>(last, 19);
  EXPECT_THROW(device.forward(), std::invalid_argument);
  std::get<CapeVariant>(device.attention.variant).length = last;
  EXPECT_NO_THROW(device.forward());
  std::get<CapeVariant>(device.attention.variant).fire.emplace();  // without its arrays
  EXPECT_THROW(device.forward(), std::invalid_argument);
}

// Where a score is a dot product times a positive number, the kernel keeps dot products: others are
// scaled first.
TEST(CudaChecks, ScaleByZeroAndByLess) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  for (const float scale : {0.0f, -0.4f}) {
    for (const bool with_probes : {true, false}) {
      Problem problem{Kind::plain};
      problem.shape = {1, 2, 1, 150, 150, 32};
      Case c(problem);
      c.inputs.scale = scale;
      expect_right(kTypes[1], problem, c, with_probes);
    }
  }
}

}  // namespace
}  // namespace phasescope::kernels::testing
