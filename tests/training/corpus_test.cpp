// Training texts: what is prepared of them, that it is whole, and that it need not fit into memory.
#include "training/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "formats/error.h"
#include "formats/sha256.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/prepared_corpus.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::int64_t> ids_in(const std::string& text) {
  std::vector<std::int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// Two letters a token, of a text that begins where they do; what is left over stands alone.
class PairTokenizer : public formats::ByteTokenizer {
 public:
  PairTokenizer() : ByteTokenizer(70'000) {}
  std::string name() const override { return "pairs"; }
  formats::TokenizedText encode(std::string_view text, formats::Template) const override {
    formats::TokenizedText tokens;
    for (std::size_t at = 0; at < text.size(); at += 2) {
      const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(text[n]); };
      tokens.ids.push_back(at + 1 < text.size() ? byte(at) << 8 | byte(at + 1) : byte(at));
    }
    return tokens;
  }
};

class TrainingCorpus : public testing::Test {
 protected:
  void SetUp() override { setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1); }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }

  Corpus opened(const fs::path& path, std::int64_t context = 8,
                const formats::Tokenizer* tokenizer = nullptr) {
    notices_ = 0;
    return Corpus::open(path, data_, context, tokenizer, [this](const auto&) { ++notices_; });
  }
  static std::vector<std::int64_t> all_of(const Corpus& corpus) {
    return corpus.read(0, corpus.tokens());
  }
  // The one file of ids that was prepared.
  fs::path prepared() const {
    for (const auto& entry : fs::directory_iterator(folder_.path() / "cache/phasescope/tokens")) {
      if (entry.path().extension() == ".ids") return entry.path();
    }
    return {};
  }

  TemporaryFolder folder_;
  DataSection data_;
  int notices_ = 0;
};

TEST_F(TrainingCorpus, ATextFileIsReadAsItStands) {
  const fs::path path = folder_.path() / "text.txt";
  write(path, small_text());
  const Corpus file = opened(path, 32), memory(small_text(), data_, 32);
  EXPECT_EQ(file.sha256(), formats::sha256_hex(std::string_view(small_text())));
  EXPECT_EQ(file.bytes(), static_cast<std::int64_t>(small_text().size()));
  EXPECT_EQ(all_of(file), ids_in(small_text()));
  const RunConfig config = small_run(folder_.path(), 20);
  for (std::int64_t step = 0; step < 20; ++step) {
    const Batch a = file.batch(config.train, 32, step), b = memory.batch(config.train, 32, step);
    EXPECT_EQ(a.inputs, b.inputs);
    EXPECT_EQ(a.targets, b.targets);
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "cache"));
}

TEST_F(TrainingCorpus, DocumentsStandOneBehindTheOther) {
  const std::string joined = std::string("first text") + '\x01' + "the\nsecond" + '\x01' + "third";
  data_.bos = 1;
  const fs::path folder = folder_.path() / "texts", lines = folder_.path() / "texts.jsonl";
  write(folder / "b.txt", "the\nsecond");
  write(folder / "a.txt", "first text");
  write(folder / "c", "third");
  write(folder / ".hidden", "not this");
  write(lines,
        "{\"text\": \"first text\"}\n\n{\"text\": \"the\\nsecond\", \"name\": \"b\"}\n"
        "{\"text\": \"third\"}");
  EXPECT_EQ(all_of(opened(folder)), ids_in(joined));
  EXPECT_EQ(all_of(opened(lines)), ids_in(joined));
  EXPECT_EQ(notices_, 1);
  opened(lines);
  EXPECT_EQ(notices_, 0);  // and not prepared again
}

// Texts lie in folders by year, by author: all of them are read, each once, and nothing hidden.
TEST_F(TrainingCorpus, FoldersInAFolderAreReadToo) {
  data_.bos = 1;
  const fs::path folder = folder_.path() / "texts";
  write(folder / "b/2.txt", "second");
  write(folder / "b/deeper/3.txt", "third");
  write(folder / "a.txt", "first");
  write(folder / "c.jsonl", "{\"text\": \"fourth\"}\n");
  write(folder / ".git/objects", "not this");
  write(folder / "b/.hidden", "nor this");
  fs::create_directories(folder / "empty");
  fs::create_directory_symlink("..", folder / "b/up");  // it leads back to where it stands
  const std::string between(1, '\x01');
  EXPECT_EQ(all_of(opened(folder)),
            ids_in("first" + between + "second" + between + "third" + between + "fourth"));
}

// With documents apart each token has its document's number, counted within its window; what is
// read is the same, and windows of one document have no numbers.
TEST_F(TrainingCorpus, DocumentsAreToldApartWhereThatIsAsked) {
  data_.bos = 1;
  const fs::path lines = folder_.path() / "texts.jsonl";
  std::string many;
  for (int n = 0; n < 40; ++n) many += "{\"text\": \"" + std::string(3 + n % 5, 'a') + "\"}\n";
  write(lines, many);
  TrainSection train;
  train.batch_tokens = 64;
  const Batch joined = opened(lines, 16).batch(train, 16, 0);
  EXPECT_TRUE(joined.documents.empty());
  data_.documents = "apart";
  const Batch apart = opened(lines, 16).batch(train, 16, 0);
  EXPECT_EQ(apart.inputs, joined.inputs);
  EXPECT_EQ(apart.targets, joined.targets);
  ASSERT_EQ(apart.documents.size(), apart.inputs.size());
  for (std::size_t row = 0; row < 4; ++row) {
    const auto begin = apart.inputs.begin() + static_cast<std::ptrdiff_t>(16 * row);
    for (std::ptrdiff_t n = 0; n < 16; ++n) {
      const auto beginnings = std::count(begin + 1, begin + n + 1, 1);
      EXPECT_EQ(apart.documents[16 * row + static_cast<std::size_t>(n)], beginnings) << row << n;
    }
  }
  EXPECT_EQ(part_of(apart, 1, 2).documents,
            std::vector<std::int64_t>(apart.documents.begin() + 16, apart.documents.begin() + 32));
  EXPECT_TRUE(Corpus(small_text(), data_, 16).batch(train, 16, 0).documents.empty());
}

TEST_F(TrainingCorpus, ALineThatIsNoTextIsNamed) {
  const fs::path lines = folder_.path() / "texts.jsonl";
  write(lines, "{\"text\": \"first text\"}\n{\"words\": 1}\n");
  try {
    opened(lines);
    FAIL() << "a line without a text was taken";
  } catch (const formats::Error& error) {
    EXPECT_NE(error.full_text().find("texts.jsonl, line 2"), std::string::npos)
        << error.full_text();
  }
  // Nothing half made is left.
  EXPECT_TRUE(fs::is_empty(folder_.path() / "cache/phasescope/tokens"));
}

TEST_F(TrainingCorpus, ATokenizersIdsAreKeptInTheBytesThatTheyNeed) {
  const fs::path path = folder_.path() / "text.txt";
  write(path, small_text());
  const PairTokenizer pairs;
  const Corpus corpus = opened(path, 32, &pairs);
  EXPECT_EQ(notices_, 1);
  EXPECT_EQ(all_of(corpus), pairs.encode(small_text(), formats::Template::leave_out).ids);
  EXPECT_EQ(fs::file_size(prepared()), 4u * static_cast<std::size_t>(corpus.tokens()));
  EXPECT_EQ(corpus.sha256(), formats::sha256_hex(std::string_view(small_text())));
}

// The same bytes are one document as a text and as many as lines of JSON.
TEST_F(TrainingCorpus, WhatATextIsTakenForDecidesWhichIdsAreKept) {
  const std::string bytes = "{\"text\": \"first text\"}\n{\"text\": \"second one\"}\n";
  const fs::path text = folder_.path() / "texts.txt", lines = folder_.path() / "texts.jsonl";
  write(text, bytes), write(lines, bytes);
  const PairTokenizer pairs;
  const auto of_text = all_of(opened(text, 8, &pairs)), of_lines = all_of(opened(lines, 8, &pairs));
  EXPECT_EQ(of_text, pairs.encode(bytes, formats::Template::leave_out).ids);
  EXPECT_EQ(of_lines.size(), 5u + 1 + 5);  // pairs, the beginning's id, pairs
}

// A piece ends behind a line; only then does a pair of letters begin anew.
TEST_F(TrainingCorpus, ALongTextIsCutBehindItsLines) {
  const fs::path path = folder_.path() / "text.txt";
  write(path, "abc\ndefgh\nijk\nl mn");
  const PairTokenizer pairs;
  PrepareOptions options;
  options.tokenizer = &pairs;
  options.cache = folder_.path() / "cache";
  options.piece = 8;
  const PreparedCorpus corpus = prepare_corpus(path, options);
  std::vector<std::int64_t> expected;
  for (const char* piece : {"abc\n", "defgh\n", "ijk\n", "l mn"}) {
    const auto ids = pairs.encode(piece, formats::Template::leave_out).ids;
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(corpus.ids.read(0, corpus.ids.size()), expected);
}

// reliability.md, row 32.
TEST_F(TrainingCorpus, Row32WhatIsHalfMadeOrDamagedIsMadeAnew_Risk3) {
  const fs::path lines = folder_.path() / "texts.jsonl";
  write(lines, "{\"text\": \"first text\"}\n{\"text\": \"second text\"}\n");
  const auto whole = all_of(opened(lines));
  const fs::path ids = prepared();
  fs::resize_file(ids, fs::file_size(ids) / 2);
  EXPECT_EQ(all_of(opened(lines)), whole);
  EXPECT_EQ(notices_, 1);
  std::fstream(ids, std::ios::in | std::ios::out | std::ios::binary) << 'X';  // the same length
  EXPECT_EQ(all_of(opened(lines)), whole);
  EXPECT_EQ(notices_, 1);
  fs::remove(fs::path(ids).replace_extension(".json"));
  EXPECT_EQ(all_of(opened(lines)), whole);
  EXPECT_EQ(notices_, 1);
}

// What ends the preparing, at whichever piece, leaves nothing behind, and the next one is whole.
TEST_F(TrainingCorpus, PreparingIsEndedBetweenAnyTwoPieces) {
  struct Ended {};
  write(folder_.path() / "texts/a.txt", small_text());
  write(folder_.path() / "texts/b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const auto ids_after = [this](int looks, const char* cache) {
    PrepareOptions options;
    options.cache = folder_.path() / cache;
    options.look_up = [&looks] {
      if (looks-- == 0) throw Ended{};
    };
    const PreparedCorpus corpus = prepare_corpus(folder_.path() / "texts", options);
    return corpus.ids.read(0, corpus.ids.size());
  };
  // Each of two files is hashed and read, and each line is a document.
  constexpr int kLeastLooks = 2 + 1 + 2;
  for (int looks = 0; looks < kLeastLooks; ++looks) {
    EXPECT_THROW(ids_after(looks, "ended"), Ended) << looks;
    std::error_code none;
    for (const auto& left : fs::directory_iterator(folder_.path() / "ended", none)) {
      ADD_FAILURE() << looks << ": " << left.path();
    }
  }
  EXPECT_EQ(ids_after(1'000'000, "ended"), ids_after(1'000'000, "whole"));
}

// Lines that came between the hash and the ids would stand for the text without them for ever.
TEST_F(TrainingCorpus, ATextThatChangesWhileItIsPreparedIsNotKept) {
  const fs::path path = folder_.path() / "texts.jsonl";
  write(path, "{\"text\": \"one\"}\n");
  PrepareOptions options;
  options.cache = folder_.path() / "cache";
  options.notice = [&path](const auto&) {
    write(path, "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  };
  EXPECT_THROW(prepare_corpus(path, options), formats::Error);
  EXPECT_TRUE(fs::is_empty(options.cache));
  options.notice = nullptr;
  EXPECT_EQ(prepare_corpus(path, options).ids.size(), 7);  // with the id between the two
}

TEST_F(TrainingCorpus, ATextThatChangesWhileItIsReadIsNotTrainedOn) {
  const fs::path path = folder_.path() / "text.txt";
  write(path, small_text());
  const Corpus corpus = opened(path, 32);
  corpus.read(0, 32);
  write(path, small_text() + "more");
  EXPECT_THROW(corpus.read(0, 32), formats::Error);
  write(path, "short");
  EXPECT_THROW(corpus.read(1000, 32), formats::Error);
}

// Bytes of memory that this process had at most since clear_refs was written.
std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

// A file with a hole of more than a gigabyte, most of which is on no disk, takes no more memory to
// hash and to read than some pieces.
TEST_F(TrainingCorpus, NeedNotFitIntoMemory) {
  const fs::path path = folder_.path() / "text.txt";
  write(path, "x");
  fs::resize_file(path, (std::uintmax_t{1} << 30) + 1'000'000);
  std::ofstream("/proc/self/clear_refs") << 5;
  const std::int64_t before = peak_bytes();
  const Corpus corpus = opened(path, 256);
  const TrainSection train;
  for (std::int64_t step = 0; step < 200; ++step) corpus.batch(train, 256, step);
  EXPECT_EQ(corpus.tokens(), (std::int64_t{1} << 30) + 1'000'000);
  EXPECT_LT(peak_bytes() - before, std::int64_t{100} << 20);
}

}  // namespace
}  // namespace phasescope::training
