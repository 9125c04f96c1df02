// The list of scores, and what the variants' structs say of themselves: which line is theirs, and
// which arrays they have.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/cuda/cuda_scores.h"
#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {
namespace {

constexpr auto kCpu = &ScoreLine::on_cpu;
constexpr auto kCuda = &ScoreLine::on_cuda;

TEST(Scores, HaveThePassesThatTheirLinesName) {
  EXPECT_EQ(find_score("table"), ScoreName::table);
  EXPECT_EQ(find_score("tables"), std::nullopt);
  EXPECT_TRUE(has_word("forward wide", "wide"));
  EXPECT_FALSE(has_word("forward wider", "wide"));
  EXPECT_FALSE(has_word("", ""));
  EXPECT_TRUE(has_pass("own_forward", "forward"));
  EXPECT_FALSE(has_pass("hopper_backward", "backward"));
  // Its own, by hand, another's, none.
  EXPECT_EQ(with_pass(ScoreName::tape, kCpu, "forward"), ScoreName::tape);
  EXPECT_EQ(with_pass(ScoreName::fire, kCuda, "backward"), ScoreName::fire);
  EXPECT_EQ(with_pass(ScoreName::tape, kCpu, "region"), ScoreName::plain);
  EXPECT_EQ(with_pass(ScoreName::tapa_linear, kCuda, "sums"), ScoreName::tapa);
  EXPECT_EQ(with_pass(ScoreName::lanes, kCpu, "backward"), std::nullopt);
  EXPECT_EQ(with_tokens(ScoreName::plain), ScoreName::plain_tokens);
  EXPECT_EQ(with_tokens(ScoreName::table_multiplied), std::nullopt);
}

/// {where an array begins: its numbers}
using Arrays = std::map<const void*, std::int64_t>;

struct Note {
  Arrays& found;
  std::int64_t batch;

  template <typename Number>
  void operator()(Number* array, std::int64_t count) const {
    if (array) found[array] = count;
  }
  template <typename Void>
  void operator()(const Tensor4<Void>& tensor, const TensorSize& size) const {
    if (tensor.data) found[tensor.data] = batch * size.heads * size.rows * size.channels;
  }
};

template <class... Vectors>
Arrays arrays_of(const Vectors&... vectors) {
  Arrays found;
  const auto add = [&found](const auto& values) {
    if (!values.empty()) found[values.data()] = static_cast<std::int64_t>(values.size());
  };
  (add(vectors), ...);
  return found;
}

class EveryKind : public ::testing::TestWithParam<Kind> {};

// What moves a problem to a device goes by these lists: an array that one of them lacks would stay.
TEST_P(EveryKind, ListsTheArraysOfItsVariantAndOfItsGradients) {
  Problem problem{.kind = GetParam(), .shape = {2, 4, 2, 9, 12, 16}};
  Case c(problem);
  const AttentionShape& s = c.inputs.shape;
  Arrays found;
  const Note note{found, s.batch};
  std::visit([&](const auto& own) { own.arrays(own, s, note); }, c.inputs.variant);
  if (GetParam() == Kind::cape_content) c.table.clear(), c.d_table.clear();  // drawn, not read
  EXPECT_EQ(found, arrays_of(c.table, c.state, c.factor, c.knots, c.slope, c.intercept, c.w1, c.b1,
                             c.w2, c.b2, c.far_q, c.far_k, c.limits));
  found.clear();
  std::visit(
      [&]<class Own>(const Own& own) {
        if constexpr (!std::is_same_v<Own, std::monostate>) {
          Own::arrays(own, std::get<typename Own::Of>(c.inputs.variant), s, note);
        }
      },
      c.gradients.variant);
  EXPECT_EQ(found, arrays_of(c.d_out_state, c.d_state, c.d_table, c.d_factor, c.d_slope,
                             c.d_intercept, c.d_w1, c.d_b1, c.d_w2, c.d_b2, c.d_far_q, c.d_far_k));
}

TEST_P(EveryKind, RunsTheKernelsThatItsLineNames) {
  const Problem problem{.kind = GetParam(), .shape = {1, 2, 1, 9, 9, 16}};
  const problems::RandomInputs drawn(problem);
  if (is_on_cuda(GetParam())) {
    EXPECT_EQ(cuda_score_name(drawn.inputs), kind_score(GetParam()));
  } else {
    EXPECT_THROW(cuda_score_name(drawn.inputs), std::logic_error);
    EXPECT_EQ(line_of(score_of(drawn.inputs)).name, kind_score(GetParam()));
  }
}

// Models give a device some of these in another form (model/attention/relative_keys.h).
TEST(Scores, OfRelativeKeysAloneAreNotOnCuda) {
  for (const Kind kind : all_kinds()) {
    EXPECT_EQ(is_on_cuda(kind), !kind_score(kind).starts_with("relative_keys")) << kind_name(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKind, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace phasescope::kernels::testing
