// 17.A2: what an encoding knows of 100,000 positions in a 16-bit model, held against float64 of the
// same numbers.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../encoding_variants.h"
#include "../golden.h"
#include "formats/error.h"
#include "model/attention/fused_attention.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kTokens = 100000;

// One unit in the last place of numbers near 1.
double unit_of(at::ScalarType dtype) { return dtype == at::kHalf ? 0x1p-10 : 0x1p-7; }

// The first layer of a model over kTokens tokens.
AttentionProgram program_of(const Model& model, const at::Tensor& q, const at::Tensor& k) {
  const at::ScalarType dtype = q.scalar_type();
  const Encoding& encoding = model.encoding();
  StartContext context;
  context.positions.length = kTokens;
  context.dtype = dtype;
  context.angle_dtype = at::promote_types(dtype, at::kFloat);
  context.shared = &model.decoder.weights().encoding;
  PositionState state = encoding.start(context);
  encoding.before_layer(0, state);
  AttentionProgram program =
      encoding.program(model.decoder.weights().layers[0].encoding, q, k, state);
  return program;
}

// Of the last token with the first keys, some in the middle and the last ones, (heads, keys).
at::Tensor last_row(const AttentionProgram& program) {
  std::vector<at::Tensor> parts;
  for (const std::int64_t begin : {std::int64_t{0}, kTokens / 2, kTokens - 64}) {
    const at::Tensor scores =
        plain_scores(program, {0, program.q.size(1)}, {kTokens - 1, kTokens}, {begin, begin + 64});
    parts.push_back(scores[0].select(1, 0).to(at::kDouble));
  }
  return at::cat(parts, 1);
}

double largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

struct FarCase {
  Variant variant;
  at::ScalarType dtype;
};
void PrintTo(const FarCase& c, std::ostream* out) { *out << c.variant.name; }

class FarPositions : public testing::TestWithParam<FarCase> {};

TEST_P(FarPositions, AreKnownInSixteenBits) {
  const at::NoGradGuard no_grad;
  const auto& [variant, dtype] = GetParam();
  const auto narrow_model = tiny_model(variant, dtype);
  const auto wide_model = std::make_shared<const Model>(
      Model{narrow_model->report, narrow_model->tokenizer,
            Decoder(narrow_model->config(), narrow_model->decoder.shared_encoding(),
                    converted(narrow_model->decoder.weights(), at::kDouble))});
  const auto random = [&](std::uint64_t seed) {
    return at::randn({1, 3, kTokens, 8}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat)
        .to(dtype);
  };
  const at::Tensor q = random(1), k = random(2);
  AttentionProgram narrow, wide;
  try {
    wide = program_of(*wide_model, q.to(at::kDouble), k.to(at::kDouble));
    narrow = program_of(*narrow_model, q, k);
  } catch (const formats::Error& error) {
    ASSERT_EQ(error.code(), "bad_input") << error.message();
    // A decay that no 16 bits can write; tensors of some tokens.
    ASSERT_TRUE(variant.encoding == "xpos" || variant.encoding == "imported") << error.message();
    return;
  }
  const at::Tensor exact = last_row(wide);
  ASSERT_TRUE(exact.isfinite().all().item<bool>());
  // q and k of 8 channels, each number rounded where it is turned or multiplied: some of their
  // largest product. What is computed with scores (CAPE's correction) may grow that a little.
  const double size =
      wide.scale * largest(q.to(at::kDouble).norm(2, -1)) * largest(k.to(at::kDouble).norm(2, -1));
  const double rounding = 2 * size * unit_of(dtype);
  // Tables are float32, and so are sums with them.
  const double of_tables = 8 * 0x1p-24 * largest(exact);
  EXPECT_LT(largest(last_row(narrow) - exact), rounding + of_tables);
  // Of the same scores by exact operations nothing is left but what the tables lost.
  const bool reads_narrow = wide.is<TermProgram>();  // q and k by themselves
  if (narrow.transformed || reads_narrow) return;
  EXPECT_LT(largest(last_row(in_dtype(narrow, at::kDouble)) - exact), of_tables + 1e-5);
}

std::vector<FarCase> far_cases() {
  std::vector<FarCase> cases;
  for (const Variant& variant : variants()) {
    // As it comes, and with what else makes a table.
    const bool table = variant.encoding == "alibi" || variant.encoding == "fire" ||
                       variant.encoding == "cape" || variant.encoding == "t5";
    if (variant.name != variant.encoding && !table) continue;
    // A form that rounds its bias to 16 bits, as the code does whose checkpoints it reads, means
    // to.
    if (variant.name.find("rounding") != std::string::npos) continue;
    // Has no positions: its scores are sums over all keys before, each with its own rounding.
    if (variant.encoding == "stick_breaking") continue;
    cases.push_back({variant, at::kBFloat16});
    cases.push_back({variant, at::kHalf});
  }
  // FIRE's table within its threshold.
  Variant within{"fire_within_its_threshold", "fire", {{"threshold", 2e5}}};
  cases.push_back({within, at::kBFloat16});
  cases.push_back({within, at::kHalf});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Encodings, FarPositions, testing::ValuesIn(far_cases()),
                         [](const auto& info) {
                           return info.param.variant.name +
                                  (info.param.dtype == at::kHalf ? "_f16" : "_bf16");
                         });

// ln(i + 1) / ln(s), which multiplies queries, is rounded with them alone.
TEST(FarPositions, QueriesAreMultipliedByTheirOwnLogarithms) {
  const at::NoGradGuard no_grad;
  ModelConfig config = tiny_config("none");
  config.layers = 1;
  config.attention.log_scale = 32;
  const auto model = tiny_model({"none", "none", Json::object()}, at::kBFloat16);
  const Model narrow{model->report, model->tokenizer,
                     Decoder(config, model->decoder.shared_encoding(), model->decoder.weights())};
  class Last final : public Observer {
   public:
    bool wants_attention(std::int64_t index) override { return index == 0; }
    void on_attention(const std::shared_ptr<const LayerAttention>& attention) override {
      const AttentionProgram& program = attention->program();
      rotated = program.q.slice(2, 900).to(at::kDouble);
      plain = program.q_plain.slice(2, 900).to(at::kDouble);
    }
    at::Tensor rotated, plain;
  } last;
  narrow.decoder.hidden(random_ids(1, 1000, config.vocab_size), {}, &last);
  const at::Tensor factor = at::arange(901, 1001, at::kDouble).log() / std::log(32.0);
  const at::Tensor expected = last.plain * factor.unsqueeze(1);
  // Rounded once: half a unit in the last place of numbers of 8 bits.
  EXPECT_LT(largest((last.rotated - expected) / expected.abs().clamp_min(1e-3)), 0x1p-8 + 1e-6);
}

}  // namespace
}  // namespace phasescope::model
