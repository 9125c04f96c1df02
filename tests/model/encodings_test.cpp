// Generated from the registry: whatever encoding is added, fused is held against plain, gradients
// against float64, results against repetition and thread counts, at awkward sizes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attention_keeper.h"
#include "encoding_variants.h"
#include "formats/error.h"
#include "golden.h"
#include "model/attention/fused_attention.h"
#include "model/checkpoints/open_model.h"
#include "next_token_loss.h"

namespace phasescope::model {
namespace {

class EveryEncoding : public testing::TestWithParam<Variant> {
 protected:
  // Tensors this small only wait for each other on several threads.
  EveryEncoding() { at::set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(Registry, EveryEncoding, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

// A float32 result may be twice as far from float64 as the plain one, plus rounding of a few sums.
constexpr double kRounding = 2e-6;

TEST_P(EveryEncoding, FusedIsAsNearToFloat64AsPlain) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  const auto exact = tiny_model(GetParam(), at::kDouble);
  const at::NoGradGuard no_grad;
  for (const std::int64_t length : {1, 17, 81}) {
    const at::Tensor ids = random_ids(2, length, model->config().vocab_size);
    const at::Tensor truth = exact->decoder.forward(ids, {.backend = Backend::plain});
    const double plain =
        relative_error(model->decoder.forward(ids, {.backend = Backend::plain}), truth);
    const double fused =
        relative_error(model->decoder.forward(ids, {.backend = Backend::fused}), truth);
    // TAPA's phase turns many times here, which costs float32 two more digits than the others.
    EXPECT_LT(plain, 1e-3) << length;
    EXPECT_LE(fused, 2 * plain + kRounding) << length;
  }
}

// Whether a program has other queries and keys than it was given is what it says, not which tensors
// are one: a copy of a query is no transform of it.
TEST_P(EveryEncoding, SaysWhetherItTransformsQueriesAndKeys) {
  const auto model = tiny_model(GetParam(), at::kDouble);
  const at::NoGradGuard no_grad;
  AttentionKeeper keeper;
  model->decoder.hidden(random_ids(1, 17, model->config().vocab_size), {}, &keeper);
  ASSERT_FALSE(keeper.layers.empty());
  for (const auto& layer : keeper.layers) {
    AttentionProgram program = layer->program();
    const bool same = program.q.equal(program.q_plain) && program.k.equal(program.k_plain);
    EXPECT_EQ(program.transformed, !same);
    program.q = program.q.clone();
    ProbeRequest sums;
    sums.content = true;
    EXPECT_EQ(in_one_pass(program, sums).content, same);
  }
}

// Who keeps a layer for its weights keeps all that these are made of, in either way of running.
TEST_P(EveryEncoding, GivesTheSameWeightsToWhoKeepsThemAlone) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const auto model = tiny_model(GetParam(), dtype);
    AttentionKeeper keeper;
    model->decoder.hidden(random_ids(1, 9, model->config().vocab_size), {}, &keeper);
    for (const auto& layer : keeper.layers) {
      const auto kept = layer->for_weights();
      EXPECT_TRUE(kept->weights(kept->whole()).equal(layer->weights(layer->whole())));
      EXPECT_EQ(kept->v().defined(), layer->is_fused());
    }
  }
}

// Gradients of all trained tensors, by name.
NamedTensors gradients_of(const Variant& variant, at::ScalarType dtype, Backend backend,
                          std::int64_t length) {
  const auto model = tiny_model(variant, dtype);
  Weights weights = model->decoder.weights();
  const NamedTensors tensors = named_tensors(model->config(), model->encoding(), weights);
  for (auto [name, tensor] : tensors) tensor.set_requires_grad(true);
  const Decoder decoder(model->config(), model->decoder.shared_encoding(), weights);
  const at::Tensor ids = random_ids(2, length, model->config().vocab_size);
  next_token_loss(decoder.forward(ids, {.backend = backend}), ids).backward();
  NamedTensors gradients;
  for (const auto& [name, tensor] : tensors) gradients.emplace_back(name, tensor.grad());
  return gradients;
}

TEST_P(EveryEncoding, GradientsOfBothBackendsAreThoseOfFloat64) {
  const NamedTensors truth = gradients_of(GetParam(), at::kDouble, Backend::plain, 17);
  const NamedTensors plain = gradients_of(GetParam(), at::kFloat, Backend::plain, 17);
  const NamedTensors fused = gradients_of(GetParam(), at::kFloat, Backend::fused, 17);
  double largest = 0;
  for (const auto& [name, tensor] : truth) {
    if (tensor.defined()) largest = std::max(largest, tensor.abs().max().item<double>());
  }
  for (std::size_t n = 0; n < truth.size(); ++n) {
    const std::string& name = truth[n].first;
    ASSERT_EQ(truth[n].second.defined(), fused[n].second.defined()) << name;
    if (!truth[n].second.defined()) continue;
    // Some gradients vanish, the correction's last bias for one, which moves all scores of a row
    // alike; what is left is rounding, and is held against the largest gradient of the model.
    const double scale = std::max(truth[n].second.abs().max().item<double>(), 1e-2 * largest);
    const auto error = [&](const NamedTensors& ours) {
      return (ours[n].second.to(at::kDouble) - truth[n].second).abs().max().item<double>() / scale;
    };
    EXPECT_LT(error(plain), 1e-3) << name;
    EXPECT_LE(error(fused), 2 * error(plain) + 1e-5) << name;
  }
}

// The loss itself, by finite differences in float64: what autograd says is the slope of the forward
// pass, for one entry of every tensor.
TEST_P(EveryEncoding, GradientsAreTheSlopes) {
  const auto model = tiny_model(GetParam(), at::kDouble);
  const NamedTensors gradients = gradients_of(GetParam(), at::kDouble, Backend::plain, 13);
  const NamedTensors tensors =
      named_tensors(model->config(), model->encoding(), model->decoder.weights());
  const at::Tensor ids = random_ids(2, 13, model->config().vocab_size);
  const at::NoGradGuard no_grad;
  const auto loss = [&] {
    return next_token_loss(model->decoder.forward(ids, {.backend = Backend::plain}), ids)
        .item<double>();
  };
  // Small, so that no LeakyReLU is stepped over; the loss has 16 digits.
  constexpr double kStep = 1e-7;
  for (std::size_t n = 0; n < tensors.size(); ++n) {
    const auto& [name, tensor] = tensors[n];
    if (!gradients[n].second.defined()) continue;
    at::Tensor entry = tensor.flatten()[tensor.numel() / 2];
    entry += kStep;
    const double above = loss();
    entry -= 2 * kStep;
    const double below = loss();
    entry += kStep;
    const double slope = gradients[n].second.flatten()[tensor.numel() / 2].item<double>();
    EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-6 + 1e-5 * std::abs(slope)) << name;
  }
}

TEST_P(EveryEncoding, TheSameBitsAgainAndWithAnyNumberOfThreads) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  const at::Tensor ids = random_ids(2, 81, model->config().vocab_size);
  const at::NoGradGuard no_grad;
  const at::Tensor once = model->decoder.forward(ids);
  const at::Tensor again = model->decoder.forward(ids);
  at::set_num_threads(2);
  const at::Tensor on_two = model->decoder.forward(ids);
  EXPECT_TRUE(once.equal(again));
  EXPECT_TRUE(once.equal(on_two));
}

TEST_P(EveryEncoding, ContentAndPositionalAddUpAndWeightsSumToOne) {
  const auto model = tiny_model(GetParam(), at::kDouble);
  const at::NoGradGuard no_grad;
  AttentionKeeper keeper;
  model->decoder.hidden(random_ids(2, 19, model->config().vocab_size), {}, &keeper);
  ASSERT_FALSE(keeper.layers.empty());
  for (const auto& layer : keeper.layers) {
    const ScoreParts parts = layer->scores(layer->whole());
    const at::Tensor visible = parts.score.isfinite();
    const at::Tensor sum = parts.content + parts.positional;
    EXPECT_EQ(visible.sum().item<std::int64_t>(), 2 * 3 * 19 * 20 / 2);
    EXPECT_TRUE(sum.isfinite().equal(visible));
    const at::Tensor rest = at::where(visible, sum - parts.score, 0.0);
    EXPECT_LT(rest.abs().max().item<double>(), 1e-13);
    const at::Tensor weights = layer->weights(layer->whole());
    // Beside a sink, whatever is left.
    const at::Tensor left = layer->sink_weights();
    const at::Tensor all = left.defined() ? weights.sum(-1) + left : weights.sum(-1);
    EXPECT_LT((all - 1).abs().max().item<double>(), 1e-13);
    EXPECT_EQ(at::where(visible, 0.0, weights).abs().max().item<double>(), 0);
    const at::Tensor entropy = -(weights * weights.clamp_min(1e-300).log()).sum(-1);
    EXPECT_LT((entropy - layer->entropy()).abs().max().item<double>(), 1e-12);
    // A region is the same entries.
    const Region region{{1, 3}, {5, 9}, {2, 12}};
    EXPECT_LT(relative_error(layer->weights(region),
                             weights.slice(1, 1, 3).slice(2, 5, 9).slice(3, 2, 12)),
              1e-13);
    // And so are single pairs: all there are, last first and twice, in more than one part.
    const at::Tensor all_pairs = at::ones_like(visible).nonzero().flip(0).repeat({2, 1});
    const auto index = [&](std::int64_t dim) { return all_pairs.select(1, dim); };
    const TokenPairs asked({index(0), index(1), index(2), index(3)}, at::kCPU);
    EXPECT_GT(asked.size(), 4096);
    const ScoreParts pairs = layer->pair_scores(asked);
    const auto same = [&](const at::Tensor& of_pairs, const at::Tensor& of_region) {
      const at::Tensor wanted = of_region.index({index(0), index(1), index(2), index(3)});
      EXPECT_TRUE(of_pairs.isfinite().equal(wanted.isfinite()));
      EXPECT_LT(relative_error(of_pairs.nan_to_num(0, 0, 0), wanted.nan_to_num(0, 0, 0)), 1e-13);
    };
    same(pairs.score, parts.score);
    same(pairs.content, parts.content);
  }
}

// Largest difference where neither is NaN; infinite where only one is.
double difference(const at::Tensor& a, const at::Tensor& b) {
  if (!a.isnan().equal(b.isnan())) return std::numeric_limits<double>::infinity();
  return (a.to(at::kDouble) - b.to(at::kDouble)).nan_to_num(0.0).abs().max().item<double>();
}

void expect_same_probes(const ProbeResult& fused, const ProbeResult& plain) {
  // Float32 sums of up to 81 terms of order one to ten.
  EXPECT_LT(difference(fused.entropy, plain.entropy), 1e-4);
  EXPECT_LT(difference(fused.max_score, plain.max_score), 1e-4);
  EXPECT_LT(difference(fused.top1_mass, plain.top1_mass), 1e-5);
  EXPECT_LT(difference(fused.first_key_weight, plain.first_key_weight), 1e-5);
  EXPECT_LT(difference(fused.mean_distance, plain.mean_distance), 1e-3);
  ASSERT_EQ(fused.window_mass.size(), plain.window_mass.size());
  for (std::size_t n = 0; n < plain.window_mass.size(); ++n) {
    EXPECT_LT(difference(fused.window_mass[n], plain.window_mass[n]), 1e-5);
  }
  EXPECT_TRUE(fused.bucket_pairs.equal(plain.bucket_pairs));
  EXPECT_LT(difference(fused.bucket_weight, plain.bucket_weight), 1e-3);
  EXPECT_LT(relative_error(fused.bucket_score, plain.bucket_score), 1e-4);
  EXPECT_LT(relative_error(fused.bucket_score_square, plain.bucket_score_square), 1e-4);
  if (fused.bucket_content.defined()) {
    EXPECT_LT(relative_error(fused.bucket_content, plain.bucket_content), 1e-4);
    EXPECT_LT(relative_error(fused.bucket_content_square, plain.bucket_content_square), 1e-4);
    // Differences of scores of order ten; where there is no term, nothing but their roundings.
    EXPECT_LT(difference(fused.bucket_term, plain.bucket_term),
              1e-4 * (1 + plain.bucket_term.abs().max().item<double>()));
    EXPECT_LT(difference(fused.bucket_term_square, plain.bucket_term_square),
              1e-4 * (1 + plain.bucket_term_square.abs().max().item<double>()));
  }
  EXPECT_LT(difference(fused.top_weight, plain.top_weight), 1e-5);
  EXPECT_TRUE((fused.top_key < 0).equal(plain.top_key < 0));
}

// Each weight is that of its key, the keys of a row differ, and no other key has more.
void expect_top_keys(const ProbeResult& probe, const LayerAttention& layer) {
  const at::Tensor weights = layer.weights(layer.whole());
  const at::Tensor key = probe.top_key.to(at::kLong), none = key < 0;
  const at::Tensor there = weights.gather(-1, key.clamp_min(0)).masked_fill(none, 0.0);
  // Scores and log-sum-exp of two implementations, whose phases may be hundreds of radians.
  EXPECT_LT(difference(probe.top_weight, there), 5e-5);
  const std::int64_t count = key.size(-1);
  EXPECT_LT(difference(probe.top_weight, std::get<0>(weights.topk(count, -1))), 5e-5);
  for (std::int64_t n = 1; n < count; ++n) {
    const at::Tensor same = key.slice(-1, n) == key.slice(-1, 0, count - n);
    EXPECT_FALSE((same & none.slice(-1, n).logical_not()).any().item<bool>());
  }
  // The first query sees itself alone.
  EXPECT_TRUE((key.select(2, 0).select(-1, 0) == 0).all().item<bool>());
  EXPECT_TRUE((key.select(2, 0).slice(-1, 1) == -1).all().item<bool>());
}

// After the forward pass, and on its way.
TEST_P(EveryEncoding, ProbesAndMapsOfTheKernelAreThePlainOnes) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(2, 81, model->config().vocab_size);
  ProbeRequest request;
  request.entropy = request.max_score = request.max_key = request.top1_mass = true;
  request.first_key_weight = request.mean_distance = true;
  request.windows = {1, 16, 64};
  request.bucket_edges = {0, 1, 2, 5, 17, 64};
  request.content = request.term = true;
  request.top_keys = 5;
  AttentionKeeper keeper, measured;
  measured.probes = &request;
  const at::Tensor hidden = model->decoder.hidden(ids, {}, &keeper);
  EXPECT_TRUE(model->decoder.hidden(ids, {}, &measured).equal(hidden));
  for (std::size_t n = 0; n < keeper.layers.size(); ++n) {
    const auto& layer = keeper.layers[n];
    const ProbeResult fused = layer->probe(request);
    const ProbeResult plain = plain_probe(*layer, request);
    const bool runs_fused = fused_obstacle(layer->program(), layer->v()).empty();
    EXPECT_EQ(plain.ran.text(), "plain");
    // What runs plain says why, in the words of the pass.
    EXPECT_EQ(fused.ran, layer->ran());
    EXPECT_EQ(fused.ran.implementation == "plain", !runs_fused);
    EXPECT_EQ(fused.ran.reason, fused_obstacle(layer->program(), layer->v()));
    expect_same_probes(fused, plain);
    expect_top_keys(fused, *layer);
    expect_top_keys(plain, *layer);
    // One pass has both scores where nothing was rotated for it.
    const AttentionProgram& program = layer->program();
    EXPECT_EQ(fused.bucket_content.defined(), !runs_fused || !program.transformed);
    EXPECT_EQ(fused.bucket_term_square.defined(), fused.bucket_content.defined());
    expect_same_probes(measured.layers[n]->probe(request), plain);
    // The pass had the answer: it is the same memory each time.
    const auto again = [&] { return measured.layers[n]->probe(request).bucket_score; };
    EXPECT_EQ(again().data_ptr() == again().data_ptr(), runs_fused);
    for (const MapQuantity quantity :
         {MapQuantity::weight, MapQuantity::score, MapQuantity::positional}) {
      MapRequest view;
      view.batch = 1;
      view.region = {{0, 3}, {10, 81}, {3, 60}};
      view.height = 16;
      view.width = 90;
      view.quantity = quantity;
      view.share = true;
      const MapResult ours = layer->map(view);
      const MapResult reference = plain_map(*layer, view);
      EXPECT_EQ(ours.ran.implementation == "plain", !runs_fused);
      // Scores of order ten, but a power of the distance grows to thousands.
      const at::Tensor finite = reference.mean.nan_to_num(0.0, 0.0, 0.0);
      const double allowed = 1e-4 + 1e-6 * finite.abs().max().item<double>();
      EXPECT_LT(difference(ours.mean, reference.mean), allowed);
      EXPECT_LT(difference(ours.maximum, reference.maximum), allowed);
      EXPECT_LT(difference(ours.share, reference.share), 1e-6);
    }
  }
}

// digits: of the dtype, its leading one among them.
void expect_no_more_lost(const Variant& encoding, at::ScalarType dtype, int digits) {
  const auto model = tiny_model(encoding, dtype);
  AttentionKeeper keeper;
  {
    const at::NoGradGuard no_grad;
    model->decoder.hidden(random_ids(2, 81, model->config().vocab_size), {}, &keeper);
  }
  const LayerAttention& layer = *keeper.layers[0];
  if (!plain_on_cpu(encoding.name).empty()) return;
  EXPECT_EQ(layer.ran().text(), fused_kernel_name());
  const auto exact = output_and_gradients(layer, at::kDouble, Backend::plain);
  const auto plain = output_and_gradients(layer, dtype, Backend::plain);
  const auto fused = output_and_gradients(layer, dtype, Backend::fused);
  // What is read of the layer afterwards belongs to the log-sum-exp and entropy of the pass.
  const at::Tensor weights = layer.weights(layer.whole());
  EXPECT_LT((weights.sum(-1) - 1).abs().max().item<double>(), 1e-4);
  const at::Tensor entropy = -at::xlogy(weights, weights).sum(-1);
  EXPECT_LT(difference(entropy, layer.entropy()), 1e-3);
  for (std::size_t n = 0; n < exact.size(); ++n) {
    // Half a unit in the last digit of the largest entry is lost by storing it.
    const double rounding = std::ldexp(exact[n].abs().max().item<double>(), -digits - 1);
    EXPECT_LE(difference(fused[n], exact[n]), 2 * difference(plain[n], exact[n]) + rounding) << n;
  }
}

// What would fall back beyond the list, or for another reason, would pass the tests that go by it.
TEST_P(EveryEncoding, RunsPlainForTheListedReasonAlone) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  AttentionKeeper keeper;
  const at::NoGradGuard no_grad;
  model->decoder.hidden(random_ids(2, 81, model->config().vocab_size), {}, &keeper);
  std::set<std::string> reasons, listed{plain_on_cpu(GetParam().name)};
  listed.erase("");
  for (const auto& layer : keeper.layers) {
    std::string obstacle = fused_obstacle(layer->program(), layer->v());
    EXPECT_EQ(layer->ran().implementation == "plain", !obstacle.empty());
    if (!obstacle.empty()) reasons.insert(std::move(obstacle));
  }
  EXPECT_EQ(reasons, listed);
}

TEST_P(EveryEncoding, SixteenBitTensorsLoseNoMoreInTheKernelThanInPlainOps) {
  {
    SCOPED_TRACE("bfloat16");
    expect_no_more_lost(GetParam(), at::kBFloat16, 8);
  }
  SCOPED_TRACE("float16");
  expect_no_more_lost(GetParam(), at::kHalf, 11);
}

class StartKeeper : public Observer {
 public:
  void on_position(std::int64_t index, const PositionState& state) override {
    if (index == 0) z = state.z;
  }
  at::Tensor z;
};

// Angles of far positions have too many digits for 16 bits; their sines have not.
TEST_P(EveryEncoding, SixteenBitModelsKnowFarPositions) {
  const at::NoGradGuard no_grad;
  StartKeeper narrow, exact;
  const auto model = tiny_model(GetParam(), at::kBFloat16);
  // The same weights, as rounded: what is stored (frequencies among it) is used as stored.
  const auto wide = model_of(model->config(), converted(model->decoder.weights(), at::kDouble), "");
  const at::Tensor ids = random_ids(1, 5, model->config().vocab_size);
  try {
    model->decoder.hidden(ids, {.shift = 1001}, &narrow);
    wide->decoder.hidden(ids, {.shift = 1001}, &exact);
  } catch (const formats::Error& error) {
    ASSERT_EQ(error.code(), "bad_input");  // a table of positions ends before
    return;
  }
  if (!exact.z.defined()) return;
  // Half a unit of the numbers that are stored, twice where they are multiplied by a factor, and
  // angles of 1000 radians in float32.
  const double size = exact.z.abs().max().item<double>();
  EXPECT_LT(difference(narrow.z, exact.z), size / 256 + 1e-3);
}

TEST_P(EveryEncoding, ShiftedIdsChangeNothingWhereItIsClaimed) {
  const auto model = tiny_model(GetParam(), at::kDouble);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 23, model->config().vocab_size);
  const at::Tensor logits = model->decoder.forward(ids);
  // Angles of 1000 lose three digits of float64's sixteen.
  if (model->encoding().shift_invariant()) {
    EXPECT_LT(relative_error(model->decoder.forward(ids, {.shift = 1000}), logits), 1e-10);
  }
  const at::Tensor given = at::arange(23, at::kLong) + 16;
  EXPECT_LT(relative_error(model->decoder.forward(ids, {.position_ids = given}),
                           model->decoder.forward(ids, {.shift = 16})),
            1e-12);
}

// As far as the verb "shift" goes; farther on, ids added to it leave an int64.
TEST(Encodings, ShiftsEndWhereAnglesDo) {
  for (const char* key : {"rope", "tape"}) {
    ModelConfig config =
        tiny_model({.name = key, .encoding = key, .options = {}}, at::kDouble)->config();
    const auto error_of = [&](std::int64_t shift) -> std::string {
      config.encoding.options["shift"] = shift;
      try {
        make_encoding(config);
      } catch (const formats::Error& error) {
        return error.full_text();
      }
      return {};
    };
    constexpr std::int64_t kFarthest = std::int64_t{1} << 31;
    EXPECT_EQ(error_of(kFarthest), "") << key;
    for (const std::int64_t far : {kFarthest + 1, std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()}) {
      EXPECT_NE(error_of(far).find("from -2147483648 to 2147483648"), std::string::npos)
          << key << ' ' << error_of(far);
    }
  }
}

// Ids four times as far apart, each at a fourth of its id: the places that there were before.
TEST_P(EveryEncoding, InterpolationMovesIdsToTheirPlaces) {
  const Variant& variant = GetParam();
  // A draw takes the place of the ids.
  if (variant.options.contains("draw")) GTEST_SKIP() << "draws its positions";
  const auto model = tiny_model(variant, at::kDouble);
  ModelConfig config = model->config();
  config.positions.map = "interpolate";
  config.positions.factor = 4;
  const std::set<std::string> refusing = {"ape_grid", "ape_tree", "sinusoidal_2d"};
  if (refusing.contains(variant.encoding) || variant.options.contains("rounding")) {
    EXPECT_THROW(make_encoding(config), formats::Error);
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(2, 19, config.vocab_size);
  const auto far = model_of(config, model->decoder.weights(), variant.name);
  const at::Tensor given = at::arange(19, at::kLong) * 4;
  EXPECT_LT(relative_error(far->decoder.forward(ids, {.position_ids = given}),
                           model->decoder.forward(ids)),
            1e-10);
}

// Another token at the end changes nothing that was read before it.
TEST_P(EveryEncoding, LaterTokensChangeNothingBefore) {
  const auto model = tiny_model(GetParam(), at::kDouble);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 29, model->config().vocab_size);
  at::Tensor other = ids.clone();
  for (std::int64_t n = 20; n < 29; ++n) {
    other[0][n] = (ids[0][n] + 1 + n).remainder(model->config().vocab_size);
  }
  const auto logits = [&](const at::Tensor& of) { return model->decoder.forward(of)[0]; };
  EXPECT_LT(relative_error(logits(other).slice(0, 0, 20), logits(ids).slice(0, 0, 20)), 1e-13);
  EXPECT_GT(relative_error(logits(other).slice(0, 20), logits(ids).slice(0, 20)), 1e-3);
}

TEST_P(EveryEncoding, BlocksOfRowsGiveWhatOnePassGives) {
  const auto model = tiny_model(GetParam(), at::kDouble);
  const at::Tensor ids = random_ids(1, 81, model->config().vocab_size);
  const at::Tensor in_one = model->decoder.forward(ids);  // gradients on: one block
  const at::NoGradGuard no_grad;
  EXPECT_LT(relative_error(model->decoder.forward(ids), in_one), 1e-13);
}

TEST(Bfloat16Products, KeepTheLossAndMasterGradientsInFloat32) {
  const Variant variant{"rope", "rope", Json::object()};
  const auto model = tiny_model(variant, at::kFloat);
  Weights weights = model->decoder.weights();
  for (auto [name, tensor] : named_tensors(model->config(), model->encoding(), weights)) {
    tensor.set_requires_grad(true);
  }
  const Decoder decoder(model->config(), model->decoder.shared_encoding(), weights);
  const at::Tensor ids = random_ids(2, 17, model->config().vocab_size);
  const at::Tensor full = next_token_loss(decoder.forward(ids), ids);
  const at::Tensor half =
      next_token_loss(decoder.forward(ids, {.product_dtype = at::kBFloat16}), ids);
  half.backward();
  EXPECT_EQ(weights.layers[0].wq.grad().scalar_type(), at::kFloat);
  // bfloat16 has 8 bits of mantissa.
  EXPECT_NEAR(half.item<double>(), full.item<double>(), 0.05 * full.item<double>());
}

// Not that a term is no table: what it is that a kernel, which takes keys block by block, has not.
TEST(PlainForms, SayWhatHasNoFusedForm) {
  const at::NoGradGuard no_grad;
  const std::vector<std::pair<const char*, const char*>> reasons = {
      {"path", "a product of matrices of all tokens between a key and its query"},
      {"cope", "a distance that is counted from the scores of all keys between"},
      {"stick_breaking", "a piece of what the keys nearer to the query have left"}};
  for (const auto& [key, what] : reasons) {
    const auto model = random_model(tiny_config(key), 5);
    AllRan kernels;
    ForwardOptions options;
    options.kernels = &kernels;
    model->decoder.forward(random_ids(1, 9, model->config().vocab_size), options);
    ASSERT_EQ(kernels.size(), 1u) << key;
    EXPECT_EQ(kernels.begin()->implementation, "plain") << key;
    EXPECT_EQ(kernels.begin()->reason, std::string(what) + " has no fused form") << key;
  }
}

TEST(GroupedKeys, FusedIsPlain) {
  ModelConfig config = tiny_config("rope");
  config.heads = 6;
  config.kv_heads = 2;
  config.width = 48;
  const auto model = random_model(config, 5);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(2, 33, config.vocab_size);
  EXPECT_LT(relative_error(model->decoder.forward(ids),
                           model->decoder.forward(ids, {.backend = Backend::plain})),
            1e-5);
}

}  // namespace
}  // namespace phasescope::model
