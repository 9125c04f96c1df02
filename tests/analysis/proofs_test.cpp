// The constructed models against closed forms worked out by hand, and every claim about them.
#include "analysis/questions/proofs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "analysis/metrics/repeated.h"
#include "analysis/theory/tape_circuit.h"
#include "formats/error.h"
#include "model/checkpoints/constructed.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using Ids = std::vector<std::int64_t>;

std::shared_ptr<const model::Model> open(const std::string& name,
                                         at::ScalarType dtype = at::kDouble) {
  return model::open_model(name, {.dtype = dtype});
}

// (L, H, N, N) as the program computes them.
at::Tensor weights_in(const std::string& name, const Ids& ids) {
  TextPass pass(open(name), ids_tensor(ids));
  std::vector<at::Tensor> layers;
  pass.visit_layers([&](const AttentionPointer& attention) {
    layers.push_back(attention->weights(attention->whole())[0]);
  });
  return at::stack(layers);
}

Ids counted(std::int64_t tokens, std::int64_t from = 1) {
  Ids ids(static_cast<std::size_t>(tokens));
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

// float32 weights: a product of two is off by 2^-23 of the score, up to 40.
constexpr double kFloat32Weights = 1e-5;

TEST(Constructed, UniformHeadsShareEveryRow) {
  const at::Tensor weights = weights_in("proof-uniform", counted(20));
  for (std::int64_t i = 0; i < 20; ++i) {
    const at::Tensor row = weights.select(2, i).narrow(2, 0, i + 1);
    EXPECT_LE((row - 1.0 / static_cast<double>(i + 1)).abs().max().item<double>(), 1e-15);
  }
}

TEST(Constructed, SinkOfFiniteScoreLeavesAShare) {
  Ids ids = counted(30);
  ids[0] = 0;
  const at::Tensor weights = weights_in("proof-sink", ids)[0];
  for (std::int64_t i = 0; i < 30; ++i) {
    const double share = std::exp(4.0) / (std::exp(4.0) + static_cast<double>(i));
    EXPECT_NEAR(weights[0][i][0].item<double>(), share, kFloat32Weights);
    EXPECT_NEAR(weights[1][i][0].item<double>(), 1.0 / static_cast<double>(i + 1), 1e-15);
  }
}

TEST(Constructed, DistanceSevenHasTheSoftmaxOfItsScore) {
  const at::Tensor weights = weights_in("proof-distance7", counted(40))[0][0];
  for (std::int64_t i = 7; i < 40; ++i) {
    const double share = std::exp(6.0) / (std::exp(6.0) + static_cast<double>(i));
    EXPECT_NEAR(weights[i][i - 7].item<double>(), share, 1e-12);
  }
  EXPECT_NEAR(weights[6][0].item<double>(), 1.0 / 7, 1e-15);
}

TEST(Constructed, PreviousTokenIsReadAtAnyShiftOfThePositions) {
  const auto model = open("proof-previous");
  const Ids ids = counted(40);
  for (const std::int64_t shift : {0, 1000}) {
    model::ForwardOptions options;
    options.shift = shift;
    TextPass pass(model, ids_tensor(ids), options);
    const at::Tensor weights = testing::weights_of(pass, 0)[0];
    const at::Tensor off = (weights - constructed_weights("proof-previous", ids)[0][0]).abs();
    EXPECT_LE(off.max().item<double>(), 40 * kFloat32Weights) << shift;
    EXPECT_GT(weights[20][19].item<double>(), 0.2);
    EXPECT_EQ(weights[20].argmax().item<std::int64_t>(), 19);
  }
}

// On S distinct tokens twice the weight in row S + r is e^B / (e^B + S + r), in row S that of two
// predecessors: row 0 precedes itself.
TEST(Constructed, InductionHasItsClosedForm) {
  const std::int64_t period = 24;
  Ids ids = counted(period);
  ids.insert(ids.end(), ids.begin(), ids.begin() + period);
  const at::Tensor weights = weights_in("proof-induction", ids)[1][1];
  const double e = std::exp(12.0);
  for (std::int64_t r = 0; r < period; ++r) {
    const std::int64_t q = period + r;
    const double rows = static_cast<double>(q);
    const double share = r == 0 ? e / (2 * e + rows - 1) : e / (e + rows);
    EXPECT_NEAR(weights[q][q - period + 1].item<double>(), share, kFloat32Weights) << r;
  }
}

TEST(Constructed, CopySevenPredictsTextsOfPeriodEight) {
  Ids ids;
  for (std::int64_t n = 0; n < 96; ++n) ids.push_back(10 + (n % 8) * 7);
  TextPass pass(open("proof-copy7"), ids_tensor(ids));
  const at::Tensor next = pass.logits()[0].argmax(-1);
  for (std::int64_t n = 7; n < 95; ++n) {
    EXPECT_EQ(next[n].item<std::int64_t>(), ids[static_cast<std::size_t>(n) + 1]) << n;
  }
}

TEST(Constructed, FailsPastItsTrainedLengthAlone) {
  Ids ids;
  for (std::int64_t n = 0; n < 226; ++n) ids.push_back(10 + (n % 8) * 7);
  TextPass pass(open("proof-fails"), ids_tensor(ids));
  const at::Tensor losses = pass.losses()[0];
  const double before = losses.slice(0, 8, 112).mean().item<double>();
  // Its first far keys are few; many of them are as uniform as the near ones.
  const double after = losses.slice(0, 113, 115).mean().item<double>();
  EXPECT_GT(after, before + 1);
}

// The labels are those of the words' products to 4096 tokens, in both dtypes, and the logit of its
// last layer is +0.5 for the identity alone.
TEST(Constructed, TheCircuitSolvesTheWordProblem) {
  Random random(7);
  const Ids word = returning_word(random, 4096);  // tokens 0..9 and 10 for [bos]
  Ids ids;
  for (const std::int64_t token : word) ids.push_back(token == kCircuitBos ? 0 : '0' + token);
  const std::vector<bool> labels = circuit_labels(word);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    TextPass pass(open("tape.circuit", dtype), ids_tensor(ids));
    const at::Tensor said = pass.logits()[0].argmax(-1);
    std::int64_t wrong = 0;
    for (std::size_t n = 0; n < ids.size(); ++n) {
      wrong += said[static_cast<std::int64_t>(n)].item<std::int64_t>() != (labels[n] ? '1' : '0');
    }
    EXPECT_EQ(wrong, 0);
    const auto last = pass.layer(3);
    const at::Tensor scores = last->scores({{0, 1}, {1, 4096}, {0, 1}}).score.flatten();
    const at::Tensor reference = run_circuit(word, at::kDouble).logit.slice(0, 1);
    // A score of up to 20 is a product of float32 weights.
    EXPECT_LE((scores - reference).abs().max().item<double>(), 1e-5);
  }
}

class Claims : public ::testing::TestWithParam<std::string> {};

TEST_P(Claims, HoldInEveryForm) {
  const auto hold = [&](at::ScalarType dtype, model::Backend backend) {
    protocol::NoProgress progress;
    model::AllRan kernels;
    const auto model = model::open_model(GetParam(), {.dtype = dtype});
    const auto claims = prove(GetParam(), model, {dtype, backend, 3}, kernels, progress);
    EXPECT_GE(claims.size(), 30u);
    std::size_t exact = 0;
    for (const protocol::Claim& claim : claims) {
      // Closed forms of float32 weights hold to 1e-6 in float64, of what counts keys as a share.
      EXPECT_LE(claim.tolerance, dtype == at::kDouble ? 1e-6 * std::max(1.0, claim.value) : 0.03);
      EXPECT_TRUE(claim.holds) << claim.metric << " of L" << claim.layer << "H" << claim.head
                               << ": " << claim.measured << ", known " << claim.value;
      if (claim.tolerance <= 1e-12 * std::max(1.0, claim.value)) ++exact;
    }
    // Tables and zeros are exact in float32: of half the heads at least, but for the circuit's.
    if (dtype != at::kDouble) {
      EXPECT_EQ(exact, 0u);
    } else if (GetParam() != "tape.circuit") {
      EXPECT_GE(2 * exact, claims.size() - 2);
    }
  };
  hold(at::kDouble, model::Backend::plain);
  hold(at::kFloat, model::Backend::fused);
}

INSTANTIATE_TEST_SUITE_P(Constructed, Claims, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& e : model::constructed_models()) {
                             names.push_back(e.name);
                           }
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

// What is known of one model is not true of another.
TEST(Constructed, KnowledgeTellsModelsApart) {
  const Ids ids = counted(40);
  const at::Tensor found = weights_in("proof-distance7", ids);
  const at::Tensor other = constructed_weights("proof-duplicate", ids);
  EXPECT_GT((found - other).abs().max().item<double>(), 0.1);
  EXPECT_THROW(constructed_weights("proof-nothing", ids), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
