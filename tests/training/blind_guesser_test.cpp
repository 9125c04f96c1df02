// The blind guesser's loss, where it is known in closed form.
#include "training/blind_guesser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "training/task_data.h"

namespace phasescope::training {
namespace {

std::vector<tasks::Sample> draws_of(const tasks::Task& task, const tasks::Ids& length, int count) {
  std::vector<tasks::Sample> samples;
  for (int n = 0; n < count; ++n) {
    samples.push_back(task.draw(77, length, static_cast<std::uint64_t>(n)));
  }
  return samples;
}

// Answers that are even over k symbols whatever the place: log2 k bits. 2000 samples know a bit's
// share to 1.1 %, of 1000 learnt ones to 1.6 %: its entropy by far less.
TEST(BlindGuesser, PaysTheEntropyOfEvenAnswers) {
  for (const auto& [name, length, symbols] :
       {std::tuple("parity_check", 20, 2), {"cycle_navigation", 20, 5}, {"reverse_string", 6, 2}}) {
    const tasks::Task& task = tasks::task_named(name);
    const auto guess = blind_guess(task, draws_of(task, {length}, 2000), 5);
    ASSERT_TRUE(guess) << name;
    EXPECT_NEAR(guess->bits, std::log2(symbols), 0.02) << name;
    EXPECT_NEAR(guess->right, 1.0 / symbols, 0.05) << name;
  }
}

// Where places differ: what it gets right is the task's own closed form, or estimate.
TEST(BlindGuesser, IsAsOftenRightAsTheTaskSays) {
  for (const char* name : {"bucket_sort", "missing_duplicate", "compute_sqrt"}) {
    const tasks::Task& task = tasks::task_named(name);
    const auto guess = blind_guess(task, draws_of(task, {20}, 2000), 5);
    ASSERT_TRUE(guess) << name;
    EXPECT_NEAR(guess->right, task.chance({20}).blind, 0.04) << name;
    EXPECT_LT(guess->bits, std::log2(task.info().output_symbols) + 0.02) << name;
  }
}

// The key is even over 1..49999: a space, then what its digits are at each place, counted over all
// keys. 1000 keys know a digit's share to 1.3 %, and what was never seen costs up to 0.05 bits.
TEST(BlindGuesser, KnowsTheDigitsOfAKeyByTheirPlaces) {
  const tasks::Task& task = tasks::task_named("passkey");
  const formats::ByteTokenizer bytes;
  std::vector<tasks::Sample> samples = draws_of(task, {32}, 1000);
  for (tasks::Sample& sample : samples) sample = as_ids(task, std::move(sample), &bytes);
  const auto guess = blind_guess(task, samples, 5, &bytes);
  ASSERT_TRUE(guess);
  std::vector<std::vector<double>> shares(5, std::vector<double>(10));
  for (int key = 1; key < 50'000; ++key) {
    const std::string digits = std::to_string(key);
    for (std::size_t n = 0; n < digits.size(); ++n) ++shares[n][std::size_t(digits[n] - '0')];
  }
  double bits = 0, answers = 49'999;  // the space is known
  for (const std::vector<double>& place : shares) {
    const double all = std::accumulate(place.begin(), place.end(), 0.0);
    for (const double one : place) bits -= one > 0 ? one * std::log2(one / all) : 0;
    answers += all;
  }
  EXPECT_NEAR(guess->bits, bits / answers, 0.06);
}

TEST(BlindGuesser, HasNothingToSayOfTextsWithoutTheirIds) {
  const tasks::Task& task = tasks::task_named("passkey");
  EXPECT_FALSE(blind_guess(task, draws_of(task, {32}, 2), 5));
  EXPECT_FALSE(blind_guess(tasks::task_named("parity_check"), {}, 5));
}

}  // namespace
}  // namespace phasescope::training
