// What a pass over a text keeps.
#include "analysis/text_pass.h"

#include <gtest/gtest.h>

#include <vector>

#include "analysis/tensors.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::small_model;

TEST(TextPass, KeptAndUnkeptSayTheSame) {
  const auto model = small_model("tape");
  const auto ids = ids_tensor(random_texts(1, 30, 32, 4).items[0].ids);
  TextPass kept(model, ids), unkept(model, ids, {}, 0);
  EXPECT_TRUE(kept.layer(1)->lse().equal(unkept.layer(1)->lse()));
  EXPECT_EQ(unkept.kept_bytes(), 0);
  EXPECT_GT(kept.kept_bytes(), 0);
  int states = 0;
  unkept.visit_positions([&states](std::int64_t, const model::PositionState&) { ++states; });
  EXPECT_EQ(states, 3);
  EXPECT_THROW(kept.layer(2), formats::Error);
}

// 19.12: a map of a layer stops the pass there, and its zooms run none.
TEST(TextPass, OneLayerIsReadAloneAndKept) {
  const auto model = small_model("rope");
  const auto ids = ids_tensor(random_texts(1, 30, 32, 4).items[0].ids);
  std::vector<double> done;
  bool cancelled = false;
  model::ForwardOptions options;
  options.progress = [&done](double share) { done.push_back(share); };
  options.cancelled = [&cancelled] { return cancelled; };
  TextPass whole(model, ids);
  const std::int64_t half = whole.layer(0) ? whole.kept_bytes() / 2 : 0;
  TextPass pass(model, ids, options, half + 4096);  // room for one of two layers
  const AttentionPointer first = pass.layer(0);
  EXPECT_EQ(done, std::vector<double>{0.5});
  EXPECT_TRUE(first->lse().equal(whole.layer(0)->lse()));
  EXPECT_EQ(pass.layer(0), first);
  EXPECT_EQ(done.size(), 1u);
  EXPECT_GT(pass.kept_bytes(), 0);
  EXPECT_TRUE(pass.layer(1)->lse().equal(whole.layer(1)->lse()));
  EXPECT_EQ(pass.layer(0)->layer(), 0);  // the other one has left
  EXPECT_TRUE(pass.hidden().equal(whole.hidden()));
  pass.release();
  EXPECT_EQ(pass.kept_bytes(), 0);
  cancelled = true;
  EXPECT_THROW(pass.layer(0), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
