// Every encoding and family runs on LibTorch's meta device, whose tensors have shapes and no
// numbers: whatever reads a value, or makes a tensor elsewhere than its operands are, fails here.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention_keeper.h"
#include "encoding_variants.h"
#include "golden.h"
#include "meta_device.h"
#include "model/attention/plain_attention.h"
#include "model/key_value_cache.h"
#include "model/loss.h"
#include "next_token_loss.h"
#include "tests/golden_folder.h"

namespace phasescope::model {
namespace {

// What a pass shows, where it is and of which shape.
void expect_same_shapes(const AttentionKeeper& meta, const AttentionKeeper& cpu) {
  ASSERT_EQ(meta.layers.size(), cpu.layers.size());
  for (std::size_t n = 0; n < meta.layers.size(); ++n) {
    const LayerAttention &ours = *meta.layers[n], &real = *cpu.layers[n];
    EXPECT_EQ(ours.ran().implementation, real.ran().implementation);
    EXPECT_TRUE(ours.lse().is_meta() && ours.entropy().is_meta());
    EXPECT_EQ(ours.lse().sizes(), real.lse().sizes());
    std::vector<at::Tensor> found;
    for_each_tensor(ours.program(), [&](const TensorInfo&, const at::Tensor& x) {
      if (!x.defined() || x.dim() == 0) return;
      EXPECT_TRUE(x.is_meta());
      found.push_back(x);
    });
    std::size_t next = 0;
    for_each_tensor(real.program(), [&](const TensorInfo& info, const at::Tensor& x) {
      if (!x.defined() || x.dim() == 0) return;
      ASSERT_LT(next, found.size()) << info.name;
      // How many knots of FIRE some pair reaches is a matter of values.
      if (real.program().fire() == nullptr) {
        EXPECT_EQ(found[next].sizes(), x.sizes()) << info.name;
      }
      ++next;
    });
  }
}

void expect_runs(const std::shared_ptr<const Model>& model, std::int64_t length, Backend backend) {
  const at::NoGradGuard no_grad;
  const auto meta = on_device(model, at::kMeta);
  const at::Tensor ids = random_ids(2, length, model->config().vocab_size);
  AttentionKeeper ours, real;
  const at::Tensor hidden = meta->decoder.hidden(ids, {.backend = backend}, &ours);
  const at::Tensor expected = model->decoder.hidden(ids, {.backend = backend}, &real);
  EXPECT_TRUE(hidden.is_meta());
  EXPECT_EQ(hidden.sizes(), expected.sizes());
  EXPECT_EQ(hidden.scalar_type(), expected.scalar_type());
  expect_same_shapes(ours, real);
  if (!model->config().head.present) return;
  EXPECT_EQ(meta->decoder.logits(hidden).sizes(), model->decoder.logits(expected).sizes());
  if (!model->config().attention.causal || model->config().head.pool != "none") return;
  EXPECT_TRUE(token_losses_of(meta->decoder, hidden, ids).is_meta());
}

// Read in pieces, as generation does it.
void expect_runs_in_pieces(const std::shared_ptr<const Model>& model) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> pieces = {9, 1, 4, 1};
  constexpr std::int64_t kLength = 15;
  if (!cache_obstacle(model->decoder, kLength).empty()) return;  // key_value_cache_test has a list
  const auto meta = on_device(model, at::kMeta);
  const at::Tensor ids = random_ids(2, kLength, model->config().vocab_size);
  KeyValueCache ours(meta->decoder, kLength), real(model->decoder, kLength);
  for (const std::int64_t size : pieces) {
    SCOPED_TRACE(std::to_string(size) + " tokens behind " + std::to_string(real.length()));
    const at::Tensor piece = ids.narrow(1, real.length(), size);
    AttentionKeeper there, here;
    const at::Tensor found = meta->decoder.hidden(piece, {.cache = &ours}, &there);
    const at::Tensor expected = model->decoder.hidden(piece, {.cache = &real}, &here);
    EXPECT_TRUE(found.is_meta());
    EXPECT_EQ(found.sizes(), expected.sizes());
    EXPECT_EQ(found.scalar_type(), expected.scalar_type());
    expect_same_shapes(there, here);
  }
}

class EncodingsOnMeta : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Registry, EncodingsOnMeta, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EncodingsOnMeta, RunWithoutNumbers) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  for (const Backend backend : {Backend::fused, Backend::plain}) expect_runs(model, 33, backend);
}

TEST_P(EncodingsOnMeta, RunInPiecesWithoutNumbers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    expect_runs_in_pieces(tiny_model(GetParam(), dtype));
  }
}

// A step of training: gradients where the weights are, of their shapes.
TEST_P(EncodingsOnMeta, TrainWithoutNumbers) {
  const auto meta = on_device(tiny_model(GetParam(), at::kFloat), at::kMeta);
  const NamedTensors weights =
      named_tensors(meta->config(), meta->encoding(), meta->decoder.weights());
  // FIRE's threshold lies with the host, which its decisions are made on: so does its gradient.
  std::optional<ZerosOfMeta> zeros;
  for (const auto& [name, tensor] : weights) {
    tensor.set_requires_grad(true);
    if (!tensor.is_meta() && !zeros) zeros.emplace();
  }
  const auto real = tiny_model(GetParam(), at::kFloat);
  const NamedTensors known =
      named_tensors(real->config(), real->encoding(), real->decoder.weights());
  ASSERT_EQ(known.size(), weights.size());
  for (const auto& [name, tensor] : known) tensor.set_requires_grad(true);
  const at::Tensor ids = random_ids(2, 17, meta->config().vocab_size);
  for (const auto& model : {real, meta}) {
    next_token_loss(model->decoder.forward(ids), ids).backward();
  }
  EXPECT_TRUE(meta->decoder.weights().embedding.grad().defined());
  for (std::size_t n = 0; n < weights.size(); ++n) {
    const auto& [name, tensor] = weights[n];
    EXPECT_EQ(tensor.grad().defined(), known[n].second.grad().defined()) << name;
    if (!tensor.grad().defined()) continue;
    EXPECT_EQ(tensor.grad().device(), tensor.device()) << name;
    EXPECT_EQ(tensor.grad().sizes(), tensor.sizes()) << name;
  }
}

TEST_P(EncodingsOnMeta, MeasureOnTheWay) {
  const at::NoGradGuard no_grad;
  const auto meta = on_device(tiny_model(GetParam(), at::kFloat), at::kMeta);
  ProbeRequest probes;
  probes.entropy = probes.max_score = probes.mean_distance = probes.first_key_weight = true;
  probes.windows = {4, 16};
  probes.bucket_edges = {0, 1, 4, 16, 64};
  AttentionKeeper keeper;
  keeper.probes = &probes;
  EXPECT_TRUE(
      meta->decoder.hidden(random_ids(1, 21, meta->config().vocab_size), {}, &keeper).is_meta());
  for (const auto& layer : keeper.layers) {
    const Range heads{0, layer->heads()}, rows{3, 9}, columns{0, 9};
    const ScoreParts parts = plain_score_parts(layer->program(), heads, rows, columns);
    EXPECT_TRUE(parts.score.is_meta() && parts.content.is_meta());
    EXPECT_EQ(parts.score.sizes().vec(), std::vector<std::int64_t>({1, layer->heads(), 6, 9}));
  }
}

// The tests' models of every family, those with experts among them.
TEST(FamiliesOnMeta, RunWithoutNumbers) {
  for_each_family_model([](const std::shared_ptr<const Model>& model, std::int64_t length) {
    expect_runs(model, length, Backend::fused);
  });
}

}  // namespace
}  // namespace phasescope::model
