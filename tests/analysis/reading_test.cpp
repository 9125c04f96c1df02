// Losses, guesses and continuations of a text against the model's own logits.
#include "analysis/reading.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "formats/error.h"
#include "golden_tape.h"
#include "tests/model/attention_keeper.h"

namespace phasescope::analysis {
namespace {

using testing::small_config;
using testing::small_model;

TEST(Reading, LossesAndGuesses) {
  const auto model = small_model("rope");
  const Text text = random_texts(1, 25, 32, 4).items[0];
  TextPass pass(model, ids_tensor(text.ids));
  const auto result = analyse_text(pass, text, 3);
  ASSERT_EQ(result.tokens.size(), 25u);
  EXPECT_FALSE(result.tokens[0].loss.has_value());
  const at::Tensor shares = at::softmax(pass.logits()[0].to(at::kDouble), -1);
  const double expected = -std::log(shares[9][text.ids[10]].item<double>());
  EXPECT_NEAR(*result.tokens[10].loss, expected, 1e-4);
  ASSERT_EQ(result.tokens[10].guesses.size(), 3u);
  EXPECT_EQ(result.tokens[10].guesses[0].id, shares[9].argmax().item<std::int64_t>());
  EXPECT_GE(result.tokens[10].guesses[0].probability, result.tokens[10].guesses[1].probability);
  EXPECT_TRUE(std::isnan(result.bits_per_byte));  // ids have no bytes
}

TEST(Reading, GenerateIsRepeatable) {
  const auto model = small_model("rope");
  const Text prompt = random_texts(1, 5, 32, 4).items[0];
  protocol::NoProgress progress;
  GenerateOptions options;
  options.tokens = 6;
  const auto greedy = generate(*model, prompt, options, progress);
  ASSERT_EQ(greedy.ids.size(), 6u);
  TextPass pass(model, ids_tensor(prompt.ids));
  EXPECT_EQ(greedy.ids[0], pass.logits()[0][4].argmax().item<std::int64_t>());
  options.temperature = 1.5;
  options.seed = 7;
  const auto sampled = generate(*model, prompt, options, progress);
  EXPECT_EQ(sampled.ids, generate(*model, prompt, options, progress).ids);
  options.seed = 8;
  EXPECT_NE(sampled.ids, generate(*model, prompt, options, progress).ids);
}

// What the model writes where each token is the likeliest after the text before it, of which the
// last `kept` begin anew each time that it has more than `context` tokens.
std::vector<std::int64_t> written_by_hand(const model::Model& model, std::vector<std::int64_t> text,
                                          std::int64_t tokens, std::size_t context,
                                          std::size_t kept) {
  const at::NoGradGuard no_gradients;
  std::vector<std::int64_t> written;
  for (std::int64_t n = 0; n < tokens; ++n) {
    if (text.size() > context) {
      text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(kept));
    }
    const at::Tensor logits = model.decoder.forward(ids_tensor(text))[0][-1];
    written.push_back(logits.argmax().item<std::int64_t>());
    text.push_back(written.back());
  }
  return written;
}

// With a cache, by whole passes, and past the context, where in both the last tokens begin anew.
TEST(Reading, TheCacheChangesNoToken) {
  auto config = small_config("rope");
  config.context = 16;
  const auto model = model::random_model(config, 3);
  const Text prompt = random_texts(1, 9, 32, 4).items[0];
  protocol::NoProgress progress;
  GenerateOptions options;
  options.tokens = 20;
  const auto kept = generate(*model, prompt, options, progress);
  // For the eighth token the context, of 16 tokens, is full; the ninth, for which there are 17, is
  // written after the last 12, and five tokens later there are 17 again.
  EXPECT_TRUE(kept.cache.starts_with("yes; 3 times the trained context of 16 tokens was full"))
      << kept.cache;
  EXPECT_EQ(kept.begun_at, (std::vector<std::int64_t>{8, 13, 18}));
  EXPECT_EQ(kept.ids, written_by_hand(*model, prompt.ids, options.tokens, 16, 12));
  EXPECT_EQ(kept.cached, 20);
  EXPECT_EQ(kept.seconds.size(), 20u);
  options.whole = true;
  const auto whole = generate(*model, prompt, options, progress);
  EXPECT_EQ(whole.ids, kept.ids);
  EXPECT_TRUE(whole.cache.starts_with("no: whole passes were asked for; 3 times")) << whole.cache;
  EXPECT_EQ(whole.begun_at, kept.begun_at);
  EXPECT_EQ(whole.cached, 0);
  options.extend = true;
  const auto far = generate(*model, prompt, options, progress);
  options.whole = false;
  const auto far_kept = generate(*model, prompt, options, progress);
  EXPECT_EQ(far_kept.ids, far.ids);
  EXPECT_EQ(far_kept.cache, "yes");
  EXPECT_TRUE(far_kept.begun_at.empty());
  // Each token is what the whole text before it leads to.
  EXPECT_EQ(far_kept.ids, written_by_hand(*model, prompt.ids, options.tokens, 99, 0));
}

// Of a prompt of more tokens than the context the last that fit are read.
TEST(Reading, ALongPromptFillsTheContext) {
  for (const std::int64_t context : {1, 2, 5}) {
    SCOPED_TRACE(context);
    auto config = small_config("alibi");
    config.context = context;
    const auto model = model::random_model(config, 3);
    const Text prompt = random_texts(1, 9, 32, 4).items[0];
    protocol::NoProgress progress;
    const auto written = generate(*model, prompt, {.tokens = 6}, progress);
    const std::vector<std::int64_t> fits(prompt.ids.end() - context, prompt.ids.end());
    const auto most = static_cast<std::size_t>(context);
    const std::size_t kept = most == 1 ? 1 : most - 1;
    EXPECT_EQ(written.ids, written_by_hand(*model, fits, 6, most, kept));
    EXPECT_EQ(written.begun_at.front(), 1);
  }
}

// Keeps what it is told.
class ToldProgress final : public protocol::Progress {
 public:
  void progress(double, std::string_view text) override { told.emplace_back(text); }
  bool cancelled() const override { return false; }
  std::vector<std::string> told;
};

// The rows of the map of the whole text, with keys and values kept and without, and told as they
// come.
TEST(Reading, SaysWhereAHeadLooksAsItWrites) {
  for (const char* encoding : {"rope", "alibi", "tape", "fire"}) {
    SCOPED_TRACE(encoding);
    const auto model = small_model(encoding);
    const Text prompt = random_texts(1, 7, 32, 4).items[0];
    GenerateOptions options;
    options.tokens = 4, options.top = 64;
    options.head = HeadName{.layer = 1, .head = 1};
    ToldProgress progress;
    const auto kept = generate(*model, prompt, options, progress);
    EXPECT_EQ(kept.cache, "yes");
    ASSERT_EQ(kept.tokens.size(), 4u);
    options.whole = true;
    protocol::NoProgress quiet;
    EXPECT_EQ(generate(*model, prompt, options, quiet).ids, kept.ids);
    std::vector<std::int64_t> text = prompt.ids;
    for (const protocol::WrittenToken& token : kept.tokens) {
      const auto length = static_cast<std::int64_t>(text.size());
      model::AttentionKeeper keeper;
      const at::NoGradGuard no_gradients;
      model->decoder.forward(ids_tensor(text), {.backend = model::Backend::plain}, &keeper);
      const at::Tensor row =
          keeper.layers.at(1)->weights({{1, 2}, {length - 1, length}, {0, length}})[0][0][0];
      ASSERT_EQ(token.keys.size(), text.size());
      double sum = 0;
      for (std::size_t n = 0; n < token.keys.size(); ++n) {
        // Of two models of rounding in float32, through two layers.
        EXPECT_NEAR(token.weights[n], row[token.keys[n]].item<double>(), 1e-4);
        EXPECT_TRUE(n == 0 || token.weights[n] <= token.weights[n - 1]);
        EXPECT_EQ(token.words[n],
                  "<" + std::to_string(text[static_cast<std::size_t>(token.keys[n])]) + ">");
        sum += token.weights[n];
      }
      EXPECT_NEAR(sum, 1, 1e-5);
      text.push_back(token.id);
    }
    ASSERT_EQ(progress.told.size(), 4u);
    EXPECT_EQ(progress.told[1].find("writing \"" + kept.tokens[0].text + "\" <- \"" +
                                    kept.tokens[0].words[0] + "\" 0."),
              0u)
        << progress.told[1];
  }
}

// 9 tokens are there, and the last one written is not read: 8 more take the 16 rows, 9 do not.
TEST(Reading, NothingIsWrittenThatATableOfPositionsEndsBefore) {
  auto config = small_config("learned");
  config.context = 16;
  const auto model = model::random_model(config, 3);
  const Text prompt = random_texts(1, 9, 32, 4).items[0];
  ToldProgress progress;
  GenerateOptions options;
  options.extend = true, options.tokens = 8;
  EXPECT_EQ(generate(*model, prompt, options, progress).ids.size(), 8u);
  progress.told.clear();
  options.tokens = 9;
  try {
    generate(*model, prompt, options, progress);
    ADD_FAILURE() << "nothing was refused";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_NE(error.message().find("a table of 16 positions"), std::string::npos)
        << error.message();
    EXPECT_TRUE(error.hint().starts_with("give 8 at most")) << error.hint();
  }
  EXPECT_TRUE(progress.told.empty());
  options.extend = false;  // the last 16 are read
  EXPECT_EQ(generate(*model, prompt, options, progress).ids.size(), 9u);
}

TEST(Reading, RefusesAHeadThatIsNotThere) {
  const auto model = small_model("rope");
  const Text prompt = random_texts(1, 5, 32, 4).items[0];
  protocol::NoProgress progress;
  for (const HeadName& head : {HeadName{.layer = 99}, HeadName{.layer = 0, .head = 99},
                               HeadName{.layer = 0, .head = 0, .stack = "enc"}}) {
    EXPECT_THROW(generate(*model, prompt, {.tokens = 1, .head = head}, progress), formats::Error);
  }
  EXPECT_TRUE(generate(*model, prompt, {.tokens = 1}, progress).tokens.empty());
}

TEST(Reading, SaysWhyThereIsNoCache) {
  auto config = small_config("randomized_rope");
  config.encoding.options["draw"] = "model";
  const Text prompt = random_texts(1, 5, 32, 4).items[0];
  protocol::NoProgress progress;
  GenerateOptions options;
  options.tokens = 2;
  const auto written = generate(*model::random_model(config, 3), prompt, options, progress);
  EXPECT_EQ(written.ids.size(), 2u);
  EXPECT_EQ(written.cache,
            "no: randomized_rope: positions are drawn anew for every length of the text");
}

// Its encoder reads the text, its decoder writes; of the text itself, row i speaks of token i.
TEST(Reading, AnEncoderDecoderWritesFromItsStartToken) {
  auto config = small_config("t5");
  config.encoder_layers = 2, config.decoder_start = 7;
  const auto model = model::random_model(config, 3);
  const Text prompt = random_texts(1, 9, 32, 4).items[0];
  const at::Tensor ids = ids_tensor(prompt.ids);
  protocol::NoProgress progress;
  GenerateOptions options;
  options.tokens = 3;
  const auto written = generate(*model, prompt, options, progress);
  std::vector<std::int64_t> decoder{7};
  const at::NoGradGuard no_gradients;
  ASSERT_EQ(std::ssize(written.ids), options.tokens);
  for (const std::int64_t id : written.ids) {
    model::ForwardOptions forward;
    forward.decoder_ids = ids_tensor(decoder);
    EXPECT_EQ(id, model->decoder.forward(ids, forward)[0][-1].argmax().item<std::int64_t>());
    decoder.push_back(id);
  }
  TextPass pass(model, ids);
  const auto read = analyse_text(pass, prompt, 1);
  for (std::size_t n = 1; n < 9; ++n) {
    EXPECT_EQ(read.tokens[n].guesses.at(0).id,
              pass.logits()[0][static_cast<std::int64_t>(n)].argmax().item<std::int64_t>());
  }
}

TEST(Reading, BrokenBytesBecomeText) {
  EXPECT_EQ(as_utf8("a\xFF"
                    "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(as_utf8("\xC3\xA9"), "\xC3\xA9");
}

}  // namespace
}  // namespace phasescope::analysis
