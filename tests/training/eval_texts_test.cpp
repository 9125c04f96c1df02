// Which texts an extrapolation task reads at which length.
#include "training/evals/eval_texts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/error.h"
#include "model/checkpoints/open_model.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

class TextsOfAnEval : public testing::Test {
 protected:
  TextsOfAnEval() {
    entry_ = {"bytes", model::random_model(model_config_of(small_run(folder_.path(), 1)), 1)};
  }

  // A collection of texts of so many bytes.
  EvalSource collection(const std::vector<std::size_t>& sizes) {
    const auto path = folder_.path() / "texts.jsonl";
    std::ofstream file(path);
    for (const std::size_t size : sizes) {
      file << nlohmann::json{{"name", std::to_string(size)}, {"text", std::string(size, 'x')}}
           << "\n";
    }
    return {.corpus = path.string()};
  }

  TemporaryFolder folder_;
  EvalModel entry_;
};

std::vector<std::size_t> sizes_of(const EvalTexts& texts) {
  std::vector<std::size_t> sizes;
  for (const EvalText& text : texts.items) sizes.push_back(text.ids.size());
  return sizes;
}

TEST_F(TextsOfAnEval, AShortTextIsLeftOutOfTheLengthsConcernedAlone) {  // 17.A8
  const EvalTexts texts = eval_texts(entry_, collection({10, 40, 5, 30}), {10, 30});
  EXPECT_EQ(sizes_of(texts), (std::vector<std::size_t>{10, 40, 30}));
  EXPECT_EQ(texts.lengths, (std::vector<std::int64_t>{10, 30}));
  EXPECT_NE(texts.note.find("3 of 4 texts have the 10 tokens"), std::string::npos) << texts.note;
  EXPECT_NE(texts.note.find("2 of 4 texts have the 30 tokens"), std::string::npos) << texts.note;
}

TEST_F(TextsOfAnEval, AreTheSameAtEveryLengthWhereEnoughReachTheLongest) {  // 17.A8
  EvalSource source = collection({10, 40, 12, 30, 35});
  source.texts = 2;
  EXPECT_EQ(sizes_of(eval_texts(entry_, source, {10, 30})), (std::vector<std::size_t>{40, 30}));
}

TEST_F(TextsOfAnEval, HaveAnIntervalOfTheirOwnAtEachLength) {  // 17.A8
  const auto path = collection({80, 90, 20, 25, 100}).corpus.get<std::string>();
  protocol::EvalRequest request;
  request.perplexity.corpus = {.asked = true, .path = path};
  request.perplexity.lengths = {16, 64};
  protocol::NoProgress progress;
  NoEvalLog log;
  const protocol::EvalResult result = eval_task("perplexity").run({entry_}, request, progress, log);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].n, 5);
  EXPECT_EQ(result.rows[1].n, 3);
}

TEST_F(TextsOfAnEval, ALengthThatNoneReachesIsLeftOutAlone) {  // 17.A8
  const EvalTexts texts = eval_texts(entry_, collection({10, 40, 20}), {10, 20, 64, 128});
  EXPECT_EQ(texts.lengths, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(sizes_of(texts), (std::vector<std::size_t>{10, 40, 20}));
  EXPECT_NE(texts.note.find("left out is a length of 64 and 128: the longest text has 40 tokens"),
            std::string::npos)
      << texts.note;
  EXPECT_THROW(eval_texts(entry_, collection({10, 40}), {64}), formats::Error);
}

// By the tokenizer alone, before there is a model: refused is what a reading refuses.
TEST_F(TextsOfAnEval, AreCheckedBeforeTheModelIsThere) {
  const auto same = [](const EvalModel& entry, const EvalSource& source, std::int64_t length) {
    const auto told = [](auto&& work) -> std::string {
      try {
        work();
      } catch (const formats::Error& error) {
        return error.full_text();
      }
      return "";
    };
    const std::vector<std::int64_t> lengths = {length, 2 * length};
    const std::string read = told([&] { eval_texts(entry, source, lengths); });
    const formats::Tokenizer* tokenizer = entry.model->tokenizer.get();
    EXPECT_EQ(told([&] { check_eval_texts(entry.name, tokenizer, source, lengths); }), read);
    return read;
  };
  EXPECT_EQ(same(entry_, collection({10, 40, 20}), 40), "");
  EXPECT_NE(same(entry_, collection({10, 40, 20}), 41), "");
  EvalSource given;
  given.given = {"mine", "twenty bytes of text"};
  EXPECT_EQ(same(entry_, given, 20), "");
  EXPECT_NE(same(entry_, given, 21), "");
  EXPECT_EQ(same(entry_, {}, 4096), "");
  EXPECT_NE(same(entry_, {}, 1 << 20), "");  // the bundled ones have 39 kB at most
  model::ModelConfig config = entry_.model->config();
  config.tokenizer = nullptr;
  const EvalModel without{"ids", model::random_model(config, 1)};
  EXPECT_EQ(same(without, {}, 16), "");
  EXPECT_NE(same(without, given, 16), "");
}

TEST_F(TextsOfAnEval, AreSpreadOverThoseThatAreLongEnough) {  // 17.A8
  EvalSource source = collection({5, 31, 5, 32, 5, 33, 5, 34});
  source.texts = 2;
  EXPECT_EQ(sizes_of(eval_texts(entry_, source, {30})), (std::vector<std::size_t>{31, 33}));
}

TEST_F(TextsOfAnEval, AreTheLongOnesWhereTheOthersAreTooShort) {  // 17.A8
  const EvalTexts near = eval_texts(entry_, {}, {1024, 4096});
  EXPECT_EQ(near.items.size(), 70u);
  EXPECT_EQ(near.source, "validation texts");
  const EvalTexts far = eval_texts(entry_, {}, {2048, 8192, 32768});
  EXPECT_EQ(far.source, "long texts");
  EXPECT_GE(far.items.size(), 24u);
  EXPECT_NE(far.note.find("validation texts have 32768 tokens"), std::string::npos) << far.note;
}

TEST_F(TextsOfAnEval, OfAFolderOrAFileAreRead) {  // 17.A8
  const auto folder = folder_.path() / "corpus";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "b.txt") << std::string(50, 'b');
  std::ofstream(folder / "a.txt") << std::string(60, 'a');
  EXPECT_EQ(sizes_of(eval_texts(entry_, {.corpus = folder.string()}, {32})),
            (std::vector<std::size_t>{60, 50}));
  EXPECT_EQ(sizes_of(eval_texts(entry_, {.corpus = (folder / "b.txt").string()}, {32})),
            (std::vector<std::size_t>{50}));
}

}  // namespace
}  // namespace phasescope::training
