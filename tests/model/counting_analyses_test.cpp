// Analyses of models on a second device over the host's memory (phantom_device.h): every answer is
// the CPU's, and within a layer nothing crosses but what a reader takes of it to the host.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "analyses_there.h"
#include "analysis/ablate.h"
#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/patterns.h"
#include "analysis/query_rows.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/duel.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "analysis/questions/xray.h"
#include "analysis/reading.h"
#include "analysis/shift.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "attention_keeper.h"
#include "masked_program.h"
#include "model/attention/moved_scores.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

// ---- analyses -----------------------------------------------------------------------------------

INSTANTIATE_TEST_SUITE_P(Registry, AnalysesThere, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AnalysesThere, HeadsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_heads(passes_of(model), {}, progress_).result;
  });
}

TEST_P(AnalysesThere, MapsAreTheSame) {
  for (const char* of : {"weight", "score", "content", "positional"}) {
    SCOPED_TRACE(of);
    protocol::MapRequest options;
    options.head = {"L1H1"};
    options.of = of;
    expect_same([&](const auto& model) {
      return analysis::analyse_map(*passes_of(model)[0], options, progress_).result;
    });
  }
}

TEST_P(AnalysesThere, DistancesAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_distance(passes_of(model), {.per_head = true}, progress_);
  });
}

TEST_P(AnalysesThere, PatternsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_patterns(passes_of(model), {}, progress_).result;
  });
}

TEST_P(AnalysesThere, QueriesAndTextsAreTheSame) {
  expect_same([&](const auto& model) {
    const auto pass = passes_of(model)[0];
    return analysis::analyse_query(*pass, {}).result;
  });
  const analysis::Text text =
      analysis::random_texts(1, 24, model_->config().vocab_size, 5).items[0];
  expect_same([&](const auto& model) {
    const auto pass = passes_of(model)[0];
    return analysis::analyse_text(*pass, text, 3);
  });
}

TEST_P(AnalysesThere, ComparisonsAreTheSame) {
  const auto other = tiny_model({"alibi", "alibi", Json::object()}, at::kFloat);
  expect_same([&](const auto& model) {
    return analysis::analyse_compare(passes_of(model), passes_of(other), progress_,
                                     {.match = true});
  });
}

// The rows of a shift, in a struct that has a JSON form.
struct ShiftRows {
  std::vector<protocol::ShiftRow> rows;
  template <class V>
  void fields(V& v) {
    v("rows", rows);
  }
};

TEST_P(AnalysesThere, ShiftsAreTheSame) {
  const std::vector<std::int64_t> ids =
      analysis::random_texts(1, 24, model_->config().vocab_size, 5).items[0].ids;
  const auto shift = [&](const std::string& dtype) {
    return [&, dtype](const auto& model) {
      return ShiftRows{analysis::analyse_shift(model, ids, {.dtypes = {dtype}}, progress_).rows};
    };
  };
  expect_same(shift("f32"));
  // Weights in another dtype are others, which are watched by themselves.
  const auto doubles = in_dtype(device_, at::kDouble);
  watch_.add(*doubles);
  expect_same(shift("f64"), in_dtype(model_, at::kDouble), doubles, {"rope", "alibi"});
}

// ---- questions, which change layers by hooks ----------------------------------------------------

class QuestionsThere : public AnalysesThere {
 protected:
  // Longer than the tiny configuration's context, which is what X-ray looks at.
  const analysis::Texts texts_ = analysis::random_texts(2, 40, model_->config().vocab_size, 7);
};
INSTANTIATE_TEST_SUITE_P(Registry, QuestionsThere, testing::ValuesIn(encodings_alone()),
                         [](const auto& info) { return info.param.name; });

TEST_P(QuestionsThere, DemandsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_demand(model, texts_, {}, progress_).result;
  });
}

TEST_P(QuestionsThere, ABiasIsFittedTheSame) {
  analysis::DemandOptions options;
  options.fit = true;
  options.steps = 1;
  const analysis::Texts texts = analysis::random_texts(12, 20, model_->config().vocab_size, 7);
  expect_same([&](const auto& model) {
    return analysis::analyse_demand(model, texts, options, progress_).result;
  });
}

TEST_P(QuestionsThere, AddressingIsTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_addressing(passes_of(model), {}, progress_);
  });
}

TEST_P(QuestionsThere, ProfilesAreTheSame) {
  const auto profile = [&](const auto& model) {
    return analysis::analyse_profile(model, texts_, {.window = 12, .samples = 20}, progress_);
  };
  expect_same(profile);
  // Of all that runs: of each text its ids, the two ends of its pairs, and the three of its
  // triplets.
  reset_phantom_counts();
  (void)said(profile, device_);
  const auto texts = static_cast<std::int64_t>(texts_.items.size());
  EXPECT_LE(phantom_counts().to_device,
            texts * (kInputs + 5 + most_at_start(GetParam(), model_->config())));
}

TEST_P(QuestionsThere, PairsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_pair(model, texts_.items[0], {}, progress_);
  });
}

TEST_P(QuestionsThere, DuelsAreTheSame) {
  const auto other = tiny_model({"alibi", "alibi", Json::object()}, at::kFloat);
  const analysis::Texts texts = analysis::random_texts(9, 20, model_->config().vocab_size, 7);
  expect_same([&](const auto& model) {
    return analysis::analyse_duel(model, texts, other, texts, {.all_texts = true}, progress_);
  });
}

TEST_P(QuestionsThere, AcuityIsTheSame) {
  analysis::AcuityOptions options;
  options.seeds = {1};
  options.by = "head";
  expect_same([&](const auto& model) {
    return analysis::analyse_acuity(model, texts_, options, progress_);
  });
}

TEST_P(QuestionsThere, XraysAreTheSame) {
  for (const bool clamp : {false, true}) {
    SCOPED_TRACE(clamp);
    analysis::XrayOptions options;
    options.clamp = clamp;
    expect_same([&](const auto& model) {
      return analysis::analyse_xray(model, texts_, options, progress_);
    });
  }
}

TEST_P(QuestionsThere, AblationsAreTheSame) {
  for (const char* how : {"zero", "mean", "resample", "window", "clamp", "sink", "bias"}) {
    SCOPED_TRACE(how);
    analysis::AblateOptions options;
    options.heads = {"L1H1"};
    options.how = how;
    const std::string name = how;
    if (name == "window" || name == "clamp") options.limit = 5;
    if (name == "sink" || name == "bias") options.limit = 0.5;
    const auto ablated = [&](const auto& model) {
      return analysis::analyse_ablate(model, texts_, options, progress_).result;
    };
    // Of the two, ALiBi alone has a bias.
    expect_same(ablated, name == "bias" ? std::set<std::string>{"alibi"}
                                        : std::set<std::string>{"rope", "alibi"});
  }
}

// ---- what a layer is given beside its operands ---------------------------------------------------

TEST_P(QuestionsThere, NothingCrossesForProbes) {
  const at::NoGradGuard no_grad;
  const ProbeRequest request = all_probes();
  const at::Tensor ids = random_ids(2, 33, model_->config().vocab_size);
  for (const Backend backend : {Backend::fused, Backend::plain}) {
    AttentionKeeper real, ours;
    real.probes = ours.probes = &request;
    (void)model_->decoder.hidden(ids, {.backend = backend}, &real);
    reset_phantom_counts();
    (void)device_->decoder.hidden(ids, {.backend = backend}, &ours);
    std::vector<ProbeResult> found;
    const PhantomCounts in_pass = phantom_counts();
    EXPECT_EQ(in_pass.to_host + in_pass.reads, 0);
    EXPECT_LE(in_pass.to_device, kInputs + most_at_start(GetParam(), model_->config()));
    reset_phantom_counts();
    for (const auto& layer : ours.layers) found.push_back(layer->probe(request));
    EXPECT_EQ(phantom_counts().to_device + phantom_counts().reads, 0);
    for (std::size_t n = 0; n < found.size() && !rounds_otherwise(GetParam()); ++n) {
      const ProbeResult expected = real.layers[n]->probe(request);
      EXPECT_TRUE(found[n].entropy.cpu().equal(expected.entropy)) << n;
      EXPECT_TRUE(found[n].bucket_pairs.cpu().equal(expected.bucket_pairs)) << n;
      EXPECT_TRUE(found[n].bucket_score.cpu().equal(expected.bucket_score)) << n;
    }
  }
}

// Clamps every layer's heads, each at another limit.
class Clamping final : public AttentionHook {
 public:
  void before(const LayerInput& input, AttentionProgram& program) override {
    std::vector<std::int64_t> limits(static_cast<std::size_t>(program.q.size(1)), 7);
    limits[0] = 3;
    clamp_distances(input, limits, program);
  }
};

// Of two texts, with their positions where these are given.
void expect_clamped(const Variant& variant, const Model& model, const Model& device,
                    const at::Tensor& positions) {
  const at::NoGradGuard no_grad;
  if (!no_other_distance(model.config(), model.encoding()).empty()) return;
  const at::Tensor ids = random_ids(2, 33, model.config().vocab_size);
  const std::int64_t inputs = kInputs + (positions.defined() ? 1 : 0);
  for (const Backend backend : {Backend::fused, Backend::plain}) {
    Clamping clamping;
    ForwardOptions options = {.backend = backend};
    options.position_ids = positions;
    const at::Tensor own = model.decoder.forward(ids, options);
    options.hook = &clamping;
    const at::Tensor expected = model.decoder.forward(ids, options);
    EXPECT_FALSE(expected.equal(own) && variant.name == "rope") << "nothing was clamped";
    reset_phantom_counts();
    const at::Tensor found = device.decoder.forward(ids, options);
    const PhantomCounts counts = phantom_counts();
    EXPECT_EQ(counts.to_host, 0);
    EXPECT_EQ(counts.reads, 0);
    EXPECT_LE(counts.to_device, inputs + most_at_start(variant, model.config()));
    if (!rounds_otherwise(variant)) {
      EXPECT_TRUE(found.cpu().equal(expected));
    }
  }
}

TEST_P(QuestionsThere, NothingCrossesForClamps) {
  expect_clamped(GetParam(), *model_, *device_, {});
}

TEST_P(QuestionsThere, NothingCrossesForClampsAtGivenPositions) {
  const at::Tensor token = at::arange(33, at::kLong);
  const at::Tensor steps = at::stack({(token * token).remainder(3), token.remainder(4)}) + 1;
  expect_clamped(GetParam(), *model_, *device_, steps.cumsum(1));
}

// Of passes that are not kept, whose layers run again for each reader.
TEST_P(QuestionsThere, NothingCrossesForBiasesThatContentCorrects) {
  if (GetParam().encoding != "cape") return;
  expect_same(
      [&](const auto& model) {
        std::vector<std::shared_ptr<analysis::TextPass>> passes;
        for (const analysis::Text& text : texts_.items) {
          passes.push_back(std::make_shared<analysis::TextPass>(
              model, analysis::ids_tensor(text.ids), ForwardOptions(), 0));
        }
        const auto result = analysis::analyse_patterns(passes, {}, progress_).result;
        EXPECT_FALSE(result.adaptive.empty());
        return result;
      },
      {"cape"});
}

// Whose scores of single pairs are changed by regions before the softmax.
TEST_P(QuestionsThere, DistancesOfClampedReadingsAreTheSame) {
  if (!no_other_distance(model_->config(), model_->encoding()).empty()) return;
  Variant clamped = GetParam();
  clamped.options["head_clamps"] = "all:7";
  const auto model = tiny_model(clamped, at::kFloat), device = there(model);
  watch_.add(*device);
  const auto distance = [&](const auto& of) {
    return analysis::analyse_distance(passes_of(of), {.pairs = 20}, progress_);
  };
  expect_same(distance, model, device, {"rope", "alibi"});
}

TEST(OnADevice, AListIsWrittenOnceAndCopiedNever) {
  const std::vector<std::int64_t> numbers = {0, 1, std::int64_t{1} << 60, -5};
  reset_phantom_counts();
  const at::Tensor list = list_on(numbers, phantom_device());
  EXPECT_TRUE(list.is_same(list_on(numbers, phantom_device())));
  EXPECT_FALSE(list.is_same(list_on({0, 1}, phantom_device())));
  EXPECT_EQ(phantom_counts().to_device, 0);
  EXPECT_TRUE(list.cpu().equal(at::tensor(numbers, at::kLong)));
  EXPECT_TRUE(list_on(numbers, at::kCPU).equal(at::tensor(numbers, at::kLong)));
}

}  // namespace
}  // namespace phasescope::model
