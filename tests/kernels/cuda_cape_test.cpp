// CAPE on CUDA, where it differs from other variants: its network's sizes, and strips of scores
// within a given memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/device_probes.h"
#include "tests/kernels/expect_right.h"
#include "tests/kernels/plain_half.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

class CudaCape : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
  }
};

// Both numbers of units that a thread keeps, full and not, and 32 heads; two tiles of keys.
TEST_P(CudaCape, IsRightForManyHeadsAndUnits) {
  Problem problem{GetParam()};
  std::size_t turn = 0;
  for (const auto& [heads, hidden] : {std::pair{1, 1}, {3, 64}, {5, 33}, {32, 32}}) {
    problem.shape = {1, heads, heads, 30, 70, 16, 0, true, 40};
    problem.hidden = hidden;
    expect_right(kTypes[turn % 2], problem, turn % 2 == 1);
    ++turn;
  }
}

// The gradient of the table's first entry is of all keys after their query.
TEST_P(CudaCape, IsRightForLaterKeysInStrips) {
  for (const HalfType& type : kTypes) {
    Problem problem{GetParam()};
    problem.shape = {1, 4, 2, 130, 100, 24};
    problem.shape.query_offset = -30;
    problem.shape.causal = false;
    expect_right(type, problem, true);
  }
}

/// From one pair of tiles at a time to all of them at once, by way of strips of some rows and some
/// keys, and of some rows and all keys.
std::vector<std::size_t> strip_bytes(CudaAttention attention,
                                     std::size_t (*workspace)(const CudaAttention&)) {
  std::vector<std::size_t> bytes{1};
  attention.cape_bytes = ~std::size_t{0};
  const std::size_t most = workspace(attention);
  attention.cape_bytes = 1;
  for (std::size_t n = workspace(attention); n < most; n += n / 2) bytes.push_back(n);
  bytes.push_back(most);
  return bytes;
}

/// Two tiles of queries and six of keys, of heads in groups.
Problem of_many_tiles(Kind kind) {
  Problem problem{kind};
  problem.shape = {1, 2, 1, 70, 330, 16, 0, true, 260};
  return problem;
}

TEST_P(CudaCape, IsRightInStripsOfEverySize) {
  const Problem problem = of_many_tiles(GetParam());
  Case c(problem);
  const DeviceCase device(kTypes[0], c);
  std::size_t turn = 0;
  for (const std::size_t bytes : strip_bytes(device.attention, &cuda_backward_workspace)) {
    expect_right(kTypes[turn % 2], problem, turn % 2 == 1, bytes);
    ++turn;
  }
}

// Documents in turns of two tiles: a strip may begin with tiles that a block does not see.
TEST_P(CudaCape, IsRightInStripsThatBeginInAnotherDocument) {
  Problem problem = of_many_tiles(GetParam());
  problem.documents = Documents::mixed;
  Case c(problem);
  const auto tile = [&](std::int64_t position) { return position / 64 / 2 % 2; };
  for (std::int64_t n = 0; n < problem.shape.keys; ++n) {
    c.key_documents[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(tile(n));
  }
  for (std::int64_t n = 0; n < problem.shape.queries; ++n) {
    c.query_documents[static_cast<std::size_t>(n)] =
        static_cast<std::int32_t>(tile(n + problem.shape.query_offset));
  }
  const DeviceCase device(kTypes[0], c);
  std::size_t turn = 0;
  for (const std::size_t bytes : strip_bytes(device.attention, &cuda_score_workspace)) {
    expect_right(kTypes[turn % 2], problem, c, turn % 2 == 1, bytes);
    ++turn;
  }
}

// A block takes up its rows as it left them.
TEST_P(CudaCape, StripsChangeNoBitOfTheForwardPass) {
  Problem problem = of_many_tiles(GetParam());
  problem.shape.window = 200;
  Case c(problem);
  DeviceCase device(kTypes[1], c);
  const std::size_t rows = c.lse.size();
  const DeviceArray<float> entropy(rows), distance(rows), weight(rows * 16);
  device.outputs.rows.entropy = entropy.data();
  device.outputs.rows.mean_distance = distance.data();
  device.outputs.rows.top_weight = weight.data();
  device.outputs.rows.top_count = 16;
  std::vector<std::vector<float>> first;
  for (const std::size_t bytes : strip_bytes(device.attention, &cuda_score_workspace)) {
    device.attention.cape_bytes = bytes;
    device.forward();
    const std::vector<std::vector<float>> results{c.out, c.lse, entropy.values(), distance.values(),
                                                  weight.values()};
    if (first.empty()) first = results;
    EXPECT_TRUE(results == first) << bytes;
  }
}

/// The bytes in which all texts' strips lie beside each other, one text less, and so on.
std::vector<std::size_t> text_bytes(CudaAttention attention,
                                    std::size_t (*workspace)(const CudaAttention&)) {
  std::vector<std::size_t> bytes;
  attention.cape_bytes = ~std::size_t{0};
  for (std::int64_t text = 0; text < attention.shape.batch; ++text) {
    bytes.push_back(workspace(attention));
    attention.cape_bytes = bytes.back() - 1;
  }
  return bytes;
}

/// Three texts with padding of their own, of two tiles of queries and of keys.
Problem of_texts(Kind kind) {
  Problem problem{kind};
  problem.shape = {3, 3, 1, 66, 100, 16, 0, true, 34};
  problem.padding = Padding::holes;
  problem.hidden = 11;
  return problem;
}

// All texts in one launch, two and one, and one after the other.
TEST_P(CudaCape, IsRightForTextsInOneLaunch) {
  const Problem problem = of_texts(GetParam());
  Case c(problem);
  const DeviceCase device(kTypes[0], c);
  for (const auto workspace : {&cuda_score_workspace, &cuda_backward_workspace}) {
    const std::vector<std::size_t> bytes = text_bytes(device.attention, workspace);
    // Each of them takes as much as the others: these are strips of whole texts.
    EXPECT_EQ(bytes[0] - bytes[1], bytes[1] - bytes[2]);
  }
  std::size_t turn = 0;
  for (const std::size_t bytes : text_bytes(device.attention, &cuda_backward_workspace)) {
    expect_right(kTypes[turn % 2], problem, turn % 2 == 1, bytes);
    ++turn;
  }
}

TEST_P(CudaCape, TextsInOneLaunchChangeNoBitOfTheForwardPass) {
  Case c(of_texts(GetParam()));
  DeviceCase device(kTypes[1], c);
  const DeviceArray<float> entropy(c.lse.size());
  device.outputs.rows.entropy = entropy.data();
  std::vector<std::vector<float>> first;
  for (const std::size_t bytes : text_bytes(device.attention, &cuda_score_workspace)) {
    device.attention.cape_bytes = bytes;
    device.forward();
    const std::vector<std::vector<float>> results{c.out, c.lse, entropy.values()};
    if (first.empty()) first = results;
    EXPECT_TRUE(results == first) << bytes;
  }
}

#ifdef PHASESCOPE_CUDA_EMULATION
// All passes over the scores: the softmax, the sums by distance, top keys; dq, dk, dv.
TEST_P(CudaCape, ThreeTextsTakeAsManyLaunchesAsOne) {
  const auto launches = [](std::int64_t texts) {
    Problem problem = of_texts(GetParam());
    problem.shape.batch = texts;
    Case c(problem);
    DeviceCase device(kTypes[0], c);
    DeviceProbes probes(device.attention, 3);
    probes.put(device.outputs);
    const int before = emulated_launches;
    device.forward();
    device.backward();
    return emulated_launches - before;
  };
  EXPECT_EQ(launches(3), launches(1));
}
#endif

/// Content scores of one key are -inf in float32: its first channel is the largest number of
/// bfloat16, negative, that of all queries 4. With no negative weight this key's scores are -inf
/// in every head.
void make_one_key_infinite(Case& c, std::int64_t key) {
  const AttentionShape& s = c.inputs.shape;
  for (std::int64_t n = 0; n < s.queries * s.heads; ++n) {
    c.q[static_cast<std::size_t>(n * s.head_dim)] = 4;
  }
  for (std::int64_t n = 0; n < s.keys * s.kv_heads; ++n) {
    c.k[static_cast<std::size_t>(n * s.head_dim)] = n / s.kv_heads == key ? -0x1.fep127f : 1;
  }
  for (float& weight : c.w1) weight = std::abs(weight);
  for (float& weight : c.w2) weight = std::abs(weight);
}

// By float64, whose scores of that key are only far below all others, it has no weight; the pairs
// beside it in a product keep theirs. Weights are those that two numbers of tf32 hold, a half,
// whose second one is 0, and numbers whose second one is negative. Units do not fill a product.
TEST_P(CudaCape, AnInfiniteContentScoreHasNoWeight) {
  for (const std::int64_t hidden : {1, 9}) {
    Problem problem{GetParam()};
    problem.shape = {1, 3, 1, 40, 70, 16, 0, true, 30};
    problem.hidden = hidden;
    Case c(problem);
    make_one_key_infinite(c, 11);
    c.w1[0] = 0.5f;
    c.w2[0] = 0x1.ffep-2f;
    DeviceCase device(kTypes[0], c);
    device.forward();
    const Reference<double> truth(c.inputs);
    // The weights of 16-bit values, and out as such a value: half a unit each.
    expect_close("out", c.out, std::vector<float>(truth.out.begin(), truth.out.end()), truth.out,
                 4 * kTypes[0].epsilon / 0x1p-24, 1);
  }
}

// Nor does it give anything to a gradient, where 0 times it would be NaN: by float64, and with the
// error of the plain operation where that key is padding.
TEST_P(CudaCape, AnInfiniteContentScoreGivesNoGradient) {
  constexpr std::size_t kKey = 11;
  for (const std::int64_t hidden : {1, 9}) {
    Problem problem{GetParam()};
    problem.shape = {1, 3, 1, 40, 70, 16, 0, true, 30};
    problem.hidden = hidden;
    Case c(problem), masked(problem);
    make_one_key_infinite(c, kKey);
    make_one_key_infinite(masked, -1);
    masked.real.assign(static_cast<std::size_t>(problem.shape.keys), 1);
    masked.real[kKey] = 0;
    masked.inputs.key_mask = masked.real.data();
    DeviceCase device(kTypes[0], c);
    device.forward();
    device.backward();
    const DeviceCase rounded(kTypes[0], masked);
    Reference<double> truth(c.inputs);
    truth.backward(c.saved.d_out, {});
    PlainForward weights(kTypes[0], masked.inputs);
    const PlainBackward twin(kTypes[0], weights.plain, masked.saved.d_out, {});
    // As in expect_right(): of the rounding of results, and of d channels of each row's out.
    const double floor = 4 * kTypes[0].epsilon / 0x1p-24;
    const double size = std::sqrt(static_cast<double>(2 * truth.values()));
    const double rows =
        std::sqrt(static_cast<double>(problem.shape.head_dim * problem.shape.queries));
    const auto& cape = std::get<CapeVariant>(c.inputs.variant);
    const double units =
        cape.fire ? std::max(1.0f, *std::max_element(c.slope.begin(), c.slope.end())) : 1;
    expect_close("dq", c.dq, twin.plain.dq, truth.dq, floor, size);
    expect_close("dk", c.dk, twin.plain.dk, truth.dk, floor, size);
    expect_close("dv", c.dv, twin.plain.dv, truth.dv, floor, size);
    expect_close("d_w1", c.d_w1, twin.plain.d_w1, truth.d_w1, floor, rows * units);
    expect_close("d_b1", c.d_b1, twin.plain.d_b1, truth.d_b1, floor, rows);
    expect_close("d_w2", c.d_w2, twin.plain.d_w2, truth.d_w2, floor, rows * units);
    expect_close("d_b2", c.d_b2, twin.plain.d_b2, truth.d_b2, floor, rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaCape,
                         ::testing::Values(Kind::cape, Kind::cape_add_residual, Kind::cape_fire,
                                           Kind::cape_fire_add_residual),
                         [](const auto& info) { return kind_name(info.param); });

class CudaCapeOnFire : public CudaCape {};

// No knot, one, as many as an MLP of 33 units has, and the most; of every other number, and of the
// most, u that falls along a diagonal.
TEST_P(CudaCapeOnFire, IsRightForEveryNumberOfKnots) {
  Problem problem{GetParam()};
  for (const std::int64_t knots : {0, 1, 33, 63}) {
    problem.knots = knots;
    problem.steep = knots == 0 || knots == 33;
    problem.shape = {1, 2, 1, 130, 130, 16};
    expect_right(kTypes[0], problem, knots == 33);
  }
  problem.steep = true;
  problem.shape = {2, 3, 3, 90, 90, 16};
  expect_right(kTypes[1], problem, true);
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaCapeOnFire,
                         ::testing::Values(Kind::cape_fire, Kind::cape_fire_concat),
                         [](const auto& info) { return kind_name(info.param); });

TEST(CudaChecks, RefuseWhatCapeOnFireCannotDo) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::cape_fire};
  problem.shape = {1, 2, 1, 20, 20, 64};
  problem.knots = 64;
  Case many(problem);
  EXPECT_THROW(DeviceCase(kTypes[0], many).forward(), std::invalid_argument);
  problem.knots = 63;
  Case full(problem);
  DeviceCase device(kTypes[0], full);
  EXPECT_NO_THROW(device.forward());
  device.attention.shape.causal = false;
  EXPECT_THROW(device.forward(), std::invalid_argument);
}

/// 32 heads of 128 channels with 32 hidden units; nothing of it is read for a workspace's size.
CudaAttention many_heads(std::int64_t tokens, bool on_fire = false) {
  CudaAttention attention;
  attention.shape = {1, 32, 32, tokens, tokens, 128};
  CapeVariant cape;
  if (on_fire) cape.fire = FireVariant{.segments = kCudaSegments};
  attention.variant = cape;
  return attention;
}

TEST(CudaChecks, CapeStaysWithinItsBytes) {
  const std::size_t bound = CudaAttention{}.cape_bytes;
  EXPECT_LE(bound, std::size_t{200} * 1000 * 1000 + (std::size_t{2} << 20));
  for (const std::size_t bytes : {bound, bound / 2, 4 * bound, std::size_t{64} << 20}) {
    for (const bool on_fire : {false, true}) {
      CudaAttention attention = many_heads(32768, on_fire);
      attention.cape_bytes = bytes;
      for (const auto workspace : {&cuda_score_workspace, &cuda_backward_workspace}) {
        EXPECT_LE(workspace(attention), bytes);
        EXPECT_GT(workspace(attention), bytes / 2);  // used, too
      }
    }
  }
  // No more than a short text needs.
  EXPECT_LT(cuda_backward_workspace(many_heads(128)), bound / 4);
}

// What attention_cuda.h says of the least.
TEST(CudaChecks, CapesLeastMemoryIsThatOfTilesAndLengths) {
  for (const std::int64_t tokens : {1024, 32768, 262144}) {
    CudaAttention attention = many_heads(tokens);
    attention.cape_bytes = 0;
    const auto numbers = static_cast<std::size_t>(tokens) * (32 + 32);
    EXPECT_LT(cuda_score_workspace(attention), 4 * numbers + (std::size_t{5} << 20));
    EXPECT_LT(cuda_backward_workspace(attention), 28 * numbers + (std::size_t{5} << 20));
  }
}

}  // namespace
}  // namespace phasescope::kernels::testing
