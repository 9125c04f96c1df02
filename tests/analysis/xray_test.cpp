// Xray: what must read exactly 0, a model with one head built to fail, and unseen phases by hand.
#include "analysis/questions/xray.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::period_of_eight;

protocol::XrayResult xray_of(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                             const XrayOptions& options = {}) {
  protocol::NoProgress progress;
  return analyse_xray(model, texts, options, progress);
}

// Head 1 alone fails past 113 tokens, so treating it is treating all. Head 0's weight on far keys
// is e^-40 of the row, which float64 does not tell from none.
TEST(Xray, FindsTheHeadThatFails) {
  const auto model = model::open_model("proof-fails", {.dtype = at::kDouble});
  for (const bool clamp : {false, true}) {
    XrayOptions options;
    options.clamp = clamp, options.repair = true;
    const auto result = xray_of(model, period_of_eight(4, 226), options);
    EXPECT_EQ(result.trained, 113);
    EXPECT_GT(result.returned.mean, 0.1);
    ASSERT_EQ(result.rows.size(), 2u);
    // A loss is a sum of some hundred roundings of some bits.
    const double rounding = 1e-12;
    EXPECT_NEAR(result.rows[0].one_alone.mean, 0, rounding);
    EXPECT_NEAR(result.rows[0].leave_one_out.mean, 0, rounding);
    EXPECT_NEAR(result.rows[1].one_alone.mean, result.returned.mean, rounding);
    EXPECT_NEAR(result.rows[1].leave_one_out.mean, result.returned.mean, rounding);
    EXPECT_NEAR(result.rows[1].share->mean, 1, 1e-9);
    ASSERT_TRUE(result.repair);
    EXPECT_EQ(result.repair->heads, std::vector<std::string>{"L0H1"});
    EXPECT_LT(result.repair->change_test->mean, -0.1);
    // Of 4 texts: as they are, all treated, two heads alone and left out, the weights; two heads
    // tried on the two texts that choose; the repaired model on all.
    EXPECT_EQ(result.passes, 4 * (2 + 2 * 2) + 2 * 2 + 4);
    EXPECT_EQ(result.repair->reading,
              clamp ? "proof-fails (head_clamps=L0H1:112)" : "proof-fails (head_windows=L0H1:113)");
    // The reading does what the repair said.
    const auto repaired =
        model::with_overrides(model, {{clamp ? "encoding.head_clamps" : "encoding.head_windows",
                                       clamp ? "L0H1:112" : "L0H1:113"}});
    const auto again = xray_of(repaired, period_of_eight(4, 226));
    EXPECT_NEAR(again.plain.mean, result.all.mean, 1e-9);
    EXPECT_EQ(again.verdict, "no failure this treatment returns");
    EXPECT_FALSE(again.rows[1].share);
    EXPECT_EQ(again.rows[1].why, again.verdict);
    EXPECT_FALSE(again.order_agreement);  // of two heads
    EXPECT_FALSE(again.why.empty());
  }
}

TEST(Xray, WindowSevenBreaksACopyOfSevenAndEightDoesNot) {
  const auto model = model::open_model("proof-copy7");
  XrayOptions options;
  const Texts texts = period_of_eight(3, 300);
  options.limit = 7;
  EXPECT_LT(xray_of(model, texts, options).returned.mean, -0.5);
  options.limit = 8;
  EXPECT_GE(xray_of(model, texts, options).returned.mean, 0);
}

TEST(Xray, ClampsOfModelsWithoutPositionsReadZero) {
  model::ModelConfig config = testing::small_config("none");
  config.context = 16;
  const auto model = model::random_model(config, 3);
  XrayOptions options;
  options.clamp = true;
  const auto result = xray_of(model, random_texts(3, 40, 32, 1), options);
  EXPECT_EQ(result.returned.mean, 0);
  for (const protocol::XrayRow& row : result.rows) {
    EXPECT_EQ(row.one_alone.mean, 0);
    EXPECT_EQ(row.leave_one_out.mean, 0);
  }
  EXPECT_EQ(result.passes, 3 * (2 + 2 * 4));
}

TEST(Xray, WindowsOfTheWholeTextReadZero) {
  model::ModelConfig config = testing::small_config("rope");
  config.context = 16;
  XrayOptions options;
  options.limit = 40;
  const auto result = xray_of(model::random_model(config, 3), random_texts(3, 40, 32, 1), options);
  EXPECT_EQ(result.returned.mean, 0);
  options.limit = 5;
  EXPECT_NE(
      xray_of(model::random_model(config, 3), random_texts(3, 40, 32, 1), options).returned.mean,
      0);
}

// Of one text the units are blocks of its rows: the interval is that of the rows' differences, by
// hand, and a mean above 0 alone is no failure.
TEST(Xray, OneTextHasTheIntervalOfItsBlocks) {
  const auto model = model::open_model("proof-fails", {.dtype = at::kDouble});
  // What stands far from its rows is one token again and again, which the head that fails follows.
  Texts texts = period_of_eight(1, 226);
  std::fill_n(texts.items[0].ids.begin(), 100, 10);
  const auto result = xray_of(model, texts);
  const auto rows_of = [&](const std::shared_ptr<const model::Model>& one) {
    TextPass pass(one, ids_tensor(texts.items[0].ids));
    return (pass.losses()[0] / std::numbers::ln2).slice(0, 113).contiguous();
  };
  const at::Tensor change = rows_of(model) - rows_of(model::with_overrides(
                                                 model, {{"encoding.head_windows", "L0H1:113"}}));
  const at::Tensor blocks = change.slice(0, 0, 112).reshape({8, 14}).mean(1);
  // Student's t of 7 degrees: 2.3646 (tables); the mean is that of all 112 rows.
  const double half = 2.3646 * blocks.std().item<double>() / std::sqrt(8.0);
  EXPECT_EQ(result.returned.unit, "blocks");
  EXPECT_EQ(result.returned.n, 8);
  EXPECT_EQ(result.returned.method, "8 blocks of one text");
  EXPECT_NEAR(result.returned.mean, change.mean().item<double>(), 1e-9);
  EXPECT_NEAR(*result.returned.high - result.returned.mean, half, 1e-4 * half);
  EXPECT_NEAR(result.returned.mean - *result.returned.low, half, 1e-4 * half);
  ASSERT_TRUE(result.rows[1].share);
  EXPECT_NEAR(result.rows[1].share->mean, 1, 1e-9);
  EXPECT_EQ(result.rows[1].share->unit, "blocks");
}

TEST(Xray, OneTextOfFewRowsIsNoFailure) {
  const auto model = model::open_model("proof-fails", {.dtype = at::kDouble});
  const auto result = xray_of(model, period_of_eight(1, 113 + 40));
  EXPECT_GT(result.returned.mean, 0.1);
  EXPECT_FALSE(result.returned.low);
  EXPECT_EQ(result.verdict, "too few rows to tell a failure from chance");
  EXPECT_FALSE(result.rows[1].share);
}

TEST(Xray, ShortTextsAreRefused) {
  EXPECT_THROW(xray_of(model::open_model("proof-fails"), period_of_eight(2, 100)), formats::Error);
}

// A plane that turned round in training has shown every phase; one that turned by less than half
// shows as unseen all that lies past the trained length, up to where it comes round.
TEST(Xray, UnseenPhases) {
  for (const bool unseen : unseen_phases(1.0, 64, 128)) EXPECT_FALSE(unseen);
  const auto slow = unseen_phases(std::numbers::pi / 256, 64, 128);
  for (std::size_t n = 0; n < 128; ++n) EXPECT_EQ(slow[n], n >= 64) << n;
  // Phases of 3 seen angles out of 10: the others are not.
  const auto tenths = unseen_phases(2 * std::numbers::pi / 10, 3, 20);
  for (std::size_t n = 0; n < 20; ++n) EXPECT_EQ(tenths[n], n % 10 > 2) << n;
}

// Weights by hand from the map of the 19 rows that have a loss.
TEST(Xray, WeightOnUnseenPhasesIsThatOfTheMap) {
  model::ModelConfig config = testing::small_config("rope");
  config.context = 8;
  const auto model = model::random_model(config, 3, at::kDouble);
  const Texts texts = random_texts(1, 20, 32, 1);
  const auto result = xray_of(model, texts);
  TextPass pass(model, ids_tensor(texts.items[0].ids));
  const at::Tensor weights = testing::weights_of(pass, 1)[1];
  ASSERT_EQ(result.unseen.size(), 4u);
  const protocol::XrayUnseen& row = result.unseen[3];
  EXPECT_EQ(row.of, "phases");
  const double planes = static_cast<double>(row.planes.size());
  for (std::size_t m = 0; m < row.planes.size(); ++m) {
    const double frequency = std::pow(10000.0, -static_cast<double>(m) / planes);
    const auto unseen = unseen_phases(frequency, 8, 19);
    double sum = 0;
    for (std::int64_t i = 8; i < 19; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        if (unseen[static_cast<std::size_t>(i - j)]) sum += weights[i][j].item<double>() / 11;
      }
    }
    EXPECT_NEAR(row.planes[m], sum, 1e-12) << m;
  }
  EXPECT_GT(row.planes.back(), 0.05);
  // Plane 0 went round in training; of the slowest, everything from the trained length on is new.
  double beyond = 0;
  for (std::int64_t i = 8; i < 19; ++i) {
    for (std::int64_t j = 0; j <= i - 8; ++j) beyond += weights[i][j].item<double>() / 11;
  }
  EXPECT_EQ(row.planes.front(), 0);
  EXPECT_NEAR(row.planes.back(), beyond, 1e-12);
}

// Of one head of layer 1, past `trained` of `tokens` tokens: the meter, and the weight of the map
// on distances from `trained` on.
struct UnseenHead {
  protocol::XrayUnseen meter;
  double beyond = 0;
};
UnseenHead unseen_head(const std::string& encoding, std::int64_t trained, std::int64_t tokens) {
  model::ModelConfig config = testing::small_config(encoding);
  config.context = trained;
  const auto model = model::random_model(config, 3, at::kDouble);
  const Texts texts = random_texts(1, tokens, 32, 1);
  UnseenHead out{xray_of(model, texts).unseen[3]};
  TextPass pass(model, ids_tensor(texts.items[0].ids));
  // Row n of these is query trained + n, whose key n is the first that is so far away.
  // The last token is read by no row that has a loss.
  const at::Tensor rows = testing::weights_of(pass, 1)[1].slice(0, trained, tokens - 1);
  out.beyond = rows.tril(0).sum().item<double>() / static_cast<double>(tokens - 1 - trained);
  return out;
}

// Where content moves the phases, or a decay the amplitudes, all from the trained length on is new;
// so is every value of ALiBi's, and none of T5's once its last bucket was shown.
TEST(Xray, UnseenDistancesAndValues) {
  for (const auto& [encoding, of] :
       {std::pair{"tape", "distances of the rigid rotation"}, std::pair{"tapa", "distances"},
        std::pair{"xpos", "distances"}, std::pair{"alibi", "values"}}) {
    const UnseenHead head = unseen_head(encoding, 14, 30);
    EXPECT_EQ(head.meter.of, of) << encoding;
    ASSERT_EQ(head.meter.planes.size(), 1u) << encoding;
    EXPECT_NEAR(head.meter.planes[0], head.beyond, 1e-12) << encoding;
    EXPECT_GT(head.beyond, 1e-9) << encoding;
  }
  const UnseenHead head = unseen_head("t5", 114, 130);
  EXPECT_EQ(head.meter.planes, std::vector<double>{0});
  EXPECT_GT(head.beyond, 1e-3);
}

}  // namespace
}  // namespace phasescope::analysis
