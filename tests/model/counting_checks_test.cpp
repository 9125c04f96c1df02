// Theorem checks, proofs and what else measures models on a second device over the host's memory
// (phantom_device.h), beside counting_analyses_test.cpp: every answer is the CPU's.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "analyses_there.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/proofs.h"
#include "analysis/questions/treated.h"
#include "analysis/theory/check.h"
#include "model/attention/exchanged_band.h"
#include "model/attention/moved_scores.h"
#include "model/checkpoints/constructed.h"

namespace phasescope::model {
namespace {

// ---- questions ----------------------------------------------------------------------------------

// Each encoding once, as it comes.
class EncodingsMeasuredThere : public AnalysesThere {};
INSTANTIATE_TEST_SUITE_P(Registry, EncodingsMeasuredThere, testing::ValuesIn(encodings_alone()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EncodingsMeasuredThere, AddressingOfContentIsTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_addressing(passes_of(model), {.content = true}, progress_);
  });
}

// What an exchange gives, in a struct that has a JSON form.
struct Losses {
  std::vector<double> losses;
  template <class V>
  void fields(V& v) {
    v("losses", losses);
  }
};

// The band's own weights beside what the kernel has summed, as texts of thousands of tokens run.
TEST_P(EncodingsMeasuredThere, ExchangedBandsAreTheSame) {
  const std::vector<std::int64_t> ids =
      analysis::random_texts(1, 40, model_->config().vocab_size, 7).items[0].ids;
  if (!exchanges_stay_fused(model_->decoder, 39)) return;
  for (const ExchangePlace place : {ExchangePlace{}, ExchangePlace{1, 2}}) {
    expect_same([&](const auto& model) {
      ExchangedBand hook(
          3, 12,
          [&](auto first, auto count) {
            return analysis::permuted_pairs({3, 12}, 1, 0, first, count, model->decoder.device());
          },
          place);
      return Losses{analysis::losses_under(*model, ids, &hook, {.backend = Backend::fused})};
    });
  }
}

// ---- theorem checks -----------------------------------------------------------------------------

TEST_P(EncodingsMeasuredThere, ChecksAreTheSame) {
  const analysis::Texts texts = analysis::random_texts(2, 24, model_->config().vocab_size, 5);
  for (const analysis::TheoryCheck& check : analysis::theory_checks()) {
    if (!check.reads_models()) continue;
    SCOPED_TRACE(check.info.id);
    const auto answer = [&](const std::shared_ptr<const Model>& model) {
      analysis::CheckContext context;
      context.model = model, context.texts = &texts, context.progress = &progress_;
      context.pairs = 50;
      return words(analysis::run_check_among_others(check, context));
    };
    std::string found;
    EXPECT_NO_THROW(found = answer(device_));
    EXPECT_EQ(found, answer(model_));
  }
}

// ---- proofs -------------------------------------------------------------------------------------

struct Claims {
  std::vector<protocol::Claim> claims;
  template <class V>
  void fields(V& v) {
    v("claims", claims);
  }
};

TEST(ProofsThere, ClaimsAreTheSame) {
  at::set_num_threads(1);
  for (const auto& entry : constructed_models()) {
    SCOPED_TRACE(entry.name);
    const auto model = open_model(entry.name, {.dtype = at::kFloat}), device = there(model);
    LayerWatch watch(*device);
    AllRan kernels;
    protocol::NoProgress progress;
    const auto proved = [&](const std::shared_ptr<const Model>& of) {
      return analysis::prove(entry.name, of, {.dtype = at::kFloat, .seed = 3}, kernels, progress);
    };
    const Claims real{proved(model)};
    watch.reset();
    EXPECT_EQ(words(Claims{proved(device)}), words(real));
    EXPECT_GT(watch.layers(), 0);
    EXPECT_EQ(watch.to_device(), 0) << "copies to the device within layers";
    EXPECT_EQ(watch.reads(), 0) << "values asked for within layers";
    const analysis::WrittenProof written{entry.name, 3, real.claims};
    EXPECT_EQ(words(Claims{analysis::prove_again(device, written, {.dtype = at::kFloat}, kernels,
                                                 progress)}),
              words(real));
  }
}

}  // namespace
}  // namespace phasescope::model
