#include "training/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "formats/error.h"
#include "training/corpus.h"

namespace phasescope::training {
namespace {

TrainSection desk() {
  TrainSection train;
  train.steps = 2442;
  train.batch_tokens = 2048;
  train.curriculum = {{16, 0.15}, {32, 0.15}, {64, 0.15}, {128, 0.15}};
  return train;
}

TEST(Schedule, WarmsUpLinearly) {
  const TrainSection train = desk();
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 0), train.learning_rate / 100);
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 49), train.learning_rate / 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 99), train.learning_rate);
}

TEST(Schedule, FallsAlongAHalfCosineToItsShare) {
  TrainSection train = desk();
  train.steps = 301;  // so that a step stands exactly in the middle: 100 + 100 of 100 .. 300
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 100), train.learning_rate);
  EXPECT_NEAR(learning_rate_at(train, 200), train.learning_rate * (1 + 0.05) / 2, 1e-15);
  EXPECT_NEAR(learning_rate_at(train, 300), train.learning_rate * 0.05, 1e-15);
  // A quarter of the way: (1 + cos(pi / 4)) / 2 of what is above the end.
  EXPECT_NEAR(learning_rate_at(train, 150),
              train.learning_rate * (0.05 + 0.95 * (1 + std::sqrt(0.5)) / 2), 1e-15);
}

TEST(Schedule, WithoutWarmUpBeginsAtTheFullRate) {
  TrainSection train = desk();
  train.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 0), train.learning_rate);
}

TEST(Curriculum, CountsAddUpToTheSteps) {
  for (const std::int64_t steps : {1, 7, 10, 200, 2442}) {
    TrainSection train = desk();
    train.steps = steps;
    const auto counts = stage_steps(train);
    EXPECT_EQ(counts.size(), 5u);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), steps);
    for (const std::int64_t count : counts) EXPECT_GE(count, 0);
  }
}

TEST(Curriculum, ShortWindowsHaveTheirShareOfTheSteps) {
  TrainSection train = desk();
  train.steps = 1000;
  EXPECT_EQ(stage_steps(train), (std::vector<std::int64_t>{150, 150, 150, 150, 400}));
  EXPECT_EQ(window_length_at(train, 256, 0), 16);
  EXPECT_EQ(window_length_at(train, 256, 149), 16);
  EXPECT_EQ(window_length_at(train, 256, 150), 32);
  EXPECT_EQ(window_length_at(train, 256, 599), 128);
  EXPECT_EQ(window_length_at(train, 256, 600), 256);
  EXPECT_EQ(window_length_at(train, 256, 999), 256);
}

TEST(Curriculum, AStepHasTheSameTokensAtEveryLength) {
  const TrainSection train = desk();
  for (std::int64_t step = 0; step < train.steps; step += 100) {
    EXPECT_EQ(windows_at(train, 256, step) * window_length_at(train, 256, step), 2048) << step;
  }
  EXPECT_EQ(tokens_before(train, 256, train.steps), train.steps * 2048);
}

TEST(Curriculum, TokensAreThoseOfTheStepsBefore) {
  TrainSection train = desk();
  train.batch_tokens = 2000;  // no multiple of the lengths
  std::int64_t sum = 0;
  for (std::int64_t step = 0; step <= 2000; ++step) {
    if (step % 97 == 0) {
      ASSERT_EQ(tokens_before(train, 256, step), sum) << step;
    }
    sum += windows_at(train, 256, step) * window_length_at(train, 256, step);
  }
}

// ---- Data ----------------------------------------------------------------------------------------

std::string counted_text(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(1 + i % 251);
  return text;
}

TEST(Corpus, WindowsBeginWithBosAndTargetsAreTheTextItself) {
  const Corpus corpus(counted_text(10'000), {}, 256);
  const TrainSection train = desk();
  const Batch batch = corpus.batch(train, 256, 2000);
  ASSERT_EQ(batch.length, 256);
  ASSERT_EQ(batch.windows, 8);
  ASSERT_EQ(batch.inputs.size(), 2048u);
  for (std::size_t row = 0; row < 8; ++row) {
    EXPECT_EQ(batch.inputs[row * 256], 0);
    for (std::size_t i = 1; i < 256; ++i) {
      const std::size_t at = row * 256 + i;
      EXPECT_EQ(batch.inputs[at], batch.targets[at - 1]);
      EXPECT_EQ(batch.targets[at] - 1, batch.targets[at - 1] % 251);  // successive bytes
    }
  }
}

TEST(Corpus, WhatAStepReadsDependsOnSeedAndStepAlone) {
  const Corpus corpus(counted_text(10'000), {}, 256);
  TrainSection train = desk();
  const Batch batch = corpus.batch(train, 256, 77);
  for (std::int64_t step = 0; step < 50; ++step) corpus.batch(train, 256, step);
  EXPECT_EQ(corpus.batch(train, 256, 77).inputs, batch.inputs);
  EXPECT_NE(corpus.batch(train, 256, 78).inputs, batch.inputs);
  train.seed = 2;
  EXPECT_NE(corpus.batch(train, 256, 77).inputs, batch.inputs);
}

// 5000 draws over 251 different windows: one is missed with probability 251 exp(-19.9) = 6e-7.
TEST(Corpus, WindowsAreDrawnFromTheWholeText) {
  const Corpus corpus(counted_text(1000 + 15), {}, 16);
  TrainSection train = desk();
  train.batch_tokens = 16 * 50;
  std::set<std::int64_t> seen;
  for (std::int64_t step = 0; step < 100; ++step) {
    const Batch batch = corpus.batch(train, 16, step);
    for (std::int64_t row = 0; row < batch.windows; ++row) {
      const auto at = static_cast<std::size_t>(row * batch.length);
      seen.insert(batch.targets[at] * 1000 + batch.targets[at + 1]);
    }
  }
  EXPECT_EQ(seen.size(), 251u);
}

TEST(Corpus, ATextShorterThanAWindowIsAnError) {
  EXPECT_THROW(Corpus("short", {}, 256), formats::Error);
}

}  // namespace
}  // namespace phasescope::training
