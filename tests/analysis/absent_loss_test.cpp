// Models that have no loss of the next token: without a head, or seeing both ways. Everything else
// is measured on them all the same. Of weights that are no numbers, nothing is made up.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/ablate.h"
#include "analysis/compare.h"
#include "analysis/heads.h"
#include "analysis/reading.h"
#include "analysis/shift.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "golden_tape.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::ModelPointer;
using testing::Passes;
using testing::passes_for;
using testing::small_config;
using testing::small_model;
using testing::without_head;

ModelPointer both_ways(const std::string& encoding, std::uint64_t seed = 1) {
  model::ModelConfig config = small_config(encoding);
  config.attention.causal = false;
  return model::random_model(config, seed);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(AbsentLoss, HeadsWithoutAHeadOnTop) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  const auto whole = analyse_heads(passes_for(model), {}, progress);
  const auto bare = analyse_heads(passes_for(without_head(model)), {}, progress);
  ASSERT_EQ(bare.result.rows.size(), whole.result.rows.size());
  for (std::size_t n = 0; n < bare.result.rows.size(); ++n) {
    ASSERT_EQ(bare.result.rows[n].values.size(), whole.result.rows[n].values.size());
    for (const auto& [key, value] : whole.result.rows[n].values) {
      EXPECT_EQ(bare.result.rows[n].values.at(key).mean, value.mean) << key;
    }
  }
  const auto& loss = bare.result.model_values.at("induction_loss");
  EXPECT_TRUE(std::isnan(loss.mean) && !loss.known());
  EXPECT_EQ(loss.n, 0);
  EXPECT_TRUE(says(bare.result.provenance.note, "it has no head")) << bare.result.provenance.note;
  EXPECT_TRUE(whole.result.provenance.note.empty());
  EXPECT_TRUE(std::isfinite(whole.result.model_values.at("induction_loss").mean));
}

TEST(AbsentLoss, ShiftWithoutAHead) {
  const auto model = small_model("tape");
  protocol::NoProgress progress;
  const auto ids = random_texts(1, 20, 32, 8).items[0].ids;
  const auto whole = analyse_shift(model, ids, {}, progress);
  const auto bare = analyse_shift(without_head(model), ids, {}, progress);
  ASSERT_EQ(bare.rows.size(), whole.rows.size());
  for (std::size_t n = 0; n < bare.rows.size(); ++n) {
    EXPECT_EQ(bare.rows[n].attention_difference, whole.rows[n].attention_difference);
    EXPECT_EQ(bare.rows[n].position_difference, whole.rows[n].position_difference);
    EXPECT_TRUE(std::isnan(bare.rows[n].logits_difference));
    EXPECT_TRUE(std::isfinite(whole.rows[n].logits_difference));
  }
}

TEST(AbsentLoss, CompareWithoutAHead) {
  const auto a = small_model("rope"), b = small_model("alibi", 2);
  protocol::NoProgress progress;
  const auto whole = analyse_compare(passes_for(a), passes_for(b), progress);
  const auto bare = analyse_compare(passes_for(without_head(a)), passes_for(b), progress);
  ASSERT_EQ(bare.heads.size(), 4u);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(bare.heads[n].js_divergence, whole.heads[n].js_divergence);
  }
  EXPECT_TRUE(std::isnan(bare.loss.at("a")) && std::isnan(bare.loss.at("difference")));
  EXPECT_EQ(bare.loss.at("b"), whole.loss.at("b"));
  EXPECT_TRUE(says(bare.provenance.note, "it has no head")) << bare.provenance.note;
  EXPECT_TRUE(whole.provenance.note.empty());
}

// Nothing follows the only token of a text.
TEST(AbsentLoss, Row20_CompareOfOneToken) {
  protocol::NoProgress progress;
  const auto result = analyse_compare(passes_for(small_model("rope"), 1, 1),
                                      passes_for(small_model("alibi", 2), 1, 1), progress);
  EXPECT_EQ(result.heads.size(), 4u);
  EXPECT_TRUE(says(result.provenance.note, "the text has one token")) << result.provenance.note;
}

TEST(AbsentLoss, CompareOfTwoModelsThatSeeBothWays) {
  const Passes a = passes_for(both_ways("rope")), b = passes_for(both_ways("alibi", 2));
  protocol::NoProgress progress;
  const auto result = analyse_compare(a, b, progress);
  ASSERT_EQ(result.heads.size(), 4u);
  for (const protocol::HeadDivergence& head : result.heads) {
    double expected = 0;
    for (std::size_t t = 0; t < a.size(); ++t) {
      const auto map = [&](TextPass& pass) {
        const AttentionPointer attention = pass.layer(head.layer);
        return to_vector<double>(attention->weights(attention->whole())[0][head.head]);
      };
      const std::vector<double> x = map(*a[t]), y = map(*b[t]);
      for (std::size_t q = 0; q < 24; ++q) {
        EXPECT_GT(x[q * 24 + 23], 0);  // every query sees the last key
        expected +=
            js_divergence(std::span(x).subspan(q * 24, 24), std::span(y).subspan(q * 24, 24)) /
            (24 * 2);
      }
    }
    EXPECT_NEAR(head.js_divergence, expected, 1e-6);  // float32 weights
    EXPECT_GT(head.js_divergence, 1e-3);
  }
  EXPECT_TRUE(std::isnan(result.loss.at("a")) && std::isnan(result.loss.at("b")));
  EXPECT_TRUE(says(result.provenance.note, "it sees both ways")) << result.provenance.note;
}

TEST(AbsentLoss, RowsOverOtherKeysAreNotCompared) {
  protocol::NoProgress progress;
  const Passes causal = passes_for(small_model("rope")), open = passes_for(both_ways("rope"));
  for (const auto& [a, b] : {std::pair{&causal, &open}, {&open, &causal}}) {
    try {
      analyse_compare(*a, *b, progress);
      ADD_FAILURE() << "they were compared";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
      EXPECT_TRUE(says(error.message(), "different keys")) << error.message();
    }
  }
  // A window is a choice among the same keys.
  model::ModelConfig config = small_config("rope");
  config.attention.window = 4, config.attention.local_layers = {0, 1};
  const auto windowed = passes_for(model::random_model(config, 1));
  EXPECT_EQ(analyse_compare(causal, windowed, progress).heads.size(), 4u);
}

TEST(AbsentLoss, TextsAreReadWithoutLosses) {
  for (const auto& model : {without_head(small_model("rope")), both_ways("rope")}) {
    const Text text = random_texts(1, 12, 32, 4).items[0];
    TextPass pass(model, ids_tensor(text.ids));
    const auto result = analyse_text(pass, text, 3);
    ASSERT_EQ(result.tokens.size(), 12u);
    for (const protocol::TokenReading& token : result.tokens) {
      EXPECT_FALSE(token.loss.has_value());
      EXPECT_TRUE(token.guesses.empty());
    }
    EXPECT_TRUE(std::isnan(result.loss) && std::isnan(result.bits_per_byte));
    EXPECT_TRUE(says(result.provenance.note, "has no loss")) << result.provenance.note;
    EXPECT_THROW(pass.losses(), formats::Error);
    protocol::NoProgress progress;
    EXPECT_THROW(generate(*model, text, {.tokens = 2}, progress), formats::Error);
  }
}

// ---- tables of positions ------------------------------------------------------------------------

TEST(TablesOfPositions, ShiftMeasuresThemAndNamesWhatLiesPastThem) {
  const auto learned = small_model("learned");  // 64 positions
  protocol::NoProgress progress;
  ShiftOptions options;
  options.methods = {ShiftMethod::ids};
  options.dtypes = {"f64"};
  const auto ids = random_texts(1, 64, 32, 8).items[0].ids;
  EXPECT_EQ(tokens_that_shift(*learned, 64, options.by), 48);
  EXPECT_EQ(tokens_that_shift(*learned, 40, options.by), 40);
  EXPECT_EQ(tokens_that_shift(*learned, 64, {1000}), 64);  // no length helps
  EXPECT_EQ(tokens_that_shift(*small_model("rope"), 64, {1000}), 64);
  try {
    analyse_shift(learned, ids, options, progress);
    ADD_FAILURE() << "it was read";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_TRUE(says(error.message(), "position 79")) << error.message();
    EXPECT_TRUE(says(error.message(), "64 positions")) << error.message();
    EXPECT_TRUE(says(error.hint(), "48")) << error.hint();
  }
  const std::vector<std::int64_t> fitting(ids.begin(), ids.begin() + 48);
  for (const protocol::ShiftRow& row : analyse_shift(learned, fitting, options, progress).rows) {
    EXPECT_GT(row.attention_difference, 1) << row.by;  // not invariant
    EXPECT_GT(row.logits_difference, 1e-3) << row.by;
  }
  options.by = {1000};
  try {
    analyse_shift(learned, fitting, options, progress);
    ADD_FAILURE() << "it was read";
  } catch (const formats::Error& error) {
    EXPECT_TRUE(says(error.message(), "1047") || says(error.message(), "1000"));
    EXPECT_TRUE(says(error.message(), "64 positions")) << error.message();
  }
}

// The first layer gives values of which one is no number, and so is every logit.
ModelPointer with_a_nan(const std::string& encoding) {
  const auto whole = small_model(encoding);
  model::Weights weights = whole->decoder.weights();
  weights.layers[0].wv = weights.layers[0].wv.clone();
  weights.layers[0].wv[0][0] = std::nan("");
  return std::make_shared<const model::Model>(
      model::Model{whole->report, whole->tokenizer,
                   model::Decoder(whole->config(), whole->decoder.shared_encoding(), weights)});
}

TEST(AbsentLoss, LogitsThatAreNoNumbersGuessNothing) {
  const auto model = with_a_nan("rope");
  const Texts texts = random_texts(2, 24, 32, 3);
  protocol::NoProgress progress;
  TextPass pass(model, ids_tensor(texts.items[0].ids));
  const auto text = analyse_text(pass, texts.items[0], 3);
  ASSERT_EQ(text.tokens.size(), 24u);
  EXPECT_TRUE(std::isnan(*text.tokens[10].loss));
  EXPECT_TRUE(text.tokens[10].guesses.empty());
  const auto ablated = analyse_ablate(model, texts, {.heads = {"L1H0"}}, progress).result;
  EXPECT_TRUE(std::isnan(ablated.rows[0].loss_change.mean));
  EXPECT_TRUE(std::isnan(ablated.rows[0].guesses_changed.mean));
  for (const double temperature : {0.0, 0.7}) {
    try {
      generate(*model, texts.items[0], {.tokens = 2, .temperature = temperature}, progress);
      ADD_FAILURE() << "a token was written at temperature " << temperature;
    } catch (const formats::Error& error) {
      EXPECT_TRUE(says(error.what(), "not finite")) << error.what();
    }
  }
}

// A difference of numbers that are none is no verdict on a shift.
TEST(NotFinite, ShiftSaysSoAndGivesNoVerdict) {
  protocol::NoProgress progress;
  const auto ids = random_texts(1, 20, 32, 8).items[0].ids;
  try {
    analyse_shift(with_a_nan("rope"), ids, {}, progress);
    ADD_FAILURE() << "no error";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_TRUE(says(error.message(), "numbers that are not finite in f32")) << error.message();
  }
}

}  // namespace
}  // namespace phasescope::analysis
