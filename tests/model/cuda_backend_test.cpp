// A model's attention by kernels/cuda, on a device or in their emulation: which layers reach them,
// what crosses to the device and back, and what is said where they cannot run.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "attention_keeper.h"
#include "encoding_variants.h"
#include "formats/error.h"
#include "golden.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/verified.h"
#include "masked_program.h"
#include "model/attention/cuda_attention.h"
#include "model/attention/fused_attention.h"
#include "next_token_loss.h"
#include "watched_kernels.h"

namespace phasescope::model {
namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Half a unit in the last place of 1.
double epsilon(at::ScalarType dtype) { return dtype == at::kHalf ? 0x1p-12 : 0x1p-9; }

class CudaBackend : public testing::Test {
 protected:
  CudaBackend() {
    at::set_num_threads(1);
    use_cuda_kernels(&kernels::cuda_kernels());
  }
  void SetUp() override {
    std::string reason;
    if (!kernels::cuda_kernels().available(reason)) GTEST_SKIP() << reason;
  }
  ~CudaBackend() override { use_cuda_kernels(nullptr); }
};

class EveryEncodingOnCuda : public CudaBackend, public testing::WithParamInterface<Variant> {};
INSTANTIATE_TEST_SUITE_P(Registry, EveryEncodingOnCuda, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

std::shared_ptr<const LayerAttention> first_layer(const Model& model, std::int64_t length) {
  const at::NoGradGuard no_grad;
  AttentionKeeper keeper;
  model.decoder.hidden(random_ids(2, length, model.config().vocab_size), {}, &keeper);
  return keeper.layers[0];
}

TEST_P(EveryEncodingOnCuda, LosesNoMoreThanPlainOps) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const auto layer = first_layer(*tiny_model(GetParam(), dtype), 81);
    AllRan kernels;
    const at::Tensor out = attention(layer->program(), layer->v(),
                                     {.backend = Backend::cuda_unverified, .kernels = &kernels})
                               .out;
    const std::string obstacle = cuda_obstacle(layer->program(), layer->v(), true);
    EXPECT_EQ(obstacle, plain_on_cuda(GetParam().name));
    if (!obstacle.empty()) {
      EXPECT_EQ(kernels, AllRan{ran_plain(layer->v(), obstacle)});
      EXPECT_TRUE(
          out.equal(attention(layer->program(), layer->v(), {.backend = Backend::plain}).out));
      continue;
    }
    EXPECT_EQ(kernels, AllRan{ran_on_cuda(layer->program(), layer->v(), Backend::cuda_unverified)});
    const auto exact = output_and_gradients(*layer, at::kDouble, Backend::plain);
    const auto plain = output_and_gradients(*layer, dtype, Backend::plain);
    const auto cuda = output_and_gradients(*layer, dtype, Backend::cuda_unverified);
    ASSERT_EQ(cuda.size(), exact.size());
    for (std::size_t n = 0; n < exact.size(); ++n) {
      // Half a unit of the largest entry is lost by storing it.
      const double rounding = exact[n].abs().max().item<double>() * epsilon(dtype);
      EXPECT_LE(difference(cuda[n], exact[n]), 2 * difference(plain[n], exact[n]) + rounding) << n;
    }
  }
}

at::Tensor weighted_sum(const at::Tensor& out) {
  const at::Tensor weights = at::arange(out.numel(), at::kDouble).cos().view(out.sizes());
  return (out.to(at::kDouble) * weights).sum();
}

// What a variant has beside q, k and v.
struct Operand {
  std::string encoding;
  Json options;
  std::string name;

  at::Tensor& of(AttentionProgram& program) const {
    at::Tensor* found = nullptr;
    for_each_tensor(program, [&](const TensorInfo& info, at::Tensor& tensor) {
      if (info.name == name) found = &tensor;
    });
    return *found;
  }
};

std::vector<Operand> operands() {
  const Json none = Json::object(), near = {{"threshold", 20.5}};
  const Json on_fire = {{"base", "fire"}, {"base_threshold", 20.5}};
  return {
      {"kerple_log", none, "values"}, {"tape", none, "state"},        {"fire", near, "slope"},
      {"fire", near, "intercept"},    {"fire", near, "distance"},     {"fire", near, "factor"},
      {"cape", none, "values"},       {"cape", none, "w1"},           {"cape", none, "b1"},
      {"cape", none, "w2"},           {"cape", on_fire, "w1"},        {"cape", on_fire, "b1"},
      {"cape", on_fire, "slope"},     {"cape", on_fire, "intercept"}, {"cape", on_fire, "distance"},
      {"cape", on_fire, "factor"},    {"kerple_log", none, "sinks"},  {"tape", none, "sinks"},
      {"cape", none, "sinks"},
  };
}

// 64 heads by 64 units of a correction: the backward pass has no room for them, the forward pass
// has. Of 199 heads, neither.
TEST_F(CudaBackend, AsksForRoomForGradientsWhereTheyAreWanted) {
  const auto layer = first_layer(*tiny_model({"cape", "cape", Json::object()}, at::kBFloat16), 12);
  const auto with_heads = [&](std::int64_t heads) {
    AttentionProgram program = layer->program();
    program.q = program.q_plain = at::randn({1, heads, 12, 16}).to(at::kBFloat16);
    program.k = program.k_plain = at::randn({1, heads, 12, 16}).to(at::kBFloat16);
    program.variant = CapeProgram{.values = at::randn({heads, 12}),
                                  .w1 = at::randn({64, 2 * heads}),
                                  .b1 = at::randn({64}),
                                  .w2 = at::randn({heads, 64}),
                                  .b2 = at::randn({heads})};
    return program;
  };
  const auto obstacle = [](const AttentionProgram& program) {
    return cuda_obstacle(program, program.k, wants_gradients(program, program.k));
  };
  AttentionProgram program = with_heads(64);
  EXPECT_EQ(obstacle(program), "");
  program.as<CapeProgram>()->w1.requires_grad_();
  EXPECT_EQ(obstacle(program),
            "the gradient of a correction of 64 heads by 64 hidden units has no form in the CUDA "
            "kernels");
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(obstacle(program), "");
  }
  EXPECT_EQ(obstacle(with_heads(199)),
            "a correction of 199 heads by 64 hidden units has no form in the CUDA kernels");
}

// Heads as latent attention (192 with values of 128) and Gemma (256) have them, and narrow ones
// with wide values. Blocks of the
// device that the emulation is have 99 KiB, too few for gradients of the latter.
TEST_F(CudaBackend, RunsWideHeadsOfPlainScoresAndTables) {
  for (const auto& [encoding, width, values] : {std::tuple{"none", 192, 128},
                                                {"alibi", 192, 128},
                                                {"none", 256, 256},
                                                {"alibi", 256, 256},
                                                {"none", 40, 200},
                                                {"alibi", 40, 200}}) {
    const auto layer =
        first_layer(*tiny_model({encoding, encoding, Json::object()}, at::kBFloat16), 65);
    AttentionProgram program = layer->program();
    at::manual_seed(3);
    const auto drawn = [&](std::int64_t heads, std::int64_t channels) {
      return at::randn({1, heads, 65, channels}).to(at::kBFloat16);
    };
    program.q = program.q_plain = drawn(program.q.size(1), width);
    program.k = program.k_plain = drawn(program.k.size(1), width);
    program.scale = 1 / std::sqrt(static_cast<double>(width));
    const at::Tensor v = drawn(program.k.size(1), values);
    const bool gradients = width == 192;
    ASSERT_EQ(cuda_obstacle(program, v, false), "");
    const std::string heads = "heads of " + std::to_string(width) + " channels" +
                              (values == width ? "" : " with values of " + std::to_string(values));
    const std::string need = " need blocks with 163 KiB of shared memory";
    ASSERT_EQ(cuda_obstacle(program, v, true), gradients ? "" : "gradients of " + heads + need);
    ProbeRequest probes{.top_keys = 32};
    EXPECT_EQ(cuda_obstacle(program, v, false, &probes), "");
    probes.top_keys = 33;
    EXPECT_EQ(cuda_obstacle(program, v, false, &probes),
              gradients ? "" : "content sums and more than 32 top keys of " + heads + need);
    const auto pass = [&](at::ScalarType dtype, Backend backend) {
      AttentionProgram some = in_dtype(program, dtype);
      some.q = some.q.detach().clone().requires_grad_(gradients);
      AllRan kernels;
      const at::Tensor out =
          attention(some, v.to(dtype), {.backend = backend, .kernels = &kernels}).out;
      EXPECT_EQ(protocol::words_of(protocol::listed(kernels)),
                backend == Backend::plain ? "plain" : "cuda-unverified");
      if (gradients) weighted_sum(out).backward();
      return std::pair{out.detach(), gradients ? some.q.grad() : out.detach()};
    };
    const auto exact = pass(at::kFloat, Backend::plain);
    const auto ours = pass(at::kBFloat16, Backend::cuda_unverified);
    // As below: bfloat16 keeps 8 bits of what is read and of what comes in.
    EXPECT_LT(difference(ours.first, exact.first), 0.03 * exact.first.abs().max().item<double>());
    EXPECT_LT(difference(ours.second, exact.second),
              0.03 * exact.second.abs().max().item<double>());
    program.variant = TapaProgram{};
    EXPECT_EQ(cuda_obstacle(program, v, true), heads + " have no form in the CUDA kernels");
  }
}

// Held against the CPU's kernel in float32 on the same rounded inputs: bfloat16 keeps 8 bits of the
// gradient that comes in. How near to float64 the sums are is held by the kernels' own tests.
TEST_F(CudaBackend, GivesGradientsOfEveryOperand) {
  for (const Operand& operand : operands()) {
    const auto layer = first_layer(
        *tiny_model({operand.encoding, operand.encoding, operand.options}, at::kBFloat16), 65);
    const auto gradient = [&](at::ScalarType dtype, Backend backend, const std::string& kernel) {
      AttentionProgram program = in_dtype(layer->program(), dtype);
      program.sinks = at::linspace(-1, 2, program.q.size(1)).to(dtype);
      at::Tensor& leaf = operand.of(program);
      leaf = leaf.detach().clone().requires_grad_();
      AllRan kernels;
      const AttentionResult result =
          attention(program, layer->v().to(dtype), {.backend = backend, .kernels = &kernels});
      EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), kernel)
          << operand.encoding << " " << operand.name;
      at::Tensor sum = weighted_sum(result.out);
      if (result.state.defined()) sum = sum + weighted_sum(result.state);
      sum.backward();
      return leaf.grad();
    };
    const at::Tensor exact = gradient(at::kFloat, Backend::fused, fused_kernel_name());
    const at::Tensor ours = gradient(at::kBFloat16, Backend::cuda_unverified, "cuda-unverified");
    const double largest = exact.abs().max().item<double>();
    ASSERT_GT(largest, 0) << operand.encoding << " " << operand.name;
    EXPECT_LT(difference(ours, exact), 0.03 * largest) << operand.encoding << " " << operand.name;
  }
}

// Clamped distances, with a limit of each head; 6 tokens away at most, 30, or none.
AttentionProgram clamped(const LayerAttention& layer) {
  AttentionProgram program = layer.program();
  at::manual_seed(3);
  ClampProgram clamp{at::randn(program.q.sizes()).to(program.q.scalar_type()),
                     at::randn(program.k.sizes()).to(program.k.scalar_type()),
                     {}};
  for (std::int64_t h = 0; h < program.q.size(1); ++h) {
    clamp.limits.push_back(h % 3 == 0 ? 6 : h % 3 == 1 ? 30 : 1000);
  }
  program.variant = std::move(clamp);
  return program;
}

// Against plain operations in float32 on the same rounded inputs, with gradients of the far q and k
// and of a bias by distance: bounds as above.
TEST_F(CudaBackend, ClampsDistancesAndSumsGradientsByDistance) {
  const auto layer = first_layer(*tiny_model({"rope", "rope", Json::object()}, at::kBFloat16), 70);
  const AttentionProgram program = clamped(*layer);
  const auto gradients = [&](at::ScalarType dtype, Backend backend, const std::string& kernel) {
    AttentionProgram one = in_dtype(program, dtype);
    auto* clamp = one.as<ClampProgram>();
    one.distance_bias = at::zeros({2, one.q.size(1), 50}, at::kDouble);
    for (at::Tensor* leaf : {&one.q, &clamp->q, &clamp->k, &one.distance_bias}) {
      *leaf = leaf->detach().clone().requires_grad_();
    }
    AllRan kernels;
    const AttentionResult result =
        attention(one, layer->v().to(dtype), {.backend = backend, .kernels = &kernels});
    EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), kernel);
    weighted_sum(result.out).backward();
    return std::vector{result.out, one.q.grad(), clamp->q.grad(), clamp->k.grad(),
                       one.distance_bias.grad()};
  };
  const auto exact = gradients(at::kFloat, Backend::plain, "plain");
  const auto ours = gradients(at::kBFloat16, Backend::cuda_unverified, "cuda-unverified");
  for (std::size_t n = 0; n < exact.size(); ++n) {
    const double largest = exact[n].abs().max().item<double>();
    ASSERT_GT(largest, 0) << n;
    EXPECT_LT(difference(ours[n], exact[n]), 0.03 * largest) << n;
  }
}

// By the CPU's kernel on the same rounded numbers; sums of up to 70 scores in float32.
TEST_F(CudaBackend, SumsScores) {
  for (const char* encoding : {"rope", "alibi", "cape"}) {
    const auto layer =
        first_layer(*tiny_model({encoding, encoding, Json::object()}, at::kBFloat16), 70);
    const AttentionProgram exactly = in_dtype(layer->program(), at::kFloat);
    const at::Tensor v = layer->v().to(at::kFloat);
    const KernelInputs kernel(exactly, v);
    const std::int64_t heads = 2 * exactly.q.size(1);
    const at::Tensor shift = at::randn({heads, 70}, at::kDouble);
    const auto sums = [&](const auto& sum) {
      std::vector<at::Tensor> results;
      for (const std::int64_t count : {70, 70, 40, 1}) {
        results.push_back(at::full({heads, count}, 5, at::kDouble));
      }
      results.push_back(at::full({heads, 70}, 5, at::kLong));
      const auto data = [&](std::size_t n) { return results[n].mutable_data_ptr<double>(); };
      sum(kernels::ScoreSums{shift.const_data_ptr<double>(), data(0),
                             results[4].mutable_data_ptr<std::int64_t>(), data(1), data(2), 40,
                             data(3)});
      return results;
    };
    const auto want = sums([&](const kernels::ScoreSums& to) { kernel.score_sums(to); });
    const auto got = sums(
        [&](const kernels::ScoreSums& to) { cuda_score_sums(layer->program(), layer->v(), to); });
    for (std::size_t n = 0; n < want.size(); ++n) {
      EXPECT_LT(difference(got[n], want[n]), 1e-4 * (1 + want[n].abs().max().item<double>()))
          << encoding << " " << n;
    }
  }
}

// Windows, padding and soft caps cross to the device too, and every probe comes back.
TEST_F(CudaBackend, MeasuresWhatPlainOpsMeasure) {
  const at::NoGradGuard no_grad;
  const auto layer =
      first_layer(*tiny_model({"alibi", "alibi", Json::object()}, at::kBFloat16), 70);
  const AttentionProgram program = masked(layer->program());
  const ProbeRequest request = all_probes();
  const AttentionProgram exactly = in_dtype(program, at::kDouble);
  const at::Tensor v = layer->v();
  const AttentionResult cuda = attention(program, v,
                                         {.backend = Backend::cuda_unverified,
                                          .want_lse = true,
                                          .want_entropy = true,
                                          .probes = &request});
  EXPECT_EQ(cuda.ran.text(), "cuda-unverified");
  const AttentionResult exact =
      attention(exactly, v.to(at::kDouble),
                {.backend = Backend::plain, .want_lse = true, .want_entropy = true});
  // Sums in float32 over scores of order one; 2^-9 of them is what 16 bits keep of the output.
  EXPECT_LT(difference(cuda.lse, exact.lse), 1e-4);
  EXPECT_LT(difference(cuda.entropy, exact.entropy), 1e-4);
  const LayerAttention twin(0, exactly, v.to(at::kDouble), exact.lse, exact.entropy, Backend::plain,
                            ran_plain(v));
  const ProbeResult expected = twin.probe(request);
  const ProbeResult& measured = *cuda.probes;
  EXPECT_EQ(measured.ran.text(), "cuda-unverified");
  EXPECT_LT(difference(measured.entropy, expected.entropy), 1e-4);
  EXPECT_LT(difference(measured.max_score, expected.max_score), 1e-4);
  EXPECT_LT(difference(measured.top1_mass, expected.top1_mass), 1e-4);
  EXPECT_LT(difference(measured.first_key_weight, expected.first_key_weight), 1e-4);
  EXPECT_LT(difference(measured.mean_distance, expected.mean_distance), 1e-3);
  EXPECT_TRUE(measured.max_key.equal(expected.max_key));
  EXPECT_TRUE(measured.bucket_pairs.equal(expected.bucket_pairs));
  ASSERT_EQ(measured.window_mass.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_LT(difference(measured.window_mass[n], expected.window_mass[n]), 1e-4) << n;
  }
  // Up to 16 * 60 pairs a bucket.
  EXPECT_LT(difference(measured.bucket_weight, expected.bucket_weight), 1e-2);
  EXPECT_LT(difference(measured.bucket_score, expected.bucket_score), 1e-1);
  EXPECT_LT(difference(measured.bucket_score_square, expected.bucket_score_square), 1e-1);
  EXPECT_LT(difference(measured.bucket_content, expected.bucket_content), 1e-1);
  EXPECT_LT(difference(measured.bucket_content_square, expected.bucket_content_square), 1e-1);
  EXPECT_LT(difference(measured.bucket_term, expected.bucket_term), 1e-1);
  EXPECT_LT(difference(measured.bucket_term_square, expected.bucket_term_square), 1e-1);
  EXPECT_TRUE(measured.top_key.equal(expected.top_key));
  EXPECT_LT(difference(measured.top_weight, expected.top_weight), 1e-4);
}

// As on the CPU: the kernels have no other q and k than those that were rotated.
TEST_F(CudaBackend, SumsNoContentScoresOfRotatedQueries) {
  const at::NoGradGuard no_grad;
  const auto layer = first_layer(*tiny_model({"rope", "rope", Json::object()}, at::kBFloat16), 40);
  const ProbeRequest request = {.bucket_edges = {0, 1, 8, 40}, .content = true, .term = true};
  const AttentionResult cuda =
      attention(layer->program(), layer->v(),
                {.backend = Backend::cuda_unverified, .want_lse = true, .probes = &request});
  ASSERT_NE(cuda.probes, nullptr);
  EXPECT_TRUE(cuda.probes->bucket_score.defined());
  EXPECT_FALSE(cuda.probes->bucket_content.defined());
  EXPECT_FALSE(cuda.probes->bucket_term.defined());
}

TEST_F(CudaBackend, WholeModelsNameWhatRan) {
  const at::NoGradGuard no_grad;
  const auto ran = [](at::ScalarType dtype) {
    const auto model = tiny_model({"rope", "rope", Json::object()}, dtype);
    AllRan kernels;
    model->decoder.forward(random_ids(1, 9, model->config().vocab_size),
                           {.backend = Backend::cuda_unverified, .kernels = &kernels});
    return protocol::words_of(protocol::listed(kernels));
  };
  EXPECT_EQ(ran(at::kBFloat16), "cuda-unverified");
  EXPECT_EQ(ran(at::kFloat),
            "plain (f32 has no form in the CUDA kernels: with the dtype bf16 or f16 they run)");
}

// Training has float32 weights and 16-bit products: attention's are 16-bit on the device too.
TEST_F(CudaBackend, TrainsWithSixteenBitProducts) {
  for (const char* encoding : {"rope", "tape", "fire"}) {
    const auto model = tiny_model({encoding, encoding, Json::object()}, at::kFloat);
    const at::Tensor ids = random_ids(2, 33, model->config().vocab_size);
    const auto gradient = [&](Backend backend, AllRan* kernels) {
      Weights weights = model->decoder.weights();
      weights.layers[0].wq = weights.layers[0].wq.detach().clone().requires_grad_();
      const Decoder decoder(model->config(), model->decoder.shared_encoding(), weights);
      const ForwardOptions options = {
          .backend = backend, .product_dtype = at::kBFloat16, .kernels = kernels};
      next_token_loss(decoder.forward(ids, options), ids).backward();
      return weights.layers[0].wq.grad();
    };
    AllRan kernels;
    const at::Tensor cuda = gradient(Backend::cuda_unverified, &kernels);
    EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), "cuda-unverified") << encoding;
    const at::Tensor fused = gradient(Backend::fused, nullptr);
    // bfloat16 keeps 8 bits; a few roundings a layer.
    EXPECT_LT(difference(cuda, fused), 0.1 * fused.abs().max().item<double>()) << encoding;
  }
}

// Three blocks of keys, whose sums of dq are kept apart or are one. Bounds as of every operand's
// gradient above.
TEST_F(CudaBackend, AddsAtomicallyWhereThatIsChosenAndSaysSo) {
  const WatchedKernels watched;
  use_cuda_kernels(&watched);
  for (const auto& [encoding, has_form] :
       {std::pair{"rope", true}, {"alibi", true}, {"fox", false}}) {
    const auto layer =
        first_layer(*tiny_model({encoding, encoding, Json::object()}, at::kBFloat16), 270);
    const auto pass = [&](const AttentionProgram& given, const AttentionOptions& asked) {
      AttentionProgram program = given;
      program.q = program.q.detach().clone().requires_grad_();
      AllRan kernels;
      AttentionOptions options = asked;
      options.kernels = &kernels;
      const at::Tensor v = layer->v().to(program.q.scalar_type());
      weighted_sum(attention(program, v, options).out).backward();
      return std::pair{program.q.grad(), protocol::words_of(protocol::listed(kernels))};
    };
    const at::Tensor exact =
        pass(in_dtype(layer->program(), at::kFloat), {.backend = Backend::plain}).first;
    for (const bool atomic : {false, true}) {
      watched.atomic.clear(), watched.atomic_workspaces.clear();
      const auto [dq, ran] =
          pass(layer->program(), {.backend = Backend::cuda_unverified, .atomic_dq = atomic});
      EXPECT_EQ(ran, atomic && has_form ? "cuda-unverified with atomic dq" : "cuda-unverified");
      EXPECT_EQ(watched.atomic, std::vector<bool>{atomic}) << encoding;
      EXPECT_EQ(watched.atomic_workspaces, std::vector<bool>{atomic}) << encoding;
      EXPECT_LT(difference(dq, exact), 0.03 * exact.abs().max().item<double>()) << encoding;
    }
    // One sum takes less than three.
    const auto bytes = [&](bool atomic) {
      return CudaCall::backward(layer->program(), layer->v(), atomic).bytes();
    };
    EXPECT_EQ(bytes(true) < bytes(false), has_form) << encoding;
    // On the CPU sums have one order.
    const auto fused = pass(layer->program(), {.backend = Backend::fused, .atomic_dq = true});
    EXPECT_EQ(fused.second, fused_kernel_name());
    EXPECT_TRUE(fused.first.equal(pass(layer->program(), {.backend = Backend::fused}).first));
    // Where no gradient is wanted, nothing is added up.
    const at::NoGradGuard no_grad;
    EXPECT_EQ(attention(layer->program(), layer->v(),
                        {.backend = Backend::cuda_unverified, .atomic_dq = true})
                  .ran.text(),
              "cuda-unverified");
  }
}

// The choice of a whole pass reaches every layer.
TEST_F(CudaBackend, AWholeModelAddsAtomically) {
  const auto model = tiny_model({"rope", "rope", Json::object()}, at::kFloat);
  Weights weights = model->decoder.weights();
  weights.layers[0].wq = weights.layers[0].wq.detach().clone().requires_grad_();
  const Decoder decoder(model->config(), model->decoder.shared_encoding(), weights);
  const at::Tensor ids = random_ids(1, 9, model->config().vocab_size);
  AllRan kernels;
  const ForwardOptions options = {.backend = Backend::cuda_unverified,
                                  .atomic_dq = true,
                                  .product_dtype = at::kBFloat16,
                                  .kernels = &kernels};
  next_token_loss(decoder.forward(ids, options), ids).backward();
  EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), "cuda-unverified with atomic dq");
}

std::string code_of_backend(const std::string& name) {
  try {
    backend_named(name);
  } catch (const formats::Error& error) {
    return error.code();
  }
  return "";
}

class NoDevice final : public kernels::CudaKernels {
 public:
  bool available(std::string& reason) const override {
    reason = "This machine has no CUDA device";
    return false;
  }
  std::string device_name() const override { return ""; }
  int capability() const override { return 0; }
  std::int64_t shared_bytes() const override { return 0; }
  void* allocate(std::size_t) const override { throw std::bad_alloc(); }
  void release(void*) const noexcept override {}
  void upload(void*, const void*, std::size_t) const override {}
  void download(void*, const void*, std::size_t) const override {}
  void wait() const override {}
  void forward(const kernels::CudaAttention&, const kernels::CudaForwardOutputs&) const override {}
  void backward(const kernels::CudaAttention&, const kernels::SavedForward&,
                const kernels::CudaGradients&) const override {}
  void score_sums(const kernels::CudaAttention&, const kernels::CudaScoreSums&) const override {}
  void region(const kernels::CudaAttention&, const kernels::CudaRegion&) const override {}
  std::size_t sums_workspace(const kernels::CudaAttention&,
                             const kernels::ScoreSums&) const override {
    return 0;
  }
  std::size_t score_workspace(const kernels::CudaAttention&) const override { return 0; }
  std::size_t bucket_workspace(const kernels::CudaAttention&,
                               const kernels::BucketProbes&) const override {
    return 0;
  }
  std::size_t backward_workspace(const kernels::CudaAttention&) const override { return 0; }
  bool adds_atomically(const kernels::CudaAttention&) const override { return false; }
};

// Of the list alone, of devices of the same architecture: its binary is another one elsewhere.
TEST(VerifiedKernels, AreThoseOfTheListOnTheirArchitecture) {
  const std::vector<kernels::VerifiedKernel> list = {{"plain", 90}, {"table_tokens", 80}};
  EXPECT_TRUE(kernels::is_verified(list, "plain", 90));
  EXPECT_FALSE(kernels::is_verified(list, "plain", 80));
  EXPECT_FALSE(kernels::is_verified(list, "plain_tokens", 90));
  EXPECT_FALSE(kernels::is_verified({}, "plain", 90));
  // No number of an architecture is written as 9 for 9.0.
  for (const kernels::VerifiedKernel& one : kernels::verified_kernels()) {
    EXPECT_GE(one.capability, 80) << one.kernel;
  }
}

// The Hopper form of a kernel that has passed in Ampere form: by name until it has passed too.
TEST(VerifiedKernels, ChooseTheHopperFormOnceItHasPassed) {
  const auto layer = first_layer(*tiny_model({"rope", "rope", Json::object()}, at::kFloat), 9);
  const std::vector<kernels::VerifiedKernel> none, ampere = {{"plain", 80}, {"plain", 90}},
                                                   both = {{"plain", 90}, {"hopper_plain", 90}};
  const auto expect = [&](const std::vector<kernels::VerifiedKernel>& list, Backend backend,
                          int capability, bool hopper, bool verified) {
    const CudaForm form = cuda_form_of(layer->program(), layer->v(), backend, list, capability);
    EXPECT_EQ(form.hopper, hopper);
    EXPECT_EQ(form.verified, verified);
  };
  for (const Backend backend : {Backend::fused, Backend::cuda_unverified}) {
    expect(none, backend, 90, true, false);
    expect(none, backend, 80, false, false);
    expect(ampere, backend, 80, false, true);
    expect(both, backend, 90, true, true);
  }
  expect(ampere, Backend::fused, 90, false, true);
  expect(ampere, Backend::cuda_unverified, 90, true, false);
}

TEST(VerifiedKernels, AreNamedAfterTheirSources) {
  const auto kernel_of = [](const char* encoding) {
    const auto layer =
        first_layer(*tiny_model({encoding, encoding, Json::object()}, at::kFloat), 9);
    return cuda_kernel_of(layer->program(), layer->v());
  };
  EXPECT_EQ(kernel_of("rope"), "plain");
  EXPECT_EQ(kernel_of("alibi"), "table");
  EXPECT_EQ(kernel_of("tapa"), "tapa");
  EXPECT_EQ(kernel_of("tape"), "tape");
  EXPECT_EQ(kernel_of("cape"), "cape");
  EXPECT_EQ(kernel_of("fox"), "plain_tokens");
  EXPECT_EQ(kernel_of("relative_logits"), "query_table");
  // Values beyond 128 channels make a head a wide one, whatever its keys have.
  const auto layer = first_layer(*tiny_model({"rope", "rope", Json::object()}, at::kFloat), 9);
  const auto sizes = layer->v().sizes();
  EXPECT_EQ(cuda_kernel_of(layer->program(), at::zeros({sizes[0], sizes[1], sizes[2], 200})),
            "plain_wide");
}

TEST(BackendNames, AreRefusedInWordsWhereNothingRunsThem) {
  EXPECT_EQ(backend_named(""), Backend::fused);
  EXPECT_EQ(backend_named("auto"), Backend::fused);
  EXPECT_EQ(backend_named("plain"), Backend::plain);
  EXPECT_EQ(code_of_backend("cuda"), "bad_usage");
  use_cuda_kernels(nullptr);
  EXPECT_EQ(code_of_backend("cuda-unverified"), "device_unavailable");
  const NoDevice without;
  use_cuda_kernels(&without);
  EXPECT_EQ(code_of_backend("cuda-unverified"), "device_unavailable");
  use_cuda_kernels(&kernels::cuda_kernels());
  std::string reason;
  if (kernels::cuda_kernels().available(reason)) {
    EXPECT_EQ(backend_named("cuda-unverified"), Backend::cuda_unverified);
  }
  use_cuda_kernels(nullptr);
}

}  // namespace
}  // namespace phasescope::model
