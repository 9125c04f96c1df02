// What layers are given beside their operands (positions that are drawn or skip padding, masks,
// tables of readings, rows that are drawn) on a second device (phantom_device.h): it crosses before
// the layers run, once for all of them.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "analyses_there.h"
#include "analysis/near_far_sampler.h"
#include "analysis/patterns.h"
#include "formats/file_system.h"
#include "model/checkpoints/tensor_io.h"
#include "model/host_memory.h"
#include "tests/temporary_folder.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kLayers = 4;  // more than anything that crosses once
constexpr std::int64_t kTokens = 24;

ModelConfig config_of(const std::string& encoding) {
  ModelConfig config = tiny_config(encoding);
  config.layers = kLayers;
  return config;
}

// A hook like those of questions, which reads what its layers stand on and changes nothing.
class Looking final : public AttentionHook {
 public:
  void before(const LayerInput& input, AttentionProgram&) override {
    positions.push_back(input.context.positions);
  }
  std::vector<Positions> positions;
};

// A pass on both sides: the same hidden states, `inputs` copies to the device, `outputs` to the
// host, and nothing asked for.
void expect_crossings(const Model& model, const Model& device, const ForwardOptions& here,
                      const ForwardOptions& there, std::int64_t inputs, std::int64_t outputs = 0) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(2, kTokens, model.config().vocab_size);
  const at::Tensor expected = model.decoder.hidden(ids, here);
  reset_phantom_counts();
  const at::Tensor found = device.decoder.hidden(ids, there);
  const PhantomCounts counts = phantom_counts();
  EXPECT_EQ(counts.to_device, inputs);
  EXPECT_EQ(counts.to_host, outputs);
  EXPECT_EQ(counts.reads, 0);
  EXPECT_TRUE(found.cpu().equal(expected));
}

// ---- positions ----------------------------------------------------------------------------------

TEST(InputsThere, DrawnPositionsCrossOnce) {
  at::set_num_threads(1);
  for (const char* encoding : {"rope", "alibi", "tape", "tapa"}) {
    for (const char* map : {"random", "random_by_layer"}) {
      SCOPED_TRACE(encoding + std::string(" ") + map);
      const bool by_layer = map == std::string("random_by_layer");
      if (by_layer && encoding == std::string("tape")) continue;  // its layers hand positions on
      ModelConfig config = config_of(encoding);
      config.positions.map = map, config.positions.draw = "always";
      const auto model = random_model(config, 1), device = there(model);
      Looking hook, hook_there;
      expect_crossings(*model, *device, {}, {}, kInputs + 1);
      expect_crossings(*model, *device, {.hook = &hook}, {.hook = &hook_there}, kInputs + 1);
      ASSERT_EQ(hook_there.positions.size(), static_cast<std::size_t>(kLayers));
      for (std::size_t n = 0; n < hook_there.positions.size(); ++n) {
        const Positions &ours = hook_there.positions[n], &real = hook.positions[n];
        EXPECT_TRUE(ours.ids.device() == phantom_device() && ours.kept.is_cpu());
        EXPECT_TRUE(ours.ids.cpu().equal(real.ids) && ours.kept.equal(real.ids)) << n;
      }
      EXPECT_EQ(hook.positions[0].ids.equal(hook.positions[1].ids), !by_layer);
    }
  }
}

at::Tensor left_padding() {
  at::Tensor mask = at::ones({2, kTokens}, at::kLong);
  mask[0].slice(0, 0, 5).zero_();
  return mask;
}

TEST(InputsThere, PositionsThatSkipPaddingCrossOnce) {
  at::set_num_threads(1);
  for (const char* encoding : {"rope", "tape"}) {
    SCOPED_TRACE(encoding);
    ModelConfig config = config_of(encoding);
    config.positions_skip_padding = true, config.attention.padding = "added";
    const auto model = random_model(config, 1), device = there(model);
    Looking hook, hook_there;
    ForwardOptions here{.hook = &hook}, options{.hook = &hook_there};
    here.key_mask = options.key_mask = left_padding();
    // Of the text, its mask and its positions.
    expect_crossings(*model, *device, here, options, kInputs + 2);
    // A mask that lies there is read once, for what the host makes of it.
    options.key_mask = options.key_mask.to(phantom_device());
    hook_there.positions.clear();
    expect_crossings(*model, *device, here, options, kInputs + 1, 1);
    ASSERT_FALSE(hook_there.positions.empty());
    EXPECT_TRUE(hook_there.positions[0].kept.is_cpu());
  }
}

// ---- readings -----------------------------------------------------------------------------------

// Models of one reading on both sides.
struct Reading {
  std::shared_ptr<const Model> model, device;
};
Reading reading_of(const std::string& encoding,
                   const std::vector<std::pair<std::string, std::string>>& settings) {
  const auto model = with_overrides(random_model(config_of(encoding), 1), settings);
  return {model, there(model)};
}

TEST(InputsThere, ATableOfBiasesCrossesOnceForAllPasses) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const auto file = folder.path() / "table.safetensors";
  const at::Tensor table = at::linspace(-1, 2, kLayers * 3 * kTokens, at::kDouble).sin();
  write_tensors(
      formats::real_file_system(), file,
      {{"table", table.view({kLayers, 3, kTokens})}, {"edges", at::arange(kTokens, at::kLong)}});
  for (const char* encoding : {"rope", "alibi", "tapa"}) {
    SCOPED_TRACE(encoding);
    const Reading one = reading_of(encoding, {{"encoding.bias_table", file.string()}});
    expect_crossings(*one.model, *one.device, {}, {}, kInputs + 1);
    expect_crossings(*one.model, *one.device, {}, {}, kInputs);
  }
}

TEST(InputsThere, MeanOutputsCrossOnceForAllPasses) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const auto file = folder.path() / "means.safetensors";
  write_tensors(
      formats::real_file_system(), file,
      {{"mean", at::linspace(-1, 1, kLayers * 3 * 8, at::kDouble).view({kLayers, 3, 8})}});
  const Reading one = reading_of("rope", {{"encoding.head_ablations", "all:mean"},
                                          {"encoding.ablation_means", file.string()}});
  expect_crossings(*one.model, *one.device, {}, {}, kInputs + 1);
  expect_crossings(*one.model, *one.device, {}, {}, kInputs);
}

TEST(InputsThere, RowsThatAreDrawnCrossOnce) {
  at::set_num_threads(1);
  const Reading one = reading_of("rope", {{"encoding.head_ablations",
                                           "L0:resample L2H1:resample "
                                           "L3:zero"}});
  for (int pass = 0; pass < 2; ++pass) {
    expect_crossings(*one.model, *one.device, {}, {}, kInputs + 1);
  }
}

TEST(InputsThere, ACopyIsKeptAsLongAsItsTensor) {
  at::Tensor table = at::arange(4, at::kDouble);
  reset_phantom_counts();
  const at::Tensor there = kept_on(table, phantom_device());
  EXPECT_TRUE(there.is_same(kept_on(table, phantom_device())));
  EXPECT_EQ(phantom_counts().to_device, 1);
  EXPECT_TRUE(kept_on(table, at::kCPU).is_same(table));
  EXPECT_FALSE(kept_on({}, phantom_device()).defined());
  table = at::arange(4, 8, at::kDouble);  // nobody holds the other any more
  EXPECT_TRUE(kept_on(table, phantom_device()).cpu().equal(table));
  EXPECT_EQ(there.use_count(), 1u);
}

// ---- analyses -----------------------------------------------------------------------------------

class PositionsThere : public AnalysesThere {
 protected:
  // The same of other models than the variant's own.
  template <class Call>
  void expect_same_of(const ModelConfig& config, const Call& call) {
    const auto model = random_model(config, 1), device = there(model);
    watch_.add(*device);
    expect_same(call, model, device, {GetParam().name});
  }
};
INSTANTIATE_TEST_SUITE_P(Registry, PositionsThere,
                         testing::Values(Variant{"rope", "rope", Json::object()},
                                         Variant{"tape", "tape", Json::object()}),
                         [](const auto& info) { return info.param.name; });

// Local layers begin with a state of their own, at the same places.
TEST_P(PositionsThere, PatternsOfDrawnPositionsAreTheSame) {
  for (const char* map : {"random", "random_by_layer"}) {
    SCOPED_TRACE(map);
    if (GetParam().encoding == "tape" && map == std::string("random_by_layer")) continue;
    ModelConfig config = config_of(GetParam().encoding);
    config.positions.map = map, config.positions.draw = "always";
    config.attention.window = 8, config.attention.local_layers = {0, 2};
    config.local_encoding = EncodingConfig{GetParam().encoding, {{"base", 100.0}}};
    expect_same_of(config, [&](const auto& model) {
      return analysis::analyse_patterns(passes_of(model), {}, progress_).result;
    });
  }
}

struct NearFarLists {
  std::vector<double> measured, shuffled;
  template <class V>
  void fields(V& v) {
    v("measured", measured), v("shuffled", shuffled);
  }
};

TEST_P(PositionsThere, NearFarOfShuffledPositionsIsTheSame) {
  const auto lists_of = [&](const auto& model) {
    const analysis::Texts texts = analysis::random_texts(2, 40, model->config().vocab_size, 7);
    analysis::NearFarSpec spec = analysis::default_near_far(40);
    spec.pairs = 40;
    const auto samples = analysis::sample_near_far(model, texts, spec, Backend::fused, progress_);
    EXPECT_TRUE(samples.shuffled) << "a control of positions as layers begin with them";
    return NearFarLists{samples.measured.pooled(),
                        samples.shuffled ? samples.shuffled->pooled() : std::vector<double>()};
  };
  expect_same_of(config_of(GetParam().encoding), lists_of);
  ModelConfig drawn = config_of(GetParam().encoding);
  drawn.positions.map = "random", drawn.positions.draw = "always";
  expect_same_of(drawn, lists_of);
}

}  // namespace
}  // namespace phasescope::model
