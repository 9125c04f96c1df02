// Progress of everything long: from 0 to 1, and never back.
#include "protocol/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "analysis/ablate.h"
#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/near_far_sampler.h"
#include "analysis/patterns.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/profile.h"
#include "analysis/questions/proofs.h"
#include "analysis/questions/xray.h"
#include "analysis/shift.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::passes_for;
using testing::small_model;

// Fails at the first report that lies below one before it.
class Rising final : public protocol::Progress {
 public:
  void progress(double fraction, std::string_view text) override {
    ++reports;
    if (fraction < 0) return;  // unknown
    // The end of one part and the begin of the next are rounded apart.
    EXPECT_GE(fraction, last - kRounding) << text << ", report " << reports;
    EXPECT_LE(fraction, 1 + kRounding) << text;
    last = std::max(last, fraction);
  }
  bool cancelled() const override { return false; }

  int reports = 0;
  double last = 0;

 private:
  static constexpr double kRounding = 1e-14;
};

// `least`: what the last report reaches at least; some analyses say when a step begins alone.
void expect_rising(const std::string& what, double least,
                   const std::function<void(protocol::Progress&)>& run) {
  SCOPED_TRACE(what);
  Rising progress;
  run(progress);
  EXPECT_GT(progress.reports, 2);
  EXPECT_GE(progress.last, least);
}

Texts texts_to_watch(std::int64_t count = 3) { return random_texts(count, 24, 32, 5); }

TEST(Progress, OfShiftsRisesOverAllPasses) {
  std::vector<std::vector<std::int64_t>> texts;
  for (const Text& text : texts_to_watch().items) texts.push_back(text.ids);
  for (const char* encoding : {"rope", "tape"}) {
    expect_rising(encoding, 1, [&](protocol::Progress& progress) {
      analyse_shift(small_model(encoding), texts, {.by = {1, 3}}, progress);
    });
  }
}

// Passes of long texts are not kept, and run again for each of their readers.
TEST(Progress, OfShiftsRisesWherePassesRunAgain) {
  const auto model = small_model("tape");
  const auto first = passes_for(model, 1, 24, 0), second = passes_for(model, 1, 24, 0);
  expect_rising("two passes", 1, [&](protocol::Progress& progress) {
    run_difference(*first[0], *second[0], 0, progress);
  });
}

TEST(Progress, OfHeadsRises) {
  HeadsOptions options;
  options.metrics = {"entropy", "js_divergence", "induction", "induction_loss"};
  options.draws = 3;
  for (const std::int64_t keep : {0, 1 << 30}) {
    expect_rising("heads", 0.9, [&](protocol::Progress& progress) {
      const auto passes = passes_for(small_model("rope"), 2, 24, keep);
      // As the worker has it: who else watched a pass is not told twice.
      for (const auto& pass : passes) pass->watch(&progress);
      analyse_heads(passes, options, progress);
    });
  }
}

TEST(Progress, OfComparisonsRises) {
  for (const bool match : {false, true}) {
    expect_rising("compare", 0.7, [&](protocol::Progress& progress) {
      const auto a = passes_for(small_model("rope"), 2, 24, 0),
                 b = passes_for(small_model("alibi"), 2, 24, 0);
      for (const auto& pass : {a[0], a[1], b[0], b[1]}) pass->watch(&progress);
      analyse_compare(a, b, progress, {.match = match});
    });
  }
}

TEST(Progress, OfDistancesRises) {
  for (const std::int64_t keep : {0, 1 << 30}) {
    expect_rising("distance", 1, [&](protocol::Progress& progress) {
      const auto passes = passes_for(small_model("rope"), 2, 24, keep);
      for (const auto& pass : passes) pass->watch(&progress);
      analyse_distance(passes, {.pairs = 100}, progress);
    });
  }
  expect_rising("near - far", 1, [&](protocol::Progress& progress) {
    const NearFarSpec spec{.near_begin = 1, .near_end = 4, .far_begin = 16, .far_end = 24};
    sample_near_far(small_model("rope"), texts_to_watch(), spec, model::Backend::plain, progress,
                    nullptr);
  });
}

// The states, the bias of one query, its rows and those of all texts are read one after another, of
// passes that are not kept from the first layer on each time.
TEST(Progress, OfPatternsRises) {
  const auto rises = [](const std::string& encoding, std::int64_t texts, double least) {
    for (const std::int64_t keep : {0, 1 << 30}) {
      expect_rising(encoding, least, [&](protocol::Progress& progress) {
        const auto passes = passes_for(small_model(encoding), texts, 24, keep);
        for (const auto& pass : passes) pass->watch(&progress);  // as the worker has it
        analyse_patterns(passes, {.positions = 8, .queries = {9, 20}}, progress);
      });
    }
  };
  rises("tape", 1, 0.4);  // a position state alone
  rises("cape", 1, 0.8);
  rises("cape", 3, 0.9);
}

// What runs within a step is cancelled with it, and says nothing of how far it is itself.
TEST(Progress, WithinAStepOnlyCancels) {
  class Stopped final : public protocol::Progress {
   public:
    void progress(double, std::string_view) override { ADD_FAILURE() << "was told"; }
    bool cancelled() const override { return true; }
  };
  Stopped stopped;
  CancelOnly within(stopped);
  within.progress(0.5, "a part of it");
  EXPECT_TRUE(within.cancelled());
  const auto pass = passes_for(small_model("cape"), 1, 24, 0)[0];
  const Watching watching(*pass, within);
  EXPECT_ANY_THROW(pass->run());
}

TEST(Progress, OfAblationsRises) {
  expect_rising("maps", 0.7, [&](protocol::Progress& progress) {
    analyse_ablate(small_model("rope"), texts_to_watch(), {.heads = {"L0H1"}, .maps = "yes"},
                   progress);
  });
  expect_rising("means", 0.7, [&](protocol::Progress& progress) {
    analyse_ablate(small_model("rope"), texts_to_watch(), {.heads = {"L1"}, .how = "mean"},
                   progress);
  });
}

TEST(Progress, OfQuestionsRises) {
  const auto model = small_model("rope");
  const Texts texts = texts_to_watch(12);
  expect_rising("acuity", 0.9,
                [&](protocol::Progress& progress) { analyse_acuity(model, texts, {}, progress); });
  expect_rising("addressing", 1, [&](protocol::Progress& progress) {
    analyse_addressing(passes_for(model), {}, progress);
  });
  expect_rising("demand", 0.18, [&](protocol::Progress& progress) {
    DemandOptions options;
    options.fit = true, options.steps = 2;
    analyse_demand(model, texts, options, progress);
  });
  expect_rising("profile", 0.9, [&](protocol::Progress& progress) {
    ProfileOptions options;
    options.window = 16, options.samples = 8;
    analyse_profile(model, texts, options, progress);
  });
  expect_rising("xray", 0.6, [&](protocol::Progress& progress) {
    const std::int64_t length = 2 * model->config().context;
    XrayOptions options;
    options.repair = true;
    analyse_xray(model, random_texts(4, length, 32, 5), options, progress);
  });
}

// A pass of a large model takes minutes: it tells of each of its layers, the first pass among them,
// and not of itself alone.
TEST(Progress, OfQuestionsIsToldByLayer) {
  const auto model = small_model("rope");
  const Texts texts = texts_to_watch(2);
  const std::int64_t layers = model->config().layers;
  Rising ablating, moving, treating, asking;
  const std::int64_t ablated =
      analyse_ablate(model, texts, {.heads = {"L0H1"}, .maps = "no"}, ablating).result.passes;
  EXPECT_EQ(ablated, 4);
  EXPECT_EQ(ablating.reports, ablated * (1 + layers));
  const std::int64_t moved = analyse_acuity(model, texts, {.seeds = {1}}, moving).passes;
  EXPECT_GT(moved, 2);
  EXPECT_EQ(moving.reports, moved * (1 + layers));
  const Texts longer = random_texts(2, 2 * model->config().context, 32, 5);
  const std::int64_t treated = analyse_xray(model, longer, {.layers = {0}}, treating).passes;
  EXPECT_GT(treated, 4);
  EXPECT_EQ(treating.reports, treated * (1 + layers));
  // Forward, and where its gradients come.
  analyse_demand(model, texts, {}, asking);
  EXPECT_EQ(asking.reports, std::ssize(texts.items) * (1 + 2 * layers));
}

TEST(Progress, OfProofsRises) {
  expect_rising("copy7", 0.9, [&](protocol::Progress& progress) {
    model::AllRan kernels;
    const auto model = model::open_model("proof-copy7", {.dtype = at::kDouble});
    prove("proof-copy7", model, {.dtype = at::kDouble}, kernels, progress);
  });
}

}  // namespace
}  // namespace phasescope::analysis
