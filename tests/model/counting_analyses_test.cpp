// Analyses of models on a second device over the host's memory (phantom_device.h): every answer is
// the CPU's, and within a layer nothing crosses but what a reader takes of it to the host.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

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
#include "formats/error.h"
#include "golden.h"
#include "model/attention/moved_scores.h"
#include "model/host_memory.h"
#include "other_device.h"
#include "protocol/progress.h"

namespace phasescope::model {
namespace {

// What crosses while a layer runs, of passes that tell how far they are: such a pass asks before
// each layer whether it is cancelled, and tells after it. What a reader of the layer takes to the
// host is in it too.
class LayerWatch final : public protocol::Progress {
 public:
  void progress(double, std::string_view doing) override {
    if (!in_layer_ || (doing != "reading the text" && doing != "profiling heads")) return;
    in_layer_ = false, ++layers_;
    const PhantomCounts now = phantom_counts();
    to_device_ += now.to_device - before_.to_device;
    reads_ += now.reads - before_.reads;
  }
  bool cancelled() const override {
    in_layer_ = true, before_ = phantom_counts();
    return false;
  }

  std::int64_t layers() const { return layers_; }
  // Both of all layers together.
  std::int64_t to_device() const { return to_device_; }
  std::int64_t reads() const { return reads_; }

 private:
  mutable bool in_layer_ = false;
  mutable PhantomCounts before_;
  std::int64_t layers_ = 0, to_device_ = 0, reads_ = 0;
};

// ---- analyses -----------------------------------------------------------------------------------

std::vector<std::shared_ptr<analysis::TextPass>> passes_of(
    const std::shared_ptr<const Model>& model) {
  std::vector<std::shared_ptr<analysis::TextPass>> passes;
  for (const analysis::Text& text :
       analysis::random_texts(2, 24, model->config().vocab_size, 5).items) {
    passes.push_back(std::make_shared<analysis::TextPass>(model, analysis::ids_tensor(text.ids)));
  }
  return passes;
}

// What an analysis gives of a model, or why it has no answer for it.
template <class Call>
std::string said(const Call& call, const std::shared_ptr<const Model>& model) {
  try {
    return words(call(model));
  } catch (const formats::Error& error) {
    return error.full_text();
  }
}

// What a reader may have cross within layers.
enum class Crosses { nothing, reads, both };

class AnalysesThere : public testing::TestWithParam<Variant> {
 protected:
  AnalysesThere() { at::set_num_threads(1); }

  // The same answer of both; one that there is at all, of encodings that `call` takes for sure.
  // While a layer runs nothing goes to the device and no value is asked for, but for what
  // `crosses`.
  template <class Call>
  void expect_same(const Call& call, const std::set<std::string>& answered = {"rope", "alibi"},
                   Crosses crosses = Crosses::nothing) const {
    const std::string real = said(call, model_);
    const LayerWatch before = progress_;
    const std::string found = said(call, device_);
    if (crosses != Crosses::both) {
      EXPECT_EQ(progress_.to_device(), before.to_device()) << "copies to the device within layers";
    }
    if (crosses == Crosses::nothing) {
      EXPECT_EQ(progress_.reads(), before.reads()) << "values asked for within layers";
    }
    if (rounds_otherwise(GetParam()) && real.starts_with('{') && found.starts_with('{')) {
      expect_near(Json::parse(found), Json::parse(real), GetParam().name);
    } else {
      EXPECT_EQ(found, real);
    }
    if (answered.contains(GetParam().name)) {
      EXPECT_EQ(real.front(), '{') << real;
    }
  }

  // Whether some layer's scores are a term's, which gives whole rows: which rows chosen pairs lie
  // in is asked for (term_pair_scores). FIRE takes each pair for a region.
  bool reads_pairs_by_rows() const {
    const at::NoGradGuard no_grad;
    AttentionKeeper kept;
    (void)model_->decoder.hidden(random_ids(1, 9, model_->config().vocab_size), {}, &kept);
    return std::ranges::any_of(kept.layers, [](const auto& layer) {
      return layer->program().term() != nullptr && layer->program().fire() == nullptr;
    });
  }

  const std::shared_ptr<const Model> model_ = tiny_model(GetParam(), at::kFloat);
  const std::shared_ptr<const Model> device_ = there(model_);
  mutable LayerWatch progress_;
};
INSTANTIATE_TEST_SUITE_P(Registry, AnalysesThere, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AnalysesThere, HeadsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_heads(passes_of(model), {}, progress_).result;
  });
  if (GetParam().name == "rope") {
    EXPECT_GE(progress_.layers(), 2 * 2 * model_->config().layers) << "no layer was watched";
  }
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
  expect_same(
      [&](const auto& model) {
        return analysis::analyse_distance(passes_of(model), {.per_head = true}, progress_);
      },
      {"rope", "alibi"}, reads_pairs_by_rows() ? Crosses::reads : Crosses::nothing);
}

TEST_P(AnalysesThere, PatternsAreTheSame) {
  // Whether their layers' states are drawn anew or have moved is asked by drawing and comparing.
  const std::set<std::string> drawn = {"randomized_rope_draw_layer", "tape_start_random_fourier"};
  expect_same(
      [&](const auto& model) {
        return analysis::analyse_patterns(passes_of(model), {}, progress_).result;
      },
      {"rope", "alibi"}, drawn.contains(GetParam().name) ? Crosses::both : Crosses::nothing);
}

TEST_P(AnalysesThere, QueriesAndTextsAreTheSame) {
  expect_same([&](const auto& model) {
    const auto pass = passes_of(model)[0];
    const analysis::Watching watching(*pass, progress_);
    return analysis::analyse_query(*pass, {}).result;
  });
  const analysis::Text text =
      analysis::random_texts(1, 24, model_->config().vocab_size, 5).items[0];
  expect_same([&](const auto& model) {
    const auto pass = passes_of(model)[0];
    const analysis::Watching watching(*pass, progress_);
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
  expect_same([&](const auto& model) {
    return ShiftRows{analysis::analyse_shift(model, ids, {}, progress_).rows};
  });
}

// ---- questions, which change layers by hooks ----------------------------------------------------

// Each encoding once, as it comes.
std::vector<Variant> encodings() {
  std::vector<Variant> list;
  std::set<std::string> seen;
  for (const Variant& variant : variants()) {
    if (seen.insert(variant.encoding).second) list.push_back(variant);
  }
  return list;
}

class QuestionsThere : public AnalysesThere {
 protected:
  // Longer than the tiny configuration's context, which is what X-ray looks at.
  const analysis::Texts texts_ = analysis::random_texts(2, 40, model_->config().vocab_size, 7);
};
INSTANTIATE_TEST_SUITE_P(Registry, QuestionsThere, testing::ValuesIn(encodings()),
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
  // The pairs are placed anew, and how far apart they lie is read of them (extent_of).
  const std::set<std::string> reads_extents = {"alibi",      "ape_sequence",   "cape",  "formula",
                                               "kerple_log", "kerple_power",   "liere", "t5",
                                               "tapa",       "transformer_xl", "xpos"};
  const bool reads = reads_extents.contains(GetParam().encoding);
  const auto profile = [&](const auto& model) {
    return analysis::analyse_profile(model, texts_, {.window = 12, .samples = 20}, progress_);
  };
  expect_same(profile, {"rope", "alibi"}, reads ? Crosses::reads : Crosses::nothing);
  // Its reader asks within a layer too whether it is cancelled, so that all of the run is counted:
  // of each text its ids, the two ends of its pairs, and the three of its triplets.
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
  const ProbeRequest request = {.entropy = true,
                                .max_score = true,
                                .mean_distance = true,
                                .windows = {4, 16},
                                .bucket_edges = {0, 1, 4, 16, 64},
                                .content = true,
                                .term = true,
                                .top_keys = 3};
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

TEST_P(QuestionsThere, NothingCrossesForClamps) {
  const at::NoGradGuard no_grad;
  if (!no_other_distance(model_->config(), model_->encoding()).empty()) return;
  // Their pairs are placed anew, and how far apart they lie is read of them (extent_of).
  const std::set<std::string> reads_extents = {"ape_sequence", "cape", "tapa", "transformer_xl"};
  const at::Tensor ids = random_ids(2, 33, model_->config().vocab_size);
  for (const Backend backend : {Backend::fused, Backend::plain}) {
    Clamping clamping;
    const ForwardOptions options = {.backend = backend, .hook = &clamping};
    const at::Tensor expected = model_->decoder.forward(ids, options);
    EXPECT_FALSE(expected.equal(model_->decoder.forward(ids, {.backend = backend})) &&
                 GetParam().name == "rope")
        << "nothing was clamped";
    reset_phantom_counts();
    const at::Tensor found = device_->decoder.forward(ids, options);
    const PhantomCounts counts = phantom_counts();
    EXPECT_EQ(counts.to_host, 0);
    if (!reads_extents.contains(GetParam().encoding)) {
      EXPECT_EQ(counts.reads, 0);
    }
    EXPECT_LE(counts.to_device, kInputs + most_at_start(GetParam(), model_->config()));
    if (!rounds_otherwise(GetParam())) {
      EXPECT_TRUE(found.cpu().equal(expected));
    }
  }
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
