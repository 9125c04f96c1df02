// The backward pass in one kernel, and the kernels that it takes the place of, in float64's eyes:
// dq from parts of blocks' own and from one that all add to, in one launch and several, with a
// block for each 128 keys and with fewer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launchers.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/expect_right.h"

namespace phasescope::kernels::testing {
namespace {

/// Of the emulated device, while one lives: one that has room for every form, or not.
class Capability {
 public:
  explicit Capability([[maybe_unused]] int capability) {
#ifdef PHASESCOPE_CUDA_EMULATION
    emulated_capability = capability;
#endif
  }
  ~Capability() {
#ifdef PHASESCOPE_CUDA_EMULATION
    emulated_capability = 80;
#endif
  }
  Capability(const Capability&) = delete;
  Capability& operator=(const Capability&) = delete;
};

class CudaOnePass : public InForm {
 protected:
  void SetUp() override {
    InForm::SetUp();
    if (IsSkipped()) return;
    const Problem problem{.kind = Kind::plain, .shape = {1, 1, 1, 20, 20, 128}};
    Case c(problem);
    if (cuda::one_pass(DeviceCase(kTypes[0], c).attention).units == 0) {
      GTEST_SKIP() << "A block of this device has too little shared memory for 128 channels";
    }
  }

  /// The problem in that form, which is taken where `taken` and there is one.
  static void check(const Problem& problem, std::size_t turn, const DeviceChange& change,
                    bool taken = true) {
    Case c(problem);
    expect_right(kTypes[turn % 2], problem, c, false, [&](CudaAttention& a) {
      change(a);
      EXPECT_EQ(cuda::one_pass(a).units > 0, taken && has_form(problem));
    });
  }
  /// States leave no room for their gradients beside those of more than 64 channels.
  static bool has_form(const Problem& problem) {
    return problem.kind != Kind::tape || problem.shape.head_dim <= 64;
  }

 private:
  Capability capability_{90};
};

/// An odd number of tiles of keys and an even one; groups of heads, texts, padded channels, more
/// keys than queries and fewer; each mask; a cap.
std::vector<Problem> problems(Kind kind) {
  std::vector<Problem> result;
  const auto add = [&](const AttentionShape& shape, auto change) {
    Problem one{kind};
    one.shape = shape;
    if (kind == Kind::tape) one.shape.head_dim = std::min<std::int64_t>(shape.head_dim, 64);
    change(one);
    result.push_back(one);
  };
  add({1, 4, 2, 150, 150, 64}, [](Problem&) {});
  add({1, 2, 1, 150, 150, 128}, [](Problem&) {});
  add({2, 1, 1, 70, 260, 80, 0, false}, [](Problem& p) { p.padding = Padding::left; });
  add({1, 2, 2, 200, 140, 16, 0, true, -60}, [](Problem& p) { p.soft_cap = 3; });
  add({1, 1, 1, 270, 270, 72, 0, true, 0, 100},
      [](Problem& p) { p.documents = Documents::packed; });
  return result;
}

TEST_P(CudaOnePass, IsRightWithPartsOfItsOwn) {
  std::size_t turn = 0;
  for (const Problem& problem : problems(kind())) check(problem, turn++, [](CudaAttention&) {});
}

TEST_P(CudaOnePass, IsRightWithOneSumForAll) {
  std::size_t turn = 1;
  for (const Problem& problem : problems(kind())) {
    check(problem, turn++, [](CudaAttention& a) { a.atomic_dq = true; });
  }
}

TEST_P(CudaOnePass, IsRightWhereDqIsMadeByItself) {
  std::size_t turn = 0;
  for (const Problem& problem : problems(kind())) {
    check(
        problem, turn++, [](CudaAttention& a) { a.dq_bytes = 0; }, false);
  }
}

/// Bytes of one sum of dq of a head's queries, with its flags.
std::size_t sum_bytes(const AttentionShape& s) {
  const auto tiles = static_cast<std::size_t>(cuda::tiles_of(s.queries));
  return tiles * (64 * (s.head_dim <= 64 ? 64 : 128) * 4 + 1);
}

/// Of the form that has most to do: what differs is not the score.
class CudaOnePassOfManyHeads : public CudaOnePass {};

// As many blocks as fill the device: two of each of 66 heads share four stretches of 128 keys, back
// and forth; one of each of 132 takes three, in two launches.
TEST_P(CudaOnePassOfManyHeads, IsRightWithFewerBlocksThanKeysAndSeveralLaunches) {
  Problem problem{kind()};
  const auto with = [&](std::size_t sums, bool atomic, unsigned units, unsigned groups) {
    return [&problem, sums, atomic, units, groups](CudaAttention& a) {
      a.atomic_dq = atomic;
      a.dq_bytes = sums * sum_bytes(problem.shape);
      EXPECT_EQ(cuda::one_pass(a).units, units);
      EXPECT_EQ(cuda::one_pass(a).groups, groups);
    };
  };
  problem.shape = {1, 66, 66, 17, 400, 16, 0, false, 383};
  check(problem, 0, with(132, false, 66, 2));
  problem.shape = {4, 66, 66, 17, 270, 16, 0, true, 253};
  check(problem, 1, with(132, false, 132, 1));
  problem.shape.batch = 1;
  check(problem, 0, with(30, true, 22, 3));  // three launches
}

// Blocks and warps come in an order of their own each time.
TEST_P(CudaOnePass, GivesTheSameBitsEveryTime) {
  Problem problem{kind()};
  problem.shape = {1, 4, 2, 200, 300, kind() == Kind::tape ? 64 : 128, 0, false};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.forward();
  std::vector<std::vector<float>> first;
  for (int n = 0; n < 3; ++n) {
    device.backward();
    const std::vector<std::vector<float>> results{c.dq, c.dk, c.dv, c.d_table, c.d_state};
    if (n == 0) first = results;
    EXPECT_TRUE(results == first);
  }
}

/// What a table's gradient and its absence change, and one of a state.
class CudaOnePassOfOneGradientMore : public CudaOnePass {};

TEST_P(CudaOnePassOfOneGradientMore, HasNoOtherBitsWhereItIsNotWanted) {
  Problem problem{kind()};
  problem.shape = {1, 2, 1, 140, 140, 64};
  Case c(problem), without(problem);
  DeviceCase device(kTypes[0], c), other(kTypes[0], without);
  device.forward();
  device.backward();
  other.forward();
  const DeviceArray<char> workspace(cuda_backward_workspace(other.attention));
  CudaGradients gradients = other.gradients(workspace.data());
  if (auto* tape = std::get_if<TapeGradients>(&gradients.variant)) {
    tape->d_state = {};
  } else {
    gradients.variant = std::monostate{};
  }
  other.backward(gradients);
  EXPECT_EQ(without.dq, c.dq);
  EXPECT_EQ(without.dk, c.dk);
  EXPECT_EQ(without.dv, c.dv);
}

const std::vector<Kind> kManyHeads = {Kind::table_signed};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaOnePassOfManyHeads,
                         ::testing::ValuesIn(in_form(false, kManyHeads)), name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, CudaOnePassOfManyHeads,
                         ::testing::ValuesIn(in_form(true, kManyHeads)), name_of);
INSTANTIATE_TEST_SUITE_P(Kernels, CudaOnePass,
                         ::testing::ValuesIn(in_form(false,
                                                     {Kind::plain, Kind::table, Kind::table_signed,
                                                      Kind::table_multiplied, Kind::tapa,
                                                      Kind::tapa_linear, Kind::tape})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(
    Hopper, CudaOnePass,
    ::testing::ValuesIn(in_form(true, {Kind::plain, Kind::table, Kind::table_signed})), name_of);
INSTANTIATE_TEST_SUITE_P(Kernels, CudaOnePassOfOneGradientMore,
                         ::testing::ValuesIn(in_form(false, {Kind::table, Kind::table_multiplied,
                                                             Kind::tape})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, CudaOnePassOfOneGradientMore,
                         ::testing::ValuesIn(in_form(true, {Kind::table})), name_of);

/// An attention of a batch of one, as many queries as keys.
CudaAttention attention_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t length,
                           std::int64_t dim) {
  CudaAttention a;
  a.shape = {1, heads, kv_heads, length, length, dim};
  return a;
}

// dq's float32 sums stay within dq_bytes, a table's within table_bytes; where no launch would fill
// a device, dq is made by itself.
TEST(CudaChecks, SumsOfDqFitTheirMemory) {
  const auto plan = [](CudaAttention a, bool with_table = false) {
    const cuda::OnePass found = cuda::one_pass_plan(a, with_table);
    EXPECT_LE(static_cast<std::size_t>(found.floats) * 4 + found.flags, a.dq_bytes);
    const auto one_a_head =
        static_cast<std::size_t>(a.shape.batch * a.shape.heads * cuda::block_distances(a.shape)) *
        4;
    EXPECT_LE(static_cast<std::size_t>(found.distances) * 4, std::max(a.table_bytes, one_a_head));
    return found;
  };
  // A block for each 128 keys of 12 heads, of 512 KiB each: 48 MiB.
  EXPECT_EQ(plan(attention_of(12, 12, 1024, 128)).groups, 8u);
  EXPECT_EQ(plan(attention_of(12, 12, 1024, 128)).units, 12u);
  // Of 32 heads of 1 MiB 159 sums fit with their flags: 4 a head are 128 blocks.
  EXPECT_EQ(plan(attention_of(32, 32, 2048, 128)).groups, 4u);
  // 9 would be 288 blocks: twice as many as there are multiprocessors, and a third turn for a few.
  EXPECT_EQ(plan(attention_of(32, 32, 2048, 64)).groups, 8u);
  for (const std::int64_t length : {8192, 32768}) {
    EXPECT_EQ(plan(attention_of(32, 32, length, 128)).units, 0u);
    CudaAttention longer = attention_of(32, 32, length, 128);
    longer.atomic_dq = true;
    EXPECT_GT(plan(longer).units, 0u);
  }
  // One sum a head of 16 MiB: four launches of 8 heads, a block for each 128 keys.
  CudaAttention atomic = attention_of(32, 32, 32768, 128);
  atomic.atomic_dq = true;
  EXPECT_EQ(plan(atomic, true).units, 8u);
  EXPECT_EQ(plan(atomic, true).groups, 256u);
  EXPECT_EQ(plan(atomic, true).partials, 1u);
  // A group of heads needs room at once.
  atomic.shape.kv_heads = 2;
  EXPECT_EQ(plan(atomic, true).units, 0u);
  CudaAttention none = attention_of(12, 12, 1024, 64);
  none.dq_bytes = 0;
  EXPECT_EQ(plan(none).units, 0u);
  EXPECT_EQ(plan(attention_of(12, 12, 0, 64)).units, 0u);
  // Of tables fewer blocks, where their sums would not fit: too few to fill a device.
  CudaAttention table = attention_of(12, 12, 4096, 64);
  EXPECT_EQ(plan(table).groups, 11u);
  table.table_bytes = 1;
  EXPECT_EQ(plan(table, true).units, 0u);
}

TEST(CudaChecks, TheOnePassIsTakenWhereADeviceHasItsForm) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  const auto units = [](Kind kind, std::int64_t dim) {
    const Problem problem{.kind = kind, .shape = {1, 2, 1, 20, 20, dim}};
    Case c(problem);
    const CudaAttention a = DeviceCase(kTypes[0], c).attention;
    // What a pass that makes dq by itself keeps is less.
    CudaAttention alone = a;
    alone.dq_bytes = 0;
    const bool more = cuda_backward_workspace(a) > cuda_backward_workspace(alone);
    EXPECT_EQ(more, cuda::one_pass(a).units > 0);
    CudaAttention atomic = a;
    atomic.atomic_dq = true;
    EXPECT_FALSE(cuda_adds_atomically(a));
    EXPECT_EQ(cuda_adds_atomically(atomic), more);
    return cuda::one_pass(a).units;
  };
  EXPECT_EQ(units(Kind::plain, 64), 1u);
  EXPECT_EQ(units(Kind::table, 16), 1u);
  EXPECT_EQ(units(Kind::table_tokens, 16), 0u);
  EXPECT_EQ(units(Kind::tapa, 16), 1u);
  EXPECT_EQ(units(Kind::fire, 16), 0u);
  EXPECT_EQ(units(Kind::tape, 72), 0u);
#ifdef PHASESCOPE_CUDA_EMULATION
  EXPECT_EQ(units(Kind::plain, 72), 0u);  // 99 KiB
  EXPECT_EQ(units(Kind::tapa_linear, 72), 0u);
  EXPECT_EQ(units(Kind::tape, 16), 0u);
  const Capability hopper(90);
  EXPECT_EQ(units(Kind::plain, 72), 1u);
  EXPECT_EQ(units(Kind::tapa_linear, 72), 1u);
  EXPECT_EQ(units(Kind::tape, 16), 1u);
  EXPECT_EQ(units(Kind::tape, 72), 0u);
#endif
}

#ifdef PHASESCOPE_CUDA_EMULATION
// Of both passes where there is that form of both; of one kernel's backward pass alone, and of
// d_out that TMA reads. Asks for devices of several kinds.
TEST(CudaChecks, TheHopperFormGoesBackWhereItHasOneKernel) {
  const auto takes = [](Kind kind, int capability, const auto& change) {
    const Capability emulated(capability);
    const Problem problem{.kind = kind, .shape = {1, 2, 1, 20, 20, 64}};
    Case c(problem);
    DeviceCase device(kTypes[0], c);
    SavedForward saved = device.saved();
    device.attention.hopper = true;
    change(device.attention, saved);
    return cuda_takes_hopper_backward(device.attention, saved);
  };
  const auto nothing = [](CudaAttention&, SavedForward&) {};
  EXPECT_TRUE(takes(Kind::plain, 90, nothing));
  EXPECT_TRUE(takes(Kind::table_signed, 90, nothing));
  EXPECT_FALSE(takes(Kind::plain, 80, nothing));
  for (const Kind kind : {Kind::table_multiplied, Kind::table_tokens, Kind::tapa, Kind::tape,
                          Kind::fire, Kind::cape}) {
    EXPECT_FALSE(takes(kind, 90, nothing)) << kind_name(kind);
  }
  EXPECT_FALSE(takes(Kind::plain, 90, [](CudaAttention& a, SavedForward&) { a.hopper = false; }));
  EXPECT_FALSE(takes(Kind::plain, 90, [](CudaAttention& a, SavedForward&) { a.dq_bytes = 0; }));
  EXPECT_FALSE(
      takes(Kind::plain, 90, [](CudaAttention&, SavedForward& saved) { saved.d_out.row = 0; }));
}
#endif

}  // namespace
}  // namespace phasescope::kernels::testing
