// The analyses of a float64 model against float64 sums of our own over softmax(q.k / sqrt(d)).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/metrics/repeated.h"
#include "analysis/reading.h"
#include "analysis/tensors.h"
#include "golden_tape.h"

namespace phasescope::analysis {
namespace {

using testing::ModelPointer;
using testing::small_model;

// Some hundred float64 sums of numbers up to 45; float32 anywhere would leave 1e-7.
constexpr double kTolerance = 1e-10;

ModelPointer exact_model() { return model::in_dtype(small_model("rope"), at::kDouble); }

std::shared_ptr<TextPass> pass_of(const ModelPointer& model, const std::vector<std::int64_t>& ids) {
  return std::make_shared<TextPass>(model, ids_tensor(ids));
}

std::vector<std::int64_t> some_ids(std::int64_t length, std::uint64_t seed = 5) {
  return random_texts(1, length, 32, seed).items[0].ids;
}

// (H, N, N) of one layer; masked scores are -inf.
at::Tensor exact_scores(TextPass& pass, std::int64_t layer) {
  const AttentionPointer attention = pass.layer(layer);
  const at::Tensor q = attention->q_rotated()[0], k = attention->k_rotated()[0];
  const at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(8.0);
  const at::Tensor hidden = at::ones({q.size(1), q.size(1)}, at::kBool).triu(1);
  return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

at::Tensor exact_weights(TextPass& pass, std::int64_t layer) {
  return at::softmax(exact_scores(pass, layer), -1);
}

void expect_near(const HeadsOutput& out, const protocol::HeadRow& row, const std::string& key,
                 double expected) {
  EXPECT_NEAR(row.values.at(key).mean, expected, kTolerance * (1 + std::abs(expected)))
      << key << " L" << row.layer << 'H' << row.head << " of " << out.result.model;
}

TEST(Float64, HeadStatistics) {
  constexpr std::int64_t n = 45;
  const auto pass = pass_of(exact_model(), some_ids(n));
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"entropy",        "entropy_normalised", "sink",
                     "previous_token", "mean_distance",      "mean_distance_without_first",
                     "window_mass",    "top1_mass",          "effective_keys"};
  const auto out = analyse_heads({pass}, options, progress);
  ASSERT_EQ(out.result.rows.size(), 4u);
  for (const protocol::HeadRow& row : out.result.rows) {
    const auto map = to_vector<double>(exact_weights(*pass, row.layer)[row.head]);
    double entropy = 0, normalised = 0, sink = 0, previous = 0, distance = 0, largest = 0, keys = 0;
    double beyond = 0, beyond_weight = 0, window = 0;
    for (std::int64_t q = 0; q < n; ++q) {
      double of_row = 0, top = 0;
      for (std::int64_t k = 0; k <= q; ++k) {
        const double w = map[static_cast<std::size_t>(q * n + k)];
        of_row -= w * std::log(w);
        top = std::max(top, w);
        distance += w * static_cast<double>(q - k) / n;
        if (k > 0) beyond += w * static_cast<double>(q - k), beyond_weight += w;
        if (k > q - 16) window += w / n;
        if (k == 0) sink += w / n;
        if (k == q - 1) previous += w / (n - 1);
      }
      entropy += of_row / (n - 1);
      if (q > 0) normalised += of_row / std::log(static_cast<double>(q + 1)) / (n - 1);
      largest += top / n;
      keys += std::exp(of_row) / n;
    }
    expect_near(out, row, "entropy", entropy);
    expect_near(out, row, "entropy_normalised", normalised);
    expect_near(out, row, "sink", sink);
    expect_near(out, row, "previous_token", previous);
    expect_near(out, row, "mean_distance", distance);
    expect_near(out, row, "mean_distance_without_first", beyond / beyond_weight);
    expect_near(out, row, "window_mass_16", window);
    expect_near(out, row, "top1_mass", largest);
    expect_near(out, row, "effective_keys", keys);
  }
}

TEST(Float64, RepeatedTokensAndLosses) {
  const auto model = exact_model();
  protocol::NoProgress progress;
  HeadsOptions options;
  options.period = 10;
  options.metrics = {"duplicate_token", "induction", "induction_loss"};
  const auto out = analyse_heads({pass_of(model, some_ids(12))}, options, progress);
  const auto ids = repeated_tokens(10, {}, 32, 0);
  const auto pass = pass_of(model, ids);
  for (const protocol::HeadRow& row : out.result.rows) {
    const at::Tensor map = exact_weights(*pass, row.layer)[row.head];
    double duplicate = 0, induction = 0;
    for (std::int64_t q = 10; q < 20; ++q) {
      duplicate += map[q][q - 10].item<double>() / 10;
      induction += map[q][q - 9].item<double>() / 10;
    }
    expect_near(out, row, "duplicate_token", duplicate);
    expect_near(out, row, "induction", induction);
  }
  const at::Tensor shares = at::softmax(pass->logits()[0], -1);
  double loss = 0;
  for (std::size_t n = 10; n < 20; ++n) {
    loss -= std::log(shares[static_cast<std::int64_t>(n) - 1][ids[n]].item<double>()) / 10;
  }
  EXPECT_NEAR(out.result.model_values.at("induction_loss").mean, loss, kTolerance);
  const auto text = analyse_text(*pass, {.ids = ids}, 2);
  EXPECT_NEAR(text.tokens[7].guesses[0].probability, shares[6].max().item<double>(), kTolerance);
}

// One text by rows, several by the probes.
TEST(Float64, ProfilesByDistance) {
  const auto model = exact_model();
  for (const std::int64_t texts : {1, 3}) {
    std::vector<std::shared_ptr<TextPass>> passes;
    for (std::int64_t t = 0; t < texts; ++t) {
      passes.push_back(pass_of(model, some_ids(40, 7 + static_cast<std::uint64_t>(t))));
    }
    protocol::NoProgress progress;
    DistanceOptions options;
    options.per_head = true;
    options.histogram = false;
    const auto out = analyse_distance(passes, options, progress);
    for (const protocol::DistanceGroup& group : out.heads) {
      for (const protocol::DistancePoint& point : group.profile) {
        double score = 0, content = 0, weight = 0;
        const auto pairs = static_cast<double>(texts * (40 - point.distance));
        for (const auto& pass : passes) {
          const AttentionPointer attention = pass->layer(*group.layer);
          const at::Tensor unrotated =
              at::matmul(attention->q()[0], attention->k()[0].transpose(1, 2)) / std::sqrt(8.0);
          const auto mean = [&](const at::Tensor& x) {
            return x[*group.head].diagonal(-point.distance).sum().item<double>() / pairs;
          };
          score += mean(exact_scores(*pass, *group.layer));
          content += mean(unrotated);
          weight += mean(exact_weights(*pass, *group.layer));
        }
        const double size = 1 + std::abs(score) + std::abs(content);
        EXPECT_NEAR(point.score_mean, score, kTolerance * size) << point.distance;
        EXPECT_NEAR(point.content_mean, content, kTolerance * size) << point.distance;
        EXPECT_NEAR(point.weight_mean, weight, kTolerance) << point.distance;
      }
    }
  }
}

}  // namespace
}  // namespace phasescope::analysis
