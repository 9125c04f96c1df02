// Windows, padding, soft caps and sinks of the fused form against the plain one, for every
// encoding.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "attention_keeper.h"
#include "encoding_variants.h"
#include "golden.h"
#include "model/attention/attention.h"
#include "model/attention/layer_attention.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kTokens = 81;

struct Mask {
  std::string name;
  std::function<void(AttentionProgram&)> apply;
};

// (3, N), false where `padded` says so.
at::Tensor key_mask(const std::function<bool(std::int64_t text, std::int64_t key)>& padded) {
  at::Tensor mask = at::ones({3, kTokens}, at::kBool);
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t j = 0; j < kTokens; ++j) {
      if (padded(b, j)) mask[b][j] = false;
    }
  }
  return mask;
}

// (3, N), each text with documents of its own: in stretches, those of the last text come again.
at::Tensor documents() {
  const at::Tensor place = at::arange(kTokens, at::kLong);
  return at::stack({place.ge(50).to(at::kLong) * (std::int64_t{1} << 40), place.floor_divide(11),
                    place.floor_divide(9).remainder(3) - 5});
}

// (H): from less than a score to more than all of a row's.
at::Tensor sinks_of(const AttentionProgram& program) {
  return at::linspace(-2, 6, program.q.size(1), at::kFloat);
}

// (B, H, N, d), some of them negative.
at::Tensor gates_of(const AttentionProgram& program, std::int64_t channels) {
  const std::vector<std::int64_t> sizes{program.q.size(0), program.q.size(1), program.q.size(2),
                                        channels};
  return at::linspace(-1, 2, c10::multiply_integers(sizes), at::kFloat).view(sizes);
}

const std::vector<Mask>& masks() {
  static const std::vector<Mask> list = {
      {"window", [](AttentionProgram& p) { p.window = 9; }},
      {"cap", [](AttentionProgram& p) { p.soft_cap = 2; }},
      {"gates", [](AttentionProgram& p) { p.gate = gates_of(p, p.q_plain.size(3)); }},
      {"row_gates", [](AttentionProgram& p) { p.gate = gates_of(p, 1); }},
      {"right_padding",
       [](AttentionProgram& p) {
         p.key_mask = key_mask([](auto b, auto j) { return j >= kTokens - 20 * b; });
       }},
      {"left_padding",
       [](AttentionProgram& p) {
         p.key_mask = key_mask([](auto b, auto j) { return j < 20 * b; });
       }},
      {"sinks", [](AttentionProgram& p) { p.sinks = sinks_of(p); }},
      {"sinks_in_a_window",
       [](AttentionProgram& p) {
         p.sinks = sinks_of(p);
         p.window = 9;
         p.key_mask = key_mask([](auto b, auto j) { return j >= kTokens - 20 * b; });
       }},
      {"documents", [](AttentionProgram& p) { p.documents = documents(); }},
      {"documents_in_a_window",
       [](AttentionProgram& p) {
         p.window = 12;
         p.documents = documents();
       }},
      {"all",
       [](AttentionProgram& p) {
         p.documents = documents();
         p.window = 30;
         p.soft_cap = 1.5;
         p.key_mask = key_mask([](auto b, auto j) { return (j + b) % 4 == 0; });
       }},
  };
  return list;
}

class EveryEncodingMasked : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Json options = Json::object();
    if (GetParam() == "learned") options["max_positions"] = 128;
    if (GetParam() == "fire") options["threshold"] = 20.5;  // else it is a table, as alibi is
    const auto model = random_model(tiny_config(GetParam(), options), 5);
    const at::NoGradGuard no_grad;
    model->decoder.hidden(random_ids(3, kTokens, model->config().vocab_size), {}, &keeper_);
  }

  const AttentionProgram& program() const { return keeper_.layers.back()->program(); }
  const at::Tensor& v() const { return keeper_.layers.back()->v(); }

  AttentionKeeper keeper_;
};

// Largest difference of what is finite; infinite where only one is.
double difference(const at::Tensor& a, const at::Tensor& b) {
  if (!a.isfinite().equal(b.isfinite())) return std::numeric_limits<double>::infinity();
  return (a - b).nan_to_num(0.0, 0.0, 0.0).abs().max().item<double>();
}

TEST_P(EveryEncodingMasked, RunsFusedAndEqualsPlain) {
  for (const Mask& mask : masks()) {
    SCOPED_TRACE(mask.name);
    AttentionProgram masked = program();
    mask.apply(masked);
    const at::NoGradGuard no_grad;
    const auto run = [&](Backend backend) {
      return attention(masked, v(), {.backend = backend, .want_lse = true, .want_entropy = true});
    };
    const AttentionResult fused = run(Backend::fused), plain = run(Backend::plain);
    EXPECT_EQ(fused.ran.text(), fused_kernel_name());
    EXPECT_EQ(plain.ran.text(), "plain");
    // Float32 sums of up to 81 terms of order one to ten. A row that sees no key has no entropy.
    const at::Tensor seeing = plain.lse.isfinite();
    EXPECT_TRUE(seeing.equal(fused.lse.isfinite()));
    const auto rows = [&](const at::Tensor& x) {
      return at::where(x.dim() == 4 ? seeing.unsqueeze(-1) : seeing, x, at::zeros({}));
    };
    EXPECT_LT(difference(rows(fused.out), rows(plain.out)), 2e-4);
    EXPECT_LT(difference(rows(fused.lse), rows(plain.lse)), 2e-4);
    EXPECT_LT(difference(rows(fused.entropy), rows(plain.entropy)), 2e-4);
  }
}

TEST_P(EveryEncodingMasked, CountsAndSumsTheSamePairs) {
  ProbeRequest request;
  request.entropy = request.top1_mass = request.sink_weight = true;
  request.bucket_edges = {0, 1, 2, 5, 17, 64};
  request.content = request.term = true;
  for (const Mask& mask : masks()) {
    SCOPED_TRACE(mask.name);
    AttentionProgram masked = program();
    mask.apply(masked);
    // No row without a key: those differ in what they are called, not in what is summed.
    if (mask.name == "left_padding") masked.causal = false;
    if (masked.fire() != nullptr && !masked.causal) continue;  // runs plain
    const LayerAttention layer(0, masked, v(), {}, {}, Backend::fused, ran_fused(v()));
    const ProbeResult fused = layer.probe(request), plain = plain_probe(layer, request);
    EXPECT_EQ(fused.ran.text(), fused_kernel_name());
    EXPECT_TRUE(fused.bucket_pairs.equal(plain.bucket_pairs));
    EXPECT_LT(difference(fused.bucket_score, plain.bucket_score),
              1e-5 * (1 + plain.bucket_score.abs().max().item<double>()));
    if (!masked.transformed) {
      EXPECT_LT(difference(fused.bucket_content, plain.bucket_content),
                1e-5 * (1 + plain.bucket_content.abs().max().item<double>()));
      EXPECT_LT(difference(fused.bucket_term, plain.bucket_term),
                1e-5 * (1 + plain.bucket_score.abs().max().item<double>()));
      EXPECT_LT(difference(fused.bucket_term_square, plain.bucket_term_square),
                1e-5 * (1 + plain.bucket_score_square.abs().max().item<double>()));
    }
    if (mask.name == "all") continue;  // has rows that see no key
    EXPECT_LT(difference(fused.bucket_weight, plain.bucket_weight), 1e-3);
    EXPECT_LT(difference(fused.top1_mass, plain.top1_mass), 1e-4);
    EXPECT_LT(difference(fused.sink_weight, plain.sink_weight), 1e-5);
    EXPECT_EQ(fused.sink_weight.gt(0).any().item<bool>(), masked.sinks.defined());
  }
}

TEST_P(EveryEncodingMasked, HasTheGradientsOfPlain) {
  for (const Mask& mask : masks()) {
    if (mask.name == "left_padding" || mask.name == "all") continue;  // plain's rows without keys
    SCOPED_TRACE(mask.name);
    const auto gradients = [&](Backend backend) {
      AttentionProgram masked = program();
      mask.apply(masked);
      masked.q = masked.q.detach().clone().requires_grad_();
      masked.k = masked.k.detach().clone().requires_grad_();
      if (masked.sinks.defined()) masked.sinks.requires_grad_();
      if (masked.gate.defined()) masked.gate.requires_grad_();
      masked.distance_bias =
          at::zeros({masked.q.size(0), masked.q.size(1), kTokens}, at::kDouble).requires_grad_();
      const at::Tensor values = v().detach().clone().requires_grad_();
      const at::Tensor out = attention(masked, values, {.backend = backend}).out;
      (out * at::linspace(-1, 1, out.numel()).view(out.sizes())).sum().backward();
      std::vector<at::Tensor> list = {masked.q.grad(), masked.k.grad(), values.grad(),
                                      masked.distance_bias.grad()};
      if (masked.gate.defined()) list.push_back(masked.gate.grad());
      if (masked.sinks.defined()) list.push_back(masked.sinks.grad());
      return list;
    };
    const auto fused = gradients(Backend::fused), plain = gradients(Backend::plain);
    for (std::size_t n = 0; n < fused.size(); ++n) {
      EXPECT_LT(difference(fused[n], plain[n]), 1e-4 * (1 + plain[n].abs().max().item<double>()))
          << n;
    }
  }
}

// A row of the map and the sink's weight sum to 1, and the weights are those of plain operations.
TEST_P(EveryEncodingMasked, HasMapsBesideSinks) {
  AttentionProgram program = this->program();
  program.sinks = sinks_of(program);
  const at::NoGradGuard no_grad;
  const AttentionResult result = attention(program, v(), {.want_lse = true});
  const LayerAttention layer(0, program, v(), result.lse, {}, Backend::fused, ran_fused(v()));
  const MapRequest request{.region = layer.whole(), .height = kTokens, .width = 1};
  const MapResult fused = layer.map(request);
  EXPECT_EQ(fused.ran.text(), fused_kernel_name());
  EXPECT_LT(difference(fused.mean, plain_map(layer, request).mean), 1e-6);
  const at::Tensor sink = layer.probe({.sink_weight = true}).sink_weight[0].unsqueeze(-1);
  EXPECT_LT(difference(fused.mean * kTokens + sink, at::ones_like(sink)), 1e-5);
  EXPECT_LT(
      difference(layer.weights(layer.whole()).sum(-1)[0].unsqueeze(-1) + sink, at::ones_like(sink)),
      1e-5);
}

// What captures keep of a region: the kernel's scores, contents and weights are those of plain
// operations, for every mask.
TEST_P(EveryEncodingMasked, ReadsRegionsOfScoresAndWeights) {
  const at::NoGradGuard no_grad;
  for (const Mask& mask : masks()) {
    SCOPED_TRACE(mask.name);
    AttentionProgram program = this->program();
    mask.apply(program);
    const at::Tensor lse = attention(program, v(), {.want_lse = true}).lse;
    const LayerAttention fused(0, program, v(), lse, {}, Backend::fused, ran_fused(v()));
    const LayerAttention plain(0, program, v(), lse, {}, Backend::plain, ran_plain(v()));
    const Region region{{0, fused.heads()}, {5, 60}, {2, 70}};
    // Scores of up to ten in float32; phases of TAPA may be hundreds of radians.
    EXPECT_LT(difference(fused.score(region), plain.score(region)), 1e-3);
    EXPECT_LT(difference(fused.content(region), plain.content(region)), 1e-4);
    EXPECT_LT(difference(fused.weights(region), plain.weights(region)), 1e-4);
  }
}

std::vector<std::string> keys() {
  std::vector<std::string> list;
  for (const EncodingEntry& entry : encodings()) {
    if (plain_on_cpu(entry.info->key).empty()) list.push_back(entry.info->key);
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryEncodingMasked, ::testing::ValuesIn(keys()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace phasescope::model
