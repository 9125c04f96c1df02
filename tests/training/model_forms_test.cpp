// What trainings of trees, images and long models ask of a model: positions in cross attention,
// pieces of images, a pooling head, a step of forms of attention, layers that run again, weights
// drawn by name.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/error.h"
#include "model/checkpoints/open_model.h"
#include "model/loss.h"
#include "model/recompute.h"

namespace phasescope::training {
namespace {

using model::ModelConfig;

ModelConfig small_model(const nlohmann::json& encoding) {
  ModelConfig config;
  config.vocab_size = 22, config.context = 32;
  config.layers = 2, config.width = 16, config.heads = config.kv_heads = 2, config.head_dim = 8;
  config.ffn_width = 24;
  config.encoding.options = encoding;
  config.encoding.key = encoding.at("key").get<std::string>();
  config.encoding.options.erase("key");
  return config;
}

at::Tensor some_ids(std::int64_t rows, std::int64_t columns, std::int64_t of) {
  return (at::arange(rows * columns, at::kLong) * 7 + 3).remainder(of).view({rows, columns});
}

// ---- Cross attention at places -------------------------------------------------------------------

class CrossKeeper final : public model::Observer {
 public:
  bool wants_cross_attention(std::int64_t layer) override { return layer == 0; }
  void on_cross_attention(const std::shared_ptr<const model::LayerAttention>& one) override {
    kept = one;
  }
  std::shared_ptr<const model::LayerAttention> kept;
};

// W = exp(A - A^T) of an encoding's generator, in float64.
at::Tensor orthogonal(const at::Tensor& generator) {
  const at::Tensor a = generator.to(at::kDouble);
  return at::linalg_matrix_exp(a - a.transpose(-1, -2));
}

ModelConfig encoder_decoder(const nlohmann::json& encoding) {
  ModelConfig config = small_model(encoding);
  config.encoder_layers = 1;
  config.attention.cross_positions = true;
  return config;
}

std::shared_ptr<const model::LayerAttention> cross_of(const model::Model& model,
                                                      const model::ForwardOptions& options) {
  const at::NoGradGuard no_gradients;
  CrossKeeper keeper;
  model.decoder.hidden(some_ids(1, 5, 22), options, &keeper);
  return keeper.kept;
}

// The definition with a product for every step: query n at the root's path of its node, key m at
// that of its own; decay for each step between both nodes.
TEST(CrossPositions, OfTreesAreTheDefinition) {
  const auto model =
      model::random_model(encoder_decoder({{"key", "ape_tree"}, {"decay", 0.9}}), 3, at::kDouble);
  const std::vector<std::int64_t> rows = {0, 1, 2, 3, 5, 11}, columns = {1, 3, 6, 7, 4};
  model::ForwardOptions options{.backend = model::Backend::plain};
  options.decoder_ids = some_ids(1, 6, 22);
  options.decoder_position_ids = at::tensor(rows);
  options.position_ids = at::tensor(columns);
  const auto cross = cross_of(*model, options);
  ASSERT_TRUE(cross);
  const at::Tensor w = orthogonal(model->decoder.weights().encoding.at("generator"));
  const auto path = [](std::int64_t node) {
    std::vector<std::int64_t> branches;
    for (; node > 1; node /= 2) branches.insert(branches.begin(), node % 2);
    return branches;
  };
  const auto matrix = [&](std::int64_t node) {
    at::Tensor m = at::eye(8, at::kDouble);
    for (const std::int64_t branch : path(node)) m = at::matmul(m, w[branch].transpose(0, 1));
    return m;
  };
  const auto steps = [&](std::int64_t a, std::int64_t b) {
    const auto from = path(a), to = path(b);
    std::size_t same = 0;
    while (same < from.size() && same < to.size() && from[same] == to[same]) ++same;
    return static_cast<double>(from.size() + to.size() - 2 * same);
  };
  const at::Tensor scores = cross->scores(cross->whole()).score;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    for (std::size_t m = 0; m < columns.size(); ++m) {
      for (std::int64_t head = 0; head < 2; ++head) {
        const at::Tensor q =
            at::matmul(matrix(rows[n]), cross->q()[0][head][static_cast<std::int64_t>(n)]);
        const at::Tensor k =
            at::matmul(matrix(columns[m]), cross->k()[0][head][static_cast<std::int64_t>(m)]);
        const double expected =
            q.dot(k).item<double>() / std::sqrt(8.0) * std::pow(0.9, steps(rows[n], columns[m]));
        // float64 of sums of 8 terms below 10.
        EXPECT_NEAR(scores[0][head][static_cast<std::int64_t>(n)][static_cast<std::int64_t>(m)]
                        .item<double>(),
                    expected, 1e-12);
      }
    }
  }
}

// Of rotations: the same for both texts moved alike, another for one alone, and none where no
// positions are asked for.
TEST(CrossPositions, OfRotationsGoByTheDifference) {
  ModelConfig config = encoder_decoder({{"key", "rope"}});
  const auto scores = [&](const ModelConfig& of, std::int64_t encoder, std::int64_t decoder) {
    const auto model = model::random_model(of, 3, at::kDouble);
    model::ForwardOptions options{.backend = model::Backend::plain};
    options.decoder_ids = some_ids(1, 4, 22);
    options.position_ids = at::arange(5, at::kLong) + encoder;
    options.decoder_position_ids = at::arange(4, at::kLong) + decoder;
    const auto cross = cross_of(*model, options);
    return cross->scores(cross->whole()).score.clone();
  };
  const at::Tensor placed = scores(config, 0, 0);
  // Angles up to 40 in float64.
  EXPECT_LT((scores(config, 9, 9) - placed).abs().max().item<double>(), 1e-11);
  EXPECT_GT((scores(config, 9, 0) - placed).abs().max().item<double>(), 1e-3);
  config.attention.cross_positions = false;
  const at::Tensor unplaced = scores(config, 0, 0);
  EXPECT_GT((unplaced - placed).abs().max().item<double>(), 1e-3);
  EXPECT_LT((scores(config, 9, 0) - unplaced).abs().max().item<double>(), 1e-11);
}

TEST(CrossPositions, AreRefusedWhereScoresAreOfOneText) {
  const auto model = model::random_model(encoder_decoder({{"key", "alibi"}}), 3);
  const at::NoGradGuard no_gradients;
  EXPECT_THROW(model->decoder.forward(some_ids(1, 5, 22)), formats::Error);
}

// ---- Images --------------------------------------------------------------------------------------

ModelConfig image_model(std::int64_t side, std::int64_t kernel, std::int64_t channels) {
  ModelConfig config = small_model({{"key", "ape_grid"}, {"columns", 3}});
  config.vocab_size = 5;
  config.attention.causal = false;
  config.patches = {side, kernel, channels};
  config.head.pool = "softmax";
  return config;
}

class EmbeddingKeeper final : public model::Observer {
 public:
  void on_hidden(std::int64_t index, const at::Tensor& hidden) override {
    if (index == 0) kept = hidden;
  }
  at::Tensor kept;
};

// An image of 9 x 9 pixels of 2 numbers, in pieces of 3 pixels a side: a linear map is a
// convolution whose kernel is the piece, and a 2 x 2 kernel with the largest of its four windows is
// a convolution with pooling, as torch has them.
TEST(Images, PiecesAreReadAsAConvolutionReadsThem) {
  for (const std::int64_t kernel : {3, 2}) {
    const auto model = model::random_model(image_model(3, kernel, 2), 5);
    const at::NoGradGuard no_gradients;
    const at::Tensor image = at::randn({2, 9, 9, 2});
    const at::Tensor pieces = image.unfold(1, 3, 3)
                                  .unfold(2, 3, 3)  // (2, 3, 3, channel, row, column)
                                  .permute({0, 1, 2, 4, 5, 3})
                                  .reshape({2, 9, 18});
    model::ForwardOptions options{.backend = model::Backend::plain};
    options.patches = pieces;
    options.grid_positions = at::stack(
        {at::arange(9, at::kLong).floor_divide(3), at::arange(9, at::kLong).remainder(3)}, 1);
    EmbeddingKeeper keeper;
    model->decoder.hidden(at::full({2, 9}, 4, at::kLong), options, &keeper);
    const model::Weights& w = model->decoder.weights();
    const at::Tensor filters = w.patches.view({16, 2, kernel, kernel});
    const at::Tensor bias = w.embedding[4];
    // One piece after the other: windows over a seam of two pieces are not read.
    const at::Tensor alone = pieces.view({18, 3, 3, 2}).permute({0, 3, 1, 2});
    at::Tensor expected = at::conv2d(alone, filters, bias);
    if (kernel < 3) expected = at::max_pool2d(at::relu(expected), {2, 2});
    // float32 sums of up to 18 products.
    EXPECT_LT((keeper.kept - expected.view({2, 9, 16})).abs().max().item<double>(), 1e-5) << kernel;
  }
}

TEST(Images, TheHeadPoolsByASoftmaxOfItsOwn) {
  auto model = model::random_model(image_model(3, 3, 2), 5);
  const at::NoGradGuard no_gradients;
  const at::Tensor hidden = at::randn({2, 9, 16});
  // It begins as the mean.
  EXPECT_LT((model->decoder.pooled(hidden) - hidden.mean(1, true)).abs().max().item<double>(),
            1e-6);
  model::Weights weights = model->decoder.weights();
  weights.pool = at::randn({1, 16});
  const model::Decoder decoder(model->config(), model->decoder.shared_encoding(), weights);
  const at::Tensor share = at::softmax(at::mv(hidden[1], weights.pool[0]), 0);
  EXPECT_LT((decoder.pooled(hidden)[1][0] - at::mv(hidden[1].transpose(0, 1), share))
                .abs()
                .max()
                .item<double>(),
            1e-5);
  // What is masked has no part in it.
  const at::Tensor mask = at::ones({2, 9}, at::kLong);
  mask.slice(1, 4).zero_();
  EXPECT_LT((decoder.pooled(hidden, mask) - decoder.pooled(hidden.slice(1, 0, 4)))
                .abs()
                .max()
                .item<double>(),
            1e-6);
}

TEST(Images, IdsAloneAreRefused) {
  const auto model = model::random_model(image_model(3, 3, 2), 5);
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options;
  EXPECT_THROW(model->decoder.forward(at::full({1, 9}, 4, at::kLong), options), formats::Error);
  options.patches = at::zeros({1, 9, 17});
  EXPECT_THROW(model->decoder.forward(at::full({1, 9}, 4, at::kLong), options), formats::Error);
}

// ---- A step of training ---------------------------------------------------------------------------

struct Form {
  std::string name;
  ModelConfig config;
};

// Sinks, gates of the output and a bias by token, beside rotations.
std::vector<Form> forms_of_attention() {
  std::vector<Form> forms = {{"sinks", small_model({{"key", "rope"}})},
                             {"gate", small_model({{"key", "rope"}})},
                             {"gate by head", small_model({{"key", "rope"}})},
                             {"bias by token", small_model({{"key", "fox"}})}};
  forms[0].config.attention.sink_layers = {0, 1};
  forms[1].config.attention.gate = forms[2].config.attention.gate = "sigmoid";
  forms[2].config.attention.gate_by_head = true;
  return forms;
}

struct TakenStep {
  double before = 0, after = 0;                 // losses in nats
  std::map<std::string, at::Tensor> gradients;  // in float64
};

// A step along the gradients, in the weights' own dtype.
TakenStep step_of(const model::Decoder& decoder, const at::Tensor& ids, model::Backend backend) {
  constexpr double kRate = 0.2;
  model::ForwardOptions options;
  options.backend = backend;
  const auto named = model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights());
  for (auto [name, tensor] : named) tensor.set_requires_grad(true);
  const at::Tensor loss = model::cross_entropy(decoder.forward(ids, options), ids);
  loss.backward();
  TakenStep step{.before = loss.item<double>()};
  const at::NoGradGuard no_gradients;
  for (auto [name, tensor] : named) {
    if (!tensor.grad().defined()) continue;
    step.gradients[name] = tensor.grad().to(at::kDouble);
    tensor.sub_(tensor.grad(), kRate);
  }
  step.after = model::cross_entropy(decoder.forward(ids, options), ids).item<double>();
  return step;
}

class RanKeeper final : public model::Observer {
 public:
  bool wants_attention(std::int64_t) override { return true; }
  void on_attention(const std::shared_ptr<const model::LayerAttention>& one) override {
    ran.push_back(one->ran().text());
  }
  std::vector<std::string> ran;
};

// By the fused kernels in float32, and by plain operations in float64 on the same weights.
TEST(TrainingSteps, OfTodaysFormsOfAttentionAreThoseInFloat64) {
  for (const Form& form : forms_of_attention()) {
    SCOPED_TRACE(form.name);
    const auto fused = model::random_model(form.config, 11),
               plain = model::random_model(form.config, 11, at::kDouble);
    const auto of = [](const model::Model& one) {
      return model::named_tensors(one.decoder.config(), one.decoder.encoding(),
                                  one.decoder.weights());
    };
    const auto from = of(*fused), to = of(*plain);
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t n = 0; n < from.size(); ++n) to[n].second.copy_(from[n].second);
    const at::Tensor ids = some_ids(2, 12, form.config.vocab_size);
    RanKeeper keeper;
    fused->decoder.hidden(ids, {}, &keeper);
    EXPECT_EQ(keeper.ran, std::vector<std::string>(2, model::fused_kernel_name()));
    const TakenStep found = step_of(fused->decoder, ids, model::Backend::fused),
                    wanted = step_of(plain->decoder, ids, model::Backend::plain);
    EXPECT_LT(found.after, found.before);
    // Float32 sums of some tens of terms, of losses near 3.
    EXPECT_NEAR(found.before, wanted.before, 1e-5);
    EXPECT_NEAR(found.after, wanted.after, 1e-5);
    ASSERT_EQ(found.gradients.size(), wanted.gradients.size());
    for (const auto& [name, gradient] : found.gradients) {
      const at::Tensor& right = wanted.gradients.at(name);
      EXPECT_GT(right.abs().max().item<double>(), 0) << name;
      // Sums over 24 tokens and two layers, which may nearly cancel.
      EXPECT_LE((gradient - right).abs().max().item<double>(),
                1e-4 * right.abs().max().item<double>() + 1e-7)
          << name;
    }
  }
}

// ---- Layers that run again -----------------------------------------------------------------------

std::map<std::string, at::Tensor> gradients_of(const ModelConfig& config, bool recompute,
                                               const model::Drops& drops) {
  const auto model = model::random_model(config, 11);
  const model::Decoder& decoder = model->decoder;
  const auto named = model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights());
  for (auto [name, tensor] : named) tensor.set_requires_grad(true);
  at::manual_seed(5);
  model::ForwardOptions options;
  options.recompute = recompute;
  options.draw = 9;
  options.drops = drops;
  const at::Tensor ids = some_ids(2, 12, config.vocab_size);
  model::cross_entropy(decoder.forward(ids, options), ids).backward();
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, tensor] : named) gradients[name] = tensor.grad();
  return gradients;
}

// The same operations on the same numbers. Where several layers read one tensor (one
// for all layers, the encoder's output), their gradients are added in another order.
TEST(Recompute, GradientsAreThoseOfAPassThatKeepsEverything) {
  std::vector<ModelConfig> configs;
  for (const nlohmann::json& encoding : {nlohmann::json{{"key", "rope"}},
                                         {{"key", "tape"}},
                                         {{"key", "t5"}},
                                         {{"key", "cope"}},
                                         {{"key", "ape_sequence"}},
                                         {{"key", "cape"}, {"base", "kerple_log"}},
                                         {{"key", "randomized_rope"}, {"draw", "layer"}}}) {
    configs.push_back(small_model(encoding));
  }
  configs.push_back(encoder_decoder({{"key", "ape_sequence"}, {"decay", 1.0}}));
  const model::Drops all{.embedding = 0.1, .branch = 0.2, .path = 0.4, .score = 0.1, .seed = 3};
  for (const ModelConfig& config : configs) {
    for (const model::Drops& drops : {model::Drops(), all}) {
      const auto kept = gradients_of(config, false, drops),
                 again = gradients_of(config, true, drops);
      ASSERT_EQ(kept.size(), again.size());
      for (const auto& [name, gradient] : kept) {
        ASSERT_EQ(gradient.defined(), again.at(name).defined()) << config.encoding.key << name;
        if (!gradient.defined()) continue;
        const bool read_once = config.encoder_layers == 0 && name.find("layers.") != name.npos;
        const double off = (gradient - again.at(name)).abs().max().item<double>();
        // float32 sums of a few layers' gradients, which may nearly cancel.
        EXPECT_LE(off, read_once ? 0 : 1e-4 * gradient.abs().max().item<double>() + 1e-8)
            << config.encoding.key << " " << name;
      }
    }
  }
}

// A function that counts how often it runs: once forwards, once for its gradients; what it reads
// beside its inputs gets gradients although none of these wants any.
TEST(Recompute, RunsAgainForGradientsAlone) {
  int runs = 0;
  const at::Tensor weight = at::full({3}, 2.0).set_requires_grad(true);
  const model::TensorFunction twice = [&](const std::vector<at::Tensor>& inputs) {
    ++runs;
    return std::vector<at::Tensor>{inputs[0] * weight + at::rand({3})};
  };
  const at::Tensor x = at::tensor({1.0f, 2.0f, 3.0f});
  const at::Tensor y = model::recomputed(twice, {x})[0];
  EXPECT_EQ(runs, 1);
  const at::Tensor drawn = y - x * 2;
  (y * y).sum().backward();
  EXPECT_EQ(runs, 2);
  // d/dw of (x w + r)^2 is 2 y x; float32.
  EXPECT_LT((weight.grad() - 2 * (x * 2 + drawn) * x).detach().abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace phasescope::training
