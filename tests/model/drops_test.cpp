// What a step of training leaves out at random: how much, where, and that it is the same whoever
// reads which part of the batch.
#include "model/drops.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "golden.h"
#include "model/attention/layer_attention.h"
#include "model/checkpoints/open_model.h"
#include "model/loss.h"
#include "tests/model/attention_keeper.h"

namespace phasescope::model {
namespace {

using Part = DropPlace::Part;

// Of n draws with probability p the count is within 4.5 deviations of n p: seeds are fixed, and a
// wrong p or draws that hang together are much farther off.
void expect_share(double count, double n, double p) {
  EXPECT_NEAR(count, n * p, 4.5 * std::sqrt(n * p * (1 - p))) << "of " << n;
}

double count_of(const at::Tensor& where) { return where.sum(at::kDouble).item<double>(); }

const DropPlace kPlace{.part = Part::mlp, .layer = 1};

TEST(Drops, AShareOfTheNumbersIsLeftOutAndTheRestIsLarger) {
  const at::Tensor x = at::ones({40, 30, 50}, at::kDouble);
  for (const double share : {0.1, 0.5}) {
    const at::Tensor y = without_numbers({.seed = 3}, kPlace, share, x);
    const at::Tensor out = y.eq(0);
    expect_share(count_of(out), 60'000, share);
    EXPECT_TRUE(y.masked_select(~out).eq(1 / (1 - share)).all().item<bool>());
    // In each sample, at each token and in each channel about as much.
    for (std::int64_t dim = 0; dim < 3; ++dim) {
      const at::Tensor counts = out.movedim(dim, 0).flatten(1).sum(1, false, at::kDouble);
      const double n = 60'000.0 / static_cast<double>(x.size(dim));
      for (std::int64_t i = 0; i < x.size(dim); ++i) {
        expect_share(counts[i].item<double>(), n, share);
      }
    }
  }
  EXPECT_TRUE(without_numbers({.seed = 3}, kPlace, 0, x).is_same(x));
}

TEST(Drops, GradientsAreThoseOfWhatIsLeft) {
  const at::Tensor x = at::rand({3, 5, 7}, at::kDouble).add(1).set_requires_grad(true);
  const at::Tensor incoming = at::rand({3, 5, 7}, at::kDouble);
  const at::Tensor y = without_numbers({.seed = 5}, kPlace, 0.25, x);
  y.backward(incoming);
  const at::Tensor expected =
      at::where(y.detach().eq(0), at::zeros_like(incoming), incoming / 0.75);
  EXPECT_TRUE(x.grad().equal(expected));
}

// Two masks of shares p agree in 1 - 2 p (1 - p) of their numbers.
TEST(Drops, EveryPlaceSeedAndSampleHasItsOwn) {
  const at::Tensor x = at::ones({60, 10, 20});
  const auto mask = [&](const Drops& drops, const DropPlace& place) {
    return without_numbers(drops, place, 0.5, x).eq(0);
  };
  const std::vector<at::Tensor> masks = {
      mask({.seed = 1}, {.part = Part::mlp, .layer = 1}),
      mask({.seed = 2}, {.part = Part::mlp, .layer = 1}),
      mask({.seed = 1}, {.part = Part::attention, .layer = 1}),
      mask({.seed = 1}, {.part = Part::cross, .layer = 1}),
      mask({.seed = 1}, {.part = Part::mlp, .layer = 2}),
      mask({.seed = 1}, {.part = Part::mlp, .layer = 1, .encoder = true}),
      mask({.seed = 1}, {.part = Part::mlp, .layer = 1}).roll(1, 0),
  };
  for (std::size_t a = 0; a < masks.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      expect_share(count_of(masks[a].eq(masks[b])), 12'000, 0.5);
    }
  }
}

// Rows of a part of the batch, and texts that are padded to another length.
TEST(Drops, ASampleHasTheSameWhereverItIsRead) {
  const at::Tensor x = at::rand({8, 6, 4});
  const Drops whole{.path = 0.3, .seed = 9};
  Drops part = whole;
  part.first_sample = 3;
  const at::Tensor of_part = x.slice(0, 3, 5).slice(1, 0, 4);
  EXPECT_TRUE(without_numbers(part, kPlace, 0.5, of_part)
                  .equal(without_numbers(whole, kPlace, 0.5, x).slice(0, 3, 5).slice(1, 0, 4)));
  EXPECT_TRUE(without_samples(part, kPlace, of_part)
                  .equal(without_samples(whole, kPlace, x).slice(0, 3, 5).slice(1, 0, 4)));
}

TEST(Drops, ScoresOfARegionAreThoseOfTheWhole) {
  const Drops whole{.score = 0.2, .seed = 4};
  Drops part = whole;
  part.first_sample = 1;
  const auto left = [](const Drops& drops, at::IntArrayRef sizes, const ScoreCorner& corner) {
    AttentionProgram program;
    program.edit = [](const at::Tensor& scores, const ScoreCorner&) { return scores + 1; };
    leave_scores_out(drops, kPlace, program);
    return program.edit(at::zeros(sizes), corner);
  };
  const at::Tensor all = left(whole, {6, 4, 30, 40}, {});
  expect_share(count_of(all.eq(kLeftOut)), 28'800, 0.2);
  EXPECT_EQ(count_of(all.eq(1)), 28'800 - count_of(all.eq(kLeftOut)));  // what was there before
  const at::Tensor region = left(part, {2, 2, 5, 9}, {.head = 2, .row = 7, .column = 20});
  EXPECT_TRUE(region.equal(all.slice(0, 1, 3).slice(1, 2, 4).slice(2, 7, 12).slice(3, 20, 29)));
}

// ---- In a model ----------------------------------------------------------------------------------

// What a forward pass has between its layers.
class StreamKeeper : public Observer {
 public:
  void on_hidden(std::int64_t, const at::Tensor& x) override { hidden.push_back(x); }
  Observer* encoder() override { return of_encoder.get(); }
  std::vector<at::Tensor> hidden;
  std::shared_ptr<StreamKeeper> of_encoder;
};

class DropsOfAModel : public testing::Test {
 protected:
  explicit DropsOfAModel(std::int64_t layers = 1) : config_(tiny_config("rope")) {
    config_.layers = layers;
  }
  void make() { model_ = random_model(config_, 3, at::kDouble); }

  std::shared_ptr<StreamKeeper> read(const Drops& drops,
                                     const std::function<void(Weights&)>& change = {}) const {
    const at::NoGradGuard no_gradients;
    Weights weights = model_->decoder.weights();
    if (change) change(weights);
    const Decoder decoder(config_, model_->decoder.shared_encoding(), weights);
    auto keeper = std::make_shared<StreamKeeper>();
    keeper->of_encoder = std::make_shared<StreamKeeper>();
    ForwardOptions options{.backend = Backend::plain};
    options.drops = drops;
    decoder.hidden(random_ids(samples_, 9, config_.vocab_size), options, keeper.get());
    return keeper;
  }

  ModelConfig config_;
  std::shared_ptr<const Model> model_;
  std::int64_t samples_ = 30;
};

// `thinned` is 0 for a share of its numbers and `whole` by 1 - share otherwise.
void expect_thinned(const at::Tensor& thinned, const at::Tensor& whole, double share) {
  // Differences of streams in float64 lose a few of its last places.
  const at::Tensor out = thinned.abs().lt(1e-13);
  expect_share(count_of(out), static_cast<double>(whole.numel()), share);
  const at::Tensor expected = at::where(out, at::zeros_like(whole), whole / (1 - share));
  EXPECT_LT((thinned - expected).abs().max().item<double>(), 1e-12);
}

// What the first layer reads, and what each branch adds where the others add nothing.
TEST_F(DropsOfAModel, EveryBranchOfBothStacksIsThinned) {
  config_.encoder_layers = 1;
  make();
  const Drops embedding{.embedding = 0.2, .seed = 6}, branch{.branch = 0.2, .seed = 6};
  const auto whole = read({}), first = read(embedding);
  expect_thinned(first->hidden[0], whole->hidden[0], 0.2);
  expect_thinned(first->of_encoder->hidden[0], whole->of_encoder->hidden[0], 0.2);
  const at::Tensor of_decoder = first->hidden[0].eq(0);
  expect_share(count_of(of_decoder.eq(first->of_encoder->hidden[0].eq(0))),
               static_cast<double>(of_decoder.numel()), 0.68);  // 0.2 0.2 + 0.8 0.8
  using Matrix = at::Tensor LayerWeights::*;
  const std::vector<Matrix> outputs = {&LayerWeights::wo, &LayerWeights::cross_wo,
                                       &LayerWeights::down};
  for (const Matrix left : outputs) {
    const auto alone = [&](Weights& w) {
      for (LayerWeights* layer : {&w.layers[0], &w.encoder.layers[0]}) {
        for (const Matrix other : outputs) {
          at::Tensor& matrix = layer->*other;
          if (other != left && matrix.defined()) matrix = at::zeros_like(matrix);
        }
      }
    };
    const auto added = [&](const Drops& drops) {
      const auto kept = read(drops, alone);
      return std::vector<at::Tensor>{kept->hidden[1] - kept->hidden[0],
                                     kept->of_encoder->hidden[1] - kept->of_encoder->hidden[0]};
    };
    const auto wanted = added({}), thinned = added(branch);
    expect_thinned(thinned[0], wanted[0], 0.2);
    if (left != &LayerWeights::cross_wo) expect_thinned(thinned[1], wanted[1], 0.2);
  }
}

class DropPath : public DropsOfAModel {
 protected:
  DropPath() : DropsOfAModel(3) { samples_ = 200; }
};

// In each sample layer n adds both branches, one of them or none, as they are: wherever norms
// stand, a branch that is skipped is one whose matrix is 0.
TEST_F(DropPath, WholeBranchesOfASampleAreSkippedAndTheOthersAsTheyAre) {
  const Drops drops{.path = 0.3, .seed = 8};
  for (const std::string form : {"pre", "post", "sandwich", "parallel"}) {
    config_.norm.placement = form == "parallel" ? "pre" : form;
    config_.residual = form == "parallel" ? "parallel" : "sequential";
    make();
    const auto kept = read(drops), whole = read({});
    EXPECT_TRUE(kept->hidden[1].equal(whole->hidden[1])) << form;  // layer 0 skips nothing
    for (const std::size_t layer : {1u, 2u}) {
      const auto without = [&](bool attention, bool mlp) {
        return read(drops,
                    [&](Weights& w) {
                      LayerWeights& own = w.layers[layer];
                      if (attention) own.wo = at::zeros_like(own.wo);
                      if (mlp) own.down = at::zeros_like(own.down);
                    })
            ->hidden[layer + 1];
      };
      const at::Tensor no_attention = without(true, false), no_mlp = without(false, true),
                       neither = without(true, true);
      double skipped_attention = 0, skipped_mlp = 0;
      for (std::int64_t n = 0; n < samples_; ++n) {
        const at::Tensor own = kept->hidden[layer + 1][n];
        const bool first = own.equal(no_attention[n]), second = own.equal(no_mlp[n]);
        skipped_attention += first, skipped_mlp += second;
        EXPECT_EQ(own.equal(neither[n]), first && second) << form << n;
      }
      const double share = 0.3 * static_cast<double>(layer);
      expect_share(skipped_attention, 200, share);
      expect_share(skipped_mlp, 200, share);
    }
    // What layer 1 adds where it skips nothing is what it adds without drops.
    double whole_samples = 0;
    for (std::int64_t n = 0; n < samples_; ++n) {
      whole_samples += kept->hidden[2][n].equal(whole->hidden[2][n]) ? 1 : 0;
    }
    expect_share(whole_samples, 200, 0.7 * 0.7);
  }
}

// Scores that are left out have no weight, and the weights of the others sum to 1.
TEST_F(DropsOfAModel, KeysWhoseScoresAreLeftOutHaveNoWeight) {
  config_.attention.causal = false;
  config_.encoding = {"alibi", Json::object()};
  make();
  const at::NoGradGuard no_gradients;
  Weights weights = model_->decoder.weights();
  weights.layers[0].down = at::zeros_like(weights.layers[0].down);
  const Decoder decoder(config_, model_->decoder.shared_encoding(), weights);
  ForwardOptions options;  // the fused kernel where it can
  options.drops = {.score = 0.25, .seed = 2};
  class Keeper final : public AttentionKeeper {
   public:
    void on_hidden(std::int64_t, const at::Tensor& x) override { hidden.push_back(x); }
    std::vector<at::Tensor> hidden;
  } keeper;
  decoder.hidden(random_ids(samples_, 9, config_.vocab_size), options, &keeper);
  const auto& layer = keeper.layers.at(0);
  const at::Tensor scores = layer->scores(layer->whole()).score;  // (B, H, N, N)
  const at::Tensor out = scores.eq(kLeftOut);
  expect_share(count_of(out), 30 * 3 * 9 * 9, 0.25);
  const at::Tensor weight = at::softmax(scores.to(at::kDouble), -1);
  EXPECT_EQ(weight.masked_select(out & ~out.all(-1, true)).max().item<double>(), 0);
  const at::Tensor read = at::matmul(weight, layer->v()).transpose(1, 2).flatten(2);
  const at::Tensor given = at::linear(read, weights.layers[0].wo);
  EXPECT_LT((keeper.hidden[1] - keeper.hidden[0] - given).abs().max().item<double>(), 1e-10);
}

// ---- Smoothed labels -----------------------------------------------------------------------------

// -(1 - s) ln p_t - s / V sum of ln p_v, over targets that count; float64.
TEST(LabelSmoothing, IsTheDefinition) {
  const at::Tensor logits = at::randn({3, 5, 7}, at::kDouble);
  at::Tensor targets = random_ids(3, 5, 7);
  targets[0][2] = -1;
  for (const double smoothing : {0.0, 0.1, 0.7}) {
    double sum = 0;
    for (std::int64_t b = 0; b < 3; ++b) {
      for (std::int64_t n = 0; n < 5; ++n) {
        const auto target = targets[b][n].item<std::int64_t>();
        if (target < 0) continue;
        double total = 0, all = 0;
        const auto at = [&](std::int64_t v) { return logits[b][n][v].item<double>(); };
        for (std::int64_t v = 0; v < 7; ++v) total += std::exp(at(v));
        for (std::int64_t v = 0; v < 7; ++v) all += at(v) - std::log(total);
        sum -= (1 - smoothing) * (at(target) - std::log(total)) + smoothing / 7 * all;
      }
    }
    EXPECT_NEAR(cross_entropy(logits, targets, smoothing).item<double>(), sum / 14, 1e-12);
    // Of the counted ones alone, by LibTorch's own loss without anything to pass over.
    const at::Tensor counted = targets.flatten().ge(0);
    const at::Tensor own = at::cross_entropy_loss(logits.flatten(0, 1).index({counted}),
                                                  targets.flatten().index({counted}), {},
                                                  at::Reduction::Mean, -100, smoothing);
    EXPECT_NEAR(cross_entropy(logits, targets, smoothing).item<double>(), own.item<double>(),
                1e-12);
  }
}

}  // namespace
}  // namespace phasescope::model
