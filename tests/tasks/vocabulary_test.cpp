// A task's ids as a vocabulary, and samples by their names.
#include "tasks/vocabulary.h"

#include <gtest/gtest.h>

#include <set>

#include "formats/error.h"
#include "formats/tokenizer.h"
#include "tasks/named_sample.h"

namespace phasescope::tasks {
namespace {

std::unique_ptr<formats::Tokenizer> tokenizer_named(const char* task) {
  return formats::make_tokenizer(tokenizer_of(task_named(task)), "test");
}

// Every id of every sample has a name, and the tokenizer made of them opens.
TEST(Vocabulary, EveryTaskWithIdsHasATokenizer) {
  for (const auto& task : all_tasks()) {
    if (!has_own_ids(*task)) continue;
    const Json description = tokenizer_of(*task);
    EXPECT_EQ(task_of_tokenizer(description), task.get());
    const auto tokenizer = formats::make_tokenizer(description, "test", task->vocabulary());
    EXPECT_EQ(tokenizer->name(), "symbols");
    EXPECT_EQ(tokenizer->vocab_size(), task->vocabulary());
    if (!task->info().needs_files.empty()) continue;
    const Sample sample = task->draw(1, shown_length(*task), 0);
    for (const std::int64_t id : task->read_by_model(sample)) {
      EXPECT_FALSE(tokenizer->token_text(id).empty()) << task->info().key;
    }
  }
}

TEST(Vocabulary, AdditionIsReadAsItIsWritten) {
  const auto tokenizer = tokenizer_named("addition");
  const Sample sample = task_named("addition").draw(1, {3, 2}, 0);
  const auto read = tokenizer->encode(sample.prompt);
  EXPECT_EQ(read.ids, Ids(sample.input.begin(), sample.input.begin() + static_cast<std::ptrdiff_t>(
                                                                           sample.prompt.size())));
  EXPECT_EQ(read.spans.at(1).begin, 1u);
  EXPECT_EQ(tokenizer->decode(sample.target), sample.prompt.substr(1) + sample.answer);
  EXPECT_EQ(tokenizer->decode(std::vector<std::int64_t>{4, 3}, formats::SpecialTokens::keep),
            "0[EOS]");
  EXPECT_THROW(tokenizer->encode("1+a="), formats::Error);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int64_t>{19}), formats::Error);
}

// Names of several characters have blanks between them; the swaps begin with [BOS].
TEST(Vocabulary, LongNamesAreToldApart) {
  const auto tokenizer = tokenizer_named("s5");
  const auto read = tokenizer->encode("(0 1) (2 4)(3 4)");
  EXPECT_EQ(read.ids, (Ids{10, 0, 8, 9}));
  EXPECT_EQ(tokenizer->decode(read.ids), "(0 1) (2 4) (3 4)");
  EXPECT_EQ(tokenizer->token_text(10), "[BOS]");
  EXPECT_EQ(tokenizer->token_text(119), "43210");
  const auto copy = tokenizer_named("seq_copy");
  EXPECT_EQ(copy->encode("12 1 2").ids, (Ids{12, 1, 2}));
}

TEST(Vocabulary, WhatIsNoVocabularyIsRefused) {
  const auto refused = [](const Json& description) {
    EXPECT_THROW(formats::make_tokenizer(description, "test"), formats::Error) << description;
  };
  refused({{"type", "symbols"}});
  refused({{"type", "symbols"}, {"symbols", Json::array()}});
  refused({{"type", "symbols"}, {"symbols", {"a", ""}}});
  refused({{"type", "symbols"}, {"symbols", {"a", 1}}});
  refused({{"type", "symbols"}, {"symbols", {"a"}}, {"bos", 1}});
  EXPECT_THROW(formats::make_tokenizer({{"type", "symbols"}, {"symbols", {"a", "b"}}}, "test", 1),
               formats::Error);
}

TEST(NamedSample, IsTheSameSampleEveryTime) {
  const NamedSample named = named_sample("addition:7:3,4");
  EXPECT_EQ(named.task->info().key, "addition");
  EXPECT_EQ(named.seed, 7u);
  EXPECT_EQ(named.sample.input, task_named("addition").draw(7, {3, 4}, 0).input);
  EXPECT_EQ(named_sample("copy").sample.input, task_named("seq_copy").draw(0, {8}, 0).input);
  for (const char* wrong : {"nothing", "addition:x", "addition:1:2:3", "addition:1:3", "copy:-1"}) {
    EXPECT_THROW(named_sample(wrong), formats::Error) << wrong;
  }
}

// Beside a text `length` is another number: of its tokens.
TEST(NamedSample, AWrongLengthIsSaidOfTheSample) {
  for (const char* wrong : {"addition:1:3", "addition:1:3,9999", "copy:1:0"}) {
    try {
      named_sample(wrong);
      ADD_FAILURE() << wrong;
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.where(), "--sample") << wrong;
      EXPECT_EQ(error.code(), "bad_usage") << wrong;
    }
  }
}

}  // namespace
}  // namespace phasescope::tasks
