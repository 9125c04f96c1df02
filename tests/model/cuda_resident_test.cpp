// The CUDA kernels on tensors that lie on a device already (models with --device cuda): all memory
// is LibTorch's, nothing is copied, and the bits are those of the same operands copied there. On a
// GPU by LibTorch's CUDA half; in the emulation on the device of phantom_device.h, whose memory
// is then the emulated device's.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention_keeper.h"
#include "encoding_variants.h"
#include "golden.h"
#include "kernels/cuda/cuda_kernels.h"
#include "masked_program.h"
#include "model/attention/cuda_attention.h"
#include "model/devices.h"
#include "model/key_value_cache.h"
#include "next_token_loss.h"
#include "watched_kernels.h"
#ifdef PHASESCOPE_CUDA_EMULATION
#include "phantom_device.h"
#endif

namespace phasescope::model {
namespace {

#ifdef PHASESCOPE_CUDA_EMULATION
// Tensors of this program, where the emulation sees what is copied from outside of them, and where
// reads past their ends and writes around them stop it.
class EmulatedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes == 0 ? nullptr : kernels::emulation::allocate(bytes);
    return {data, data, &kernels::emulation::release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &kernels::emulation::release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

constexpr bool kEmulated = true;
at::Device the_device() { return phantom_device(); }
bool has_device() {
  static EmulatedMemory memory;
  c10::SetCPUAllocator(&memory, /*priority=*/1);
  return true;
}
void begin_counting() { reset_phantom_counts(); }
std::int64_t copies() {
  const PhantomCounts counts = phantom_counts();
  return counts.to_device + counts.to_host + counts.reads;
}
#else
constexpr bool kEmulated = false;
at::Device the_device() { return {at::kCUDA, 0}; }
bool has_device() { return cuda_devices() > 0; }
void begin_counting() {}
std::int64_t copies() { return 0; }  // LibTorch's own are not seen
#endif

class ResidentCuda : public testing::Test {
 protected:
  ResidentCuda() {
    at::set_num_threads(1);
    use_cuda_kernels(&kernels_);
  }
  ~ResidentCuda() override { use_cuda_kernels(nullptr); }
  void SetUp() override {
    std::string reason;
    if (!kernels_.available(reason)) GTEST_SKIP() << reason;
    if (!has_device()) GTEST_SKIP() << "LibTorch shows no CUDA device";
  }

  // What `call` returns; it runs the kernels, and copies nothing.
  template <class Call>
  auto without_copies(int passes, const Call& call) {
    kernels_.asked = kernels_.passes = 0;
    begin_counting();
    auto result = call();
    EXPECT_EQ(copies(), 0);
    EXPECT_EQ(kernels_.asked, 0);
    EXPECT_EQ(kernels_.passes, passes);
    return result;
  }

  WatchedKernels kernels_;
};

std::shared_ptr<const LayerAttention> first_layer(const Variant& variant, std::int64_t length) {
  const at::NoGradGuard no_grad;
  const auto model = tiny_model(variant, at::kBFloat16);
  AttentionKeeper keeper;
  model->decoder.hidden(random_ids(2, length, model->config().vocab_size), {}, &keeper);
  return keeper.layers[0];
}

AttentionProgram moved(const AttentionProgram& program, const at::Device& device) {
  AttentionProgram result = program;
  const auto move = [&](at::Tensor& x) {
    if (x.defined()) x = x.to(device);
  };
  for_each_tensor(result, [&](const TensorInfo&, at::Tensor& tensor) { move(tensor); });
  for (at::Tensor* x : {&result.q_plain, &result.k_plain, &result.q_normed, &result.k_normed,
                        &result.key_mask, &result.documents}) {
    move(*x);
  }
  return result;
}

// A pass over operands that lie on a device, and what follows from it.
struct Pass {
  AttentionProgram program;
  std::vector<at::Tensor> leaves;
  at::Tensor v, weights;

  Pass(const LayerAttention& layer, const at::Device& device)
      : program(moved(layer.program(), device)) {
    const auto leaf = [&](const at::Tensor& x) {
      leaves.push_back(x.detach().clone().requires_grad_());
      return leaves.back();
    };
    for_each_operand(program, [&](at::Tensor& x) { x = leaf(x); });
    v = leaf(layer.v().to(device));
    weights =
        at::arange(v.numel(), at::kDouble).cos().view(v.sizes()).to(v.scalar_type()).to(device);
  }

  std::vector<at::Tensor> run() {
    const AttentionResult forward =
        attention(program, v, {.backend = Backend::cuda_unverified, .want_lse = true});
    std::vector<at::Tensor> results{forward.out, forward.lse};
    if (forward.state.defined()) results.push_back(forward.state);
    at::Tensor of_out = forward.out;
    of_out.backward(weights.expand_as(of_out));
    for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
    return results;
  }
};

void expect_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                 const at::Device& device) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    ASSERT_EQ(found[n].defined(), expected[n].defined()) << n;
    if (!found[n].defined()) continue;
    EXPECT_TRUE(found[n].device() == device) << n;
    EXPECT_TRUE(found[n].cpu().equal(expected[n])) << n;
  }
}

// In the emulation all other operators are the CPU's own: the same bits. On a GPU they round
// otherwise, in numbers of eight bits through two layers.
void expect_equal(const at::Tensor& found, const at::Tensor& expected) {
  if (kEmulated) {
    EXPECT_TRUE(found.cpu().equal(expected));
  } else {
    EXPECT_LT(relative_error(found.cpu(), expected), 0.05);
  }
}

class EveryEncodingThere : public ResidentCuda, public testing::WithParamInterface<Variant> {};
INSTANTIATE_TEST_SUITE_P(Registry, EveryEncodingThere, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

// 33 tokens: one tile and no more, of which a row is not whole.
TEST_P(EveryEncodingThere, GivesTheBitsOfOperandsThatAreCopied) {
  const auto layer = first_layer(GetParam(), 33);
  const std::string obstacle = plain_on_cuda(GetParam().name);
  EXPECT_EQ(cuda_obstacle(layer->program(), layer->v(), true), obstacle);
  if (!obstacle.empty()) {
    const auto there = moved(layer->program(), the_device());
    EXPECT_EQ(cuda_obstacle(there, layer->v().to(the_device()), true), obstacle);
    return;
  }
  Pass here(*layer, at::kCPU), there(*layer, the_device());
  const std::vector<at::Tensor> expected = here.run();
  EXPECT_GT(kernels_.asked, 0);
  expect_same(without_copies(2, [&] { return there.run(); }), expected, the_device());
}

// Windows, padding, documents and soft caps are read where they lie; probes are written there.
TEST_F(ResidentCuda, MeasuresWhereOperandsLie) {
  const at::NoGradGuard no_grad;
  const auto layer = first_layer({"alibi", "alibi", Json::object()}, 70);
  const AttentionProgram program = masked(layer->program());
  const ProbeRequest request = all_probes();
  const auto measured = [&](const AttentionProgram& own, const at::Tensor& v) {
    const AttentionResult result = attention(
        own, v, {.backend = Backend::cuda_unverified, .want_lse = true, .probes = &request});
    const ProbeResult& p = *result.probes;
    return std::vector{result.out,       result.lse,       p.entropy,          p.max_score,
                       p.max_key,        p.top1_mass,      p.first_key_weight, p.mean_distance,
                       p.window_mass[0], p.window_mass[1], p.window_mass[2],   p.bucket_pairs,
                       p.bucket_weight,  p.bucket_score,   p.bucket_content,   p.bucket_term,
                       p.top_key,        p.top_weight};
  };
  const std::vector<at::Tensor> expected = measured(program, layer->v());
  const AttentionProgram there = moved(program, the_device());
  const at::Tensor v = layer->v().to(the_device());
  measured(there, v);  // the edges of buckets come there once
  const auto found = without_copies(1, [&] { return measured(there, v); });
  expect_same(found, expected, the_device());
}

// Probes that the pass has not measured are a pass of the same kernels, whose results come to the
// host: the bits of one that is asked for them from the start. Content scores are a program of
// their own.
TEST_F(ResidentCuda, MeasuresAfterThePassByTheKernels) {
  const at::NoGradGuard no_grad;
  ProbeRequest request;
  request.top_keys = 5, request.mean_distance = true;
  request.bucket_edges = {0, 1, 4, 70};
  for (const char* encoding : {"rope", "alibi", "tapa", "tape", "cape"}) {
    SCOPED_TRACE(encoding);
    const auto layer = first_layer({encoding, encoding, Json::object()}, 70);
    const AttentionResult known =
        attention(layer->program(), layer->v(),
                  {.backend = Backend::cuda_unverified, .want_lse = true, .probes = &request});
    const LayerAttention there(0, moved(layer->program(), the_device()),
                               layer->v().to(the_device()), known.lse.to(the_device()),
                               at::Tensor(), Backend::cuda_unverified, known.ran);
    kernels_.asked = kernels_.passes = 0;
    const ProbeResult found = there.probe(request);
    EXPECT_EQ(kernels_.passes, 1);
    EXPECT_EQ(kernels_.asked, 0);
    EXPECT_EQ(found.ran.text(), "cuda-unverified");
    EXPECT_EQ(found.ran.device, "cuda");
    const ProbeResult& expected = *known.probes;
    for (const auto& [ours, theirs] : {std::pair{found.top_key, expected.top_key},
                                       {found.top_weight, expected.top_weight},
                                       {found.mean_distance, expected.mean_distance},
                                       {found.bucket_score, expected.bucket_score}}) {
      ASSERT_TRUE(ours.defined());
      EXPECT_TRUE(ours.is_cpu());
      EXPECT_TRUE(ours.equal(theirs.cpu()));
    }
  }
}

// Regions are the kernels' where the pass was, and come to the host: the numbers of the CPU's
// kernels from the same 16-bit operands. Both sum in float32, in another order; CAPE's network has
// 16-bit products on tensor cores.
TEST_F(ResidentCuda, GivesRegionsByTheKernels) {
  const at::NoGradGuard no_grad;
  const Region region{{1, 2}, {10, 70}, {3, 69}};
  for (const char* encoding : {"rope", "alibi", "tapa", "tape", "cape", "relative_logits"}) {
    SCOPED_TRACE(encoding);
    const double most = std::string(encoding) == "cape" ? 1e-2 : 1e-5;
    const auto layer = first_layer({encoding, encoding, Json::object()}, 70);
    const AttentionResult known = attention(
        layer->program(), layer->v(), {.backend = Backend::cuda_unverified, .want_lse = true});
    const LayerAttention there(0, moved(layer->program(), the_device()),
                               layer->v().to(the_device()), known.lse.to(the_device()),
                               at::Tensor(), Backend::cuda_unverified, known.ran);
    const LayerAttention here(0, layer->program(), layer->v(), known.lse, at::Tensor(),
                              Backend::fused, {});
    kernels_.asked = kernels_.passes = 0;
    for (const auto& [found, expected] : {std::pair{there.score(region), here.score(region)},
                                          {there.content(region), here.content(region)},
                                          {there.weights(region), here.weights(region)}}) {
      ASSERT_TRUE(found.is_cpu());
      ASSERT_EQ(found.sizes(), expected.sizes());
      const at::Tensor seen = expected.isfinite();
      ASSERT_TRUE(found.isfinite().equal(seen));
      EXPECT_LT(relative_error(found.where(seen, 0), expected.where(seen, 0)), most);
    }
    // A call of the kernels for each text of two; content of heads that have no form there (TAPA's
    // amplitudes) is made otherwise.
    const auto* tapa = layer->program().as<TapaProgram>();
    const bool has_content = tapa == nullptr || tapa->content_dim % 8 == 0;
    EXPECT_EQ(kernels_.passes, has_content ? 6 : 4);
    EXPECT_EQ(kernels_.asked, 0);
    for (const MapQuantity quantity :
         {MapQuantity::weight, MapQuantity::score, MapQuantity::content}) {
      const MapRequest request{
          .batch = 1, .region = region, .height = 7, .width = 11, .quantity = quantity};
      const MapResult found = there.map(request), expected = here.map(request);
      if (has_content || quantity != MapQuantity::content) {
        EXPECT_EQ(found.ran.text(), "cuda-unverified");
      }
      const at::Tensor seen = expected.mean.isfinite();
      ASSERT_TRUE(found.mean.isfinite().equal(seen));
      EXPECT_LT(relative_error(found.mean.where(seen, 0), expected.mean.where(seen, 0)), most);
    }
  }
}

// A token at a time, behind what is kept: the kernels take one query with an offset, and the bits
// are those of a model on the CPU whose operands are copied.
TEST_F(ResidentCuda, ReadsTextsInPieces) {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kLength = 24;
  for (const char* encoding : {"rope", "alibi", "tapa", "tape", "cape", "fox"}) {
    SCOPED_TRACE(encoding);
    const auto model = tiny_model({encoding, encoding, Json::object()}, at::kBFloat16);
    const auto there = on_device(model, the_device());
    const at::Tensor ids = random_ids(1, kLength, model->config().vocab_size);
    KeyValueCache ours(there->decoder, kLength), real(model->decoder, kLength);
    const int layers = static_cast<int>(model->config().layers);
    for (const std::int64_t size : {17, 1, 5, 1}) {
      const at::Tensor piece = ids.narrow(1, real.length(), size);
      const auto logits = [&](const Model& one, KeyValueCache& cache) {
        AllRan kernels;
        const at::Tensor found = one.decoder.forward(
            piece, {.backend = Backend::cuda_unverified, .cache = &cache, .kernels = &kernels});
        EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), "cuda-unverified");
        return found;
      };
      const at::Tensor expected = logits(*model, real);
      kernels_.asked = kernels_.passes = 0;
      const at::Tensor found = logits(*there, ours);
      EXPECT_EQ(kernels_.asked, 0);
      EXPECT_EQ(kernels_.passes, layers);
      expect_equal(found, expected);
    }
  }
}

TEST_F(ResidentCuda, SumsScoresWhereOperandsLie) {
  for (const char* encoding : {"rope", "alibi", "cape"}) {
    const auto layer = first_layer({encoding, encoding, Json::object()}, 70);
    const std::int64_t heads = 2 * layer->program().q.size(1);
    const at::Tensor shift = at::randn({heads, 70}, at::kDouble);
    const auto sums = [&](const at::Device& device) {
      std::vector<at::Tensor> results;
      for (const std::int64_t count : {70, 70, 40, 1}) {
        results.push_back(at::full({heads, count}, 5, at::kDouble).to(device));
      }
      results.push_back(at::full({heads, 70}, 5, at::kLong).to(device));
      const auto data = [&](std::size_t n) {
        return static_cast<double*>(results[n].mutable_data_ptr());
      };
      const at::Tensor own_shift = shift.to(device), v = layer->v().to(device);
      const AttentionProgram program = moved(layer->program(), device);
      const auto call = [&] {
        cuda_score_sums(program, v,
                        {static_cast<const double*>(own_shift.const_data_ptr()), data(0),
                         static_cast<std::int64_t*>(results[4].mutable_data_ptr()), data(1),
                         data(2), 40, data(3)});
        return results;
      };
      return device.is_cpu() ? call() : without_copies(1, call);
    };
    const std::vector<at::Tensor> expected = sums(at::kCPU);
    expect_same(sums(the_device()), expected, the_device());
  }
}

TEST_F(ResidentCuda, RunsWholeModels) {
  const at::NoGradGuard no_grad;
  for (const char* encoding : {"rope", "alibi", "tapa", "tape", "cape"}) {
    const auto model = tiny_model({encoding, encoding, Json::object()}, at::kBFloat16);
    const auto there = on_device(model, the_device());
    const at::Tensor ids = random_ids(2, 33, model->config().vocab_size);
    const auto logits = [](const Model& one, const at::Tensor& text) {
      AllRan kernels;
      const at::Tensor found =
          one.decoder.forward(text, {.backend = Backend::cuda_unverified, .kernels = &kernels});
      EXPECT_EQ(protocol::words_of(protocol::listed(kernels)), "cuda-unverified");
      return found;
    };
    const at::Tensor expected = logits(*model, ids);
    const int layers = static_cast<int>(model->config().layers);
    kernels_.asked = kernels_.passes = 0;
    const at::Tensor found = logits(*there, ids);
    EXPECT_EQ(kernels_.asked, 0) << encoding;
    EXPECT_EQ(kernels_.passes, layers) << encoding;
    EXPECT_TRUE(found.device() == the_device());
    expect_equal(found, expected);
  }
}

TEST_F(ResidentCuda, TrainsWithSixteenBitProducts) {
  for (const char* encoding : {"rope", "tape", "alibi"}) {
    const auto model = tiny_model({encoding, encoding, Json::object()}, at::kFloat);
    const at::Tensor ids = random_ids(2, 33, model->config().vocab_size);
    const auto gradient = [&](const Model& one, const at::Device& device) {
      Weights weights = one.decoder.weights();
      weights.layers[0].wq = weights.layers[0].wq.detach().clone().requires_grad_();
      const Decoder decoder(one.config(), one.decoder.shared_encoding(), weights);
      const ForwardOptions options = {.backend = Backend::cuda_unverified,
                                      .product_dtype = at::kBFloat16};
      next_token_loss(decoder.forward(ids, options), ids.to(device)).backward();
      return weights.layers[0].wq.grad();
    };
    const at::Tensor expected = gradient(*model, at::kCPU);
    kernels_.asked = kernels_.passes = 0;
    const at::Tensor found = gradient(*on_device(model, the_device()), the_device());
    EXPECT_EQ(kernels_.asked, 0) << encoding;
    EXPECT_EQ(kernels_.passes, 2 * static_cast<int>(model->config().layers)) << encoding;
    expect_equal(found, expected);
  }
}

}  // namespace
}  // namespace phasescope::model
