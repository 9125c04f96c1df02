// Which texts are read, and what is said of it.
#include "analysis/texts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "formats/error.h"
#include "formats/tokenizer.h"

namespace phasescope::analysis {
namespace {

// A tokenizer of so many bytes a token.
TokenCount of_bytes(std::size_t bytes) {
  return
      [bytes](const std::string& text) { return static_cast<std::int64_t>(text.size() / bytes); };
}

// The texts that the bundled models are measured on, as long as they are long enough.
TEST(BundledTexts, AreTheValidationTextsForShortContexts) {  // 17.A8
  const Collection read = bundled_texts(of_bytes(1), 1024);
  EXPECT_EQ(read.texts.size(), 70u);
  EXPECT_EQ(read.source, "validation texts");
  EXPECT_EQ(read.note, "");
  // Each has 4,200 bytes at least.
  EXPECT_EQ(bundled_texts(of_bytes(4), 1050).source, "validation texts");
}

TEST(BundledTexts, AreLongWhereALongContextIsRead) {  // 17.A8
  for (const std::int64_t length : {2048, 8192}) {
    const Collection read = bundled_texts(of_bytes(4), length);
    EXPECT_EQ(read.source, "long texts");
    std::int64_t reaching = 0;
    for (const auto& text : read.texts) reaching += of_bytes(4)(text.text) >= length;
    EXPECT_GE(reaching, kEnoughTexts) << length;
    EXPECT_NE(read.note.find("0 of the 70 validation texts have " + std::to_string(length)),
              std::string::npos)
        << read.note;
  }
}

TEST(CorpusTexts, AFileIsCutIntoTextsOfTheLengthAskedFor) {  // 17.A8
  const auto path = std::filesystem::temp_directory_path() /
                    ("phasescope-corpus-" + std::to_string(getpid()) + ".txt");
  std::string all;
  while (all.size() < 100'000) all += "a line of text that is fifty bytes long, end of it.\n";
  std::ofstream(path) << all;
  const Collection read = corpus_texts(path.string(), of_bytes(4), 2000);
  std::filesystem::remove(path);
  EXPECT_GE(read.texts.size(), 10u);
  std::string joined;
  for (const auto& text : read.texts) {
    EXPECT_GE(of_bytes(4)(text.text), 2000);
    joined += text.text;
  }
  EXPECT_EQ(joined, all);  // nothing is dropped
  EXPECT_NE(read.note.find("is cut into"), std::string::npos) << read.note;
}

TEST(Texts, CutsAndHashes) {
  const formats::ByteTokenizer tokenizer;
  const Texts texts = tokenised({{"a", "hello"}, {"b", "hi"}}, tokenizer, 4);
  EXPECT_TRUE(texts.corpus);
  EXPECT_TRUE(texts.starts_with_bos);
  EXPECT_EQ(texts.items[0].ids.size(), 4u);
  EXPECT_EQ(texts.shortest(), 3);
  EXPECT_NE(texts.note.find("cut to 4"), std::string::npos);
  EXPECT_NE(texts.hash(), tokenised({{"a", "hello"}}, tokenizer, 4).hash());
  EXPECT_THROW(tokenised({{"a", ""}}, tokenizer, 4), formats::Error);
  EXPECT_THROW(texts_of_ids({{1, 99}}, 32, 0), formats::Error);
  EXPECT_THROW(texts_of_ids({{}}, 32, 0), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
