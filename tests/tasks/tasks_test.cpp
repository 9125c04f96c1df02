// The self-tests of every task: oracle, uniform and blind guesser, targets shifted by one place,
// the reference files made with the public code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "formats/error.h"
#include "formats/json.h"
#include "tasks/reference_file.h"
#include "tasks/task.h"
#include "tests/golden_folder.h"

namespace phasescope::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 2000;

// Files of CIFAR-10's form, 50 made-up images each, for the tests of all tasks.
class MadeUpFiles : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "phasescope-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    Random bytes(1, {}, 0);
    for (const char* file : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                             "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
      std::ofstream stream(folder_ / file, std::ios::binary);
      for (int n = 0; n < 50; ++n) {
        stream.put(static_cast<char>(bytes.below(10)));
        for (int at = 0; at < 3072; ++at) stream.put(static_cast<char>(bytes.below(256)));
      }
    }
    setenv("PHASESCOPE_CIFAR10", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

 private:
  fs::path folder_;
};
const testing::Environment* const kMadeUpFiles = testing::AddGlobalTestEnvironment(new MadeUpFiles);

// A length in the middle of what a task is tested at.
Ids usual_length(const Task& task) {
  const TaskInfo& info = task.info();
  if (info.key.starts_with("tree")) return {4};
  if (info.form == Form::image) return {info.key == "shapes" ? 5 : 0};
  if (info.dimensions == 2) return {3, 4};
  return {10};
}

bool has_symbols(const Task& task) { return task.info().form != Form::text; }

class EveryTask : public testing::TestWithParam<std::size_t> {
 protected:
  const Task& task() const { return *all_tasks()[GetParam()]; }
  Sample draw(std::int64_t index, std::uint64_t seed = 1) const {
    return task().draw(seed, usual_length(task()), static_cast<std::uint64_t>(index));
  }
};

TEST_P(EveryTask, TheOracleIsAlwaysRight) {
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const Sample sample = draw(n);
    const Score score = score_of(sample, sample.target);
    EXPECT_TRUE(score.exact);
    EXPECT_EQ(score.correct, score.counted);
    ASSERT_EQ(sample.target.size(), sample.counts.size());
    if (has_symbols(task())) {
      ASSERT_GT(score.counted, 0);
    }
  }
}

TEST_P(EveryTask, AUniformGuesserScoresOneInSoManySymbols) {
  if (!has_symbols(task())) GTEST_SKIP() << "answers are texts";
  Score all;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const Sample sample = draw(n);
    Random guess(99, sample.length, static_cast<std::uint64_t>(n));
    Ids answers;
    for (std::size_t t = 0; t < sample.target.size(); ++t) {
      answers.push_back(guess.below(task().info().output_symbols));
    }
    const Score one = score_of(sample, answers);
    all.correct += one.correct, all.counted += one.counted;
  }
  const double expected = 1.0 / static_cast<double>(task().info().output_symbols);
  // Four standard errors of independent guesses.
  const double error = std::sqrt(expected * (1 - expected) / static_cast<double>(all.counted));
  EXPECT_NEAR(all.share(), expected, 4 * error);
}

TEST_P(EveryTask, TargetsShiftedByOnePlaceScoreBelowTheOracle) {
  Score all;
  std::int64_t most = 0;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const Sample sample = draw(n);
    Ids shifted = sample.target;
    if (!shifted.empty()) std::ranges::rotate(shifted, shifted.begin() + 1);
    const Score one = score_of(sample, shifted);
    all.correct += one.correct, all.counted += one.counted;
    most = std::max(most, one.counted);
  }
  if (most > 1) {
    EXPECT_LT(all.correct, all.counted);
  }
}

TEST_P(EveryTask, ASampleIsAFunctionOfSeedLengthAndIndexAlone) {
  const Sample again = draw(7);
  draw(3), draw(8);
  EXPECT_EQ(task().row(draw(7)).dump(), task().row(again).dump());
  std::set<std::string> several;
  for (std::int64_t n = 0; n < 40; ++n) several.insert(task().row(draw(n)).dump());
  EXPECT_GT(several.size(), 10u);
  EXPECT_NE(task().row(draw(0, 1)).dump() + task().row(draw(1, 1)).dump(),
            task().row(draw(0, 2)).dump() + task().row(draw(1, 2)).dump());
}

TEST_P(EveryTask, ARowIsMadeAgainFromWhatWasDrawn) {
  for (std::int64_t n = 0; n < 50; ++n) {
    const Json row = task().row(draw(n));
    EXPECT_EQ(first_difference(task().row(task().again(row)), row), "");
  }
}

TEST_P(EveryTask, AnyLengthFromTheShortestOnCanBeDrawn) {
  const TaskInfo& info = task().info();
  for (std::int64_t n = info.shortest; n <= std::min<std::int64_t>(info.longest, 9); ++n) {
    const Ids length(static_cast<std::size_t>(info.dimensions), n);
    const Sample sample = task().draw(5, length, 0);
    for (const std::int64_t id : task().read_by_model(sample)) EXPECT_LT(id, task().vocabulary());
    for (const std::int64_t id : sample.target) EXPECT_LT(id, info.output_symbols);
    if (info.form == Form::causal) {
      EXPECT_EQ(sample.input.size(), sample.target.size());
    }
  }
  EXPECT_THROW(task().draw(5, {info.shortest - 1}, 0), formats::Error);
  EXPECT_THROW(task().draw(5, {}, 0), formats::Error);
}

TEST_P(EveryTask, TheReferenceAgrees) {
  const TaskInfo& info = task().info();
  if (!info.needs_files.empty()) GTEST_SKIP() << "samples are of the user's own files";
  const std::string file =
      "tasks/" + (info.reference.empty() ? info.key : info.reference) + ".jsonl";
  for (const bool outside : {false, true}) {
    const auto path = golden_path(file, outside);
    if (path.empty()) {
      ASSERT_TRUE(outside) << "tests/data lacks " << file;
      continue;
    }
    const FileCheck check = check_file(task(), path);
    EXPECT_GE(check.examples, 10);
    EXPECT_GE(check.metrics, 1);
    for (const std::string& difference : check.differences) ADD_FAILURE() << difference;
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, testing::Range<std::size_t>(0, all_tasks().size()),
                         [](const auto& info) { return all_tasks()[info.param]->info().key; });

Json chances() { return formats::json_from_file(golden_path("tasks/chance.json")).at("tasks"); }

TEST(Chance, GuessersScoreWhatTheReferenceSays) {
  const Json reference = chances();
  for (const auto& [key, said] : reference.items()) {
    if (!said.contains("blind")) continue;
    const Task& task = task_named(key);
    const bool estimated =
        said.at("blind_formula").get<std::string>().find("estimated") != std::string::npos;
    for (const auto& [length, blind] : said.at("blind").items()) {
      const Chance chance = task.chance({std::stoll(length)});
      EXPECT_NEAR(chance.uniform, said.at("uniform").get<double>(), 1e-12) << key;
      // Exact ones are given to four digits; both estimates have an error below 0.005, of which
      // the difference is within four.
      EXPECT_NEAR(chance.blind, blind.get<double>(), estimated ? 0.02 : 5.1e-5)
          << key << " at " << length;
    }
  }
}

// The blind guesser on samples reaches the closed form: they are two ways to the same number.
TEST(Chance, ABlindGuesserOnSamplesReachesTheClosedForm) {
  for (const char* key : {"bucket_sort", "modular_arithmetic", "modular_arithmetic_simple",
                          "cycle_navigation", "solve_equation", "missing_duplicate", "s5"}) {
    const Task& task = task_named(key);
    const Ids length{std::string(key) == "s5" ? 4 : 5};
    const double guessed = estimated_blind(task, length, 40000);
    // Of 20000 rows scored; what is learnt from the others is a little worse than the best.
    EXPECT_NEAR(guessed, task.chance(length).blind, 0.015) << key;
  }
}

TEST(Chance, OfTheWordProblemAgreesWithTheReference) {
  const Json said = chances().at("s5");
  const Task& task = task_named("s5");
  EXPECT_NEAR(task.chance({8}).uniform, said.at("permutation_uniform").get<double>(), 1e-12);
  // In the limit one of the 60 permutations of the right parity.
  const double limit = said.at("permutation_with_parity").get<double>();
  EXPECT_NEAR(256 * task.chance({256}).blind - 255 * task.chance({255}).blind, limit, 1e-5);
  EXPECT_EQ(task_named("s5_identity").chance({8}).blind,
            said.at("balanced_accuracy").get<double>());
}

TEST(Chance, OfTextsAndTransductionAgreesWithTheReference) {
  const Json said = chances();
  EXPECT_DOUBLE_EQ(task_named("passkey").chance({100}).blind, said["passkey"]["uniform_key"]);
  EXPECT_DOUBLE_EQ(task_named("needle").chance({100}).blind, said["needle"]["uniform_value"]);
  EXPECT_EQ(task_named("copy").chance({100}).uniform, said["seq"]["uniform_perplexity"]);
  EXPECT_NEAR(task_named("copy").chance({100}).blind, std::pow(20, 100.0 / 101), 1e-9);
  EXPECT_EQ(task_named("repeat").chance({100}).blind, said["seq"]["symbols_known"]["repeat"]);
  EXPECT_EQ(task_named("tree_ops").chance({4}).uniform, 130);
  EXPECT_NEAR(task_named("tree_copy").chance({4}).blind, 10, 1e-9);
  EXPECT_EQ(task_named("shapes").chance({5}).uniform, said["shapes"]["uniform"]);
  for (const auto& [digits, share] : said["addition"]["exact_match_known_length"].items()) {
    const std::int64_t n = std::stoll(digits);
    EXPECT_NEAR(task_named("addition").chance({n, n}).blind, share.get<double>(), 1e-15);
  }
}

// Pixel (r, c) of the third image of a file, byte by byte: planes of red, green and blue follow the
// label.
TEST(Cifar10, ImagesAreReadAsTheFilesHaveThem) {
  const Task& task = task_named("cifar10");
  const fs::path file = fs::path(std::getenv("PHASESCOPE_CIFAR10")) / "data_batch_2.bin";
  const Sample sample = task.again({{"random", {{"file", "data_batch_2.bin"}, {"image", 2}}}});
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(2 * 3073);
  std::string record(3073, '\0');
  stream.read(record.data(), 3073);
  const auto byte = [&](std::size_t at) {
    return std::int64_t{static_cast<unsigned char>(record[at])};
  };
  EXPECT_EQ(sample.target, Ids{byte(0)});
  for (const std::size_t r : {0, 7, 31}) {
    for (const std::size_t c : {0, 5, 31}) {
      for (const std::size_t plane : {0, 1, 2}) {
        EXPECT_EQ(sample.input[(r * 32 + c) * 3 + plane], byte(1 + plane * 1024 + r * 32 + c));
      }
    }
  }
  // 10 x 10 pieces of 5 x 5 pixels, every third pixel, as a 3 x 3 convolution and pooling read
  // them.
  const ImageShape& image = task.info().image;
  EXPECT_EQ(image.pieces(), 100);
  const std::vector<float> pieces = pieces_of(image, sample.input);
  ASSERT_EQ(pieces.size(), 100u * 75);
  // Piece 23 stands in row 2, column 3; its pixel (4, 1) is (10, 10) of the image.
  const auto level = static_cast<float>(sample.input[(10 * 32 + 10) * 3 + 1]);
  EXPECT_FLOAT_EQ(pieces[23 * 75 + (4 * 5 + 1) * 3 + 1], level / 127.5f - 1);
  EXPECT_EQ(task.draw(1, {1}, 4).drawn.at("random").at("file"), "test_batch.bin");
  EXPECT_THROW(task.again({{"random", {{"file", "data_batch_2.bin"}, {"image", 50}}}}),
               formats::Error);
}

TEST(Tasks, KeysAndAliasesNameOneTaskEach) {
  std::set<std::string> names;
  for (const auto& task : all_tasks()) {
    EXPECT_TRUE(names.insert(task->info().key).second) << task->info().key;
    for (const std::string& alias : task->info().aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
    }
    EXPECT_FALSE(task->info().help.empty() || task->info().source.empty()) << task->info().key;
  }
  EXPECT_EQ(task_named("copy").info().key, "seq_copy");
  EXPECT_THROW(task_named("adition"), formats::Error);
}

TEST(Tasks, HalfOfTheWordsOfTheIdentityReturnToIt) {
  const Task& task = task_named("s5_identity");
  std::int64_t returned = 0;
  for (std::uint64_t n = 0; n < 2000; ++n) returned += task.draw(3, {8}, n).target.back();
  // One half, and 1/56 of the other; four standard errors.
  EXPECT_NEAR(static_cast<double>(returned) / 2000, 0.5 + 0.5 * 0.0177, 0.045);
}

TEST(Reference, WhatDiffersIsNamed) {
  const Json ours{{"target", {1, 0}}, {"accuracy", 0.5}};
  EXPECT_EQ(first_difference(ours, {{"target", {1, 0}}, {"accuracy", 0.5 * (1 + 1e-14)}}), "");
  EXPECT_EQ(first_difference(ours, {{"target", {1, 1}}}), "target[1]: 1, not 0");
  EXPECT_EQ(first_difference(ours, {{"target", {1}}}), "target: 1 values, not 2");
  EXPECT_EQ(first_difference(ours, {{"accuracy", 0.25}}), "accuracy: 0.25, not 0.5");
  EXPECT_EQ(first_difference(ours, {{"target", nullptr}}), "");
}

// Rows of addition, changed by `change` and checked; "" where all are equal, else the first
// difference or what the error says.
std::string checked(const std::function<void(std::vector<Json>&)>& change) {
  const Task& task = task_named("addition");
  std::vector<Json> rows = example_rows(task, {{2, 3}}, 3, 7);
  Json generated = Json::array();
  for (const std::size_t n : {1, 2}) generated.push_back(rows[n]["ids"]);
  for (Json& ids : generated) ids.push_back(3);
  rows.push_back({{"kind", "metric"}, {"rows", {0, 1}}, {"correct", 0}, {"counted", 2}});
  rows.back()["generated"] = generated, rows.back()["exact_match"] = 0.0;
  change(rows);
  std::string name = (fs::temp_directory_path() / "phasescope-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  std::ofstream(folder / "rows.jsonl") << [&] {
    std::string text;
    for (const Json& row : rows) text += row.dump() + "\n";
    return text;
  }();
  std::string said;
  try {
    const FileCheck check = check_file(task, folder / "rows.jsonl");
    if (!check.differences.empty()) said = check.differences.front();
  } catch (const formats::Error& error) {
    said = error.full_text();
  }
  fs::remove_all(folder);
  return said;
}

// A file that passes has been looked at: what is left out, misspelt or out of order is no pass.
TEST(Reference, WhatIsNotThereIsADifference) {
  EXPECT_EQ(checked([](auto&) {}), "");
  for (const char* key : {"target", "counts", "answer", "ids"}) {
    const bool of_some = key == std::string("counts") || key == std::string("ids");
    EXPECT_EQ(checked([&](auto& rows) { rows[2].erase(key); }),
              of_some ? "" : std::string("rows.jsonl, line 3, ") + key + ": none");
    EXPECT_EQ(checked([&](auto& rows) { rows[2][key] = nullptr; }),
              std::string("rows.jsonl, line 3, ") + key + ": none");
  }
  EXPECT_EQ(checked([](auto& rows) { rows.back().erase("exact_match"); }),
            "rows.jsonl, line 5, exact_match: none");
  EXPECT_EQ(checked([](auto& rows) { rows[1]["row"] = 1; }), "rows.jsonl, line 2, row: 1, not 0");
  EXPECT_EQ(checked([](auto& rows) { rows[0]["vocabulary"] = 20; }),
            "rows.jsonl, line 1, vocabulary: 20, not 19");
}

// Whatever a task cannot read is told with its line, as what differs is.
TEST(Reference, ARowThatIsNoExampleIsToldWithItsLine) {
  EXPECT_EQ(checked([](auto& rows) { rows[3]["prompt"] = "12+x="; }),
            "an operand has other signs than digits (rows.jsonl, line 4)");
  EXPECT_EQ(checked([](auto& rows) { rows[2]["prompt"] = "12"; }),
            "a prompt of addition is not a+b=: 12 (rows.jsonl, line 3)");
  EXPECT_EQ(checked([](auto& rows) { rows[2]["prompt"] = 5; }),
            "a row has not the form of its kind: type must be string, but is number "
            "(rows.jsonl, line 3)");
  EXPECT_EQ(checked([](auto& rows) {
              rows.back()["rows"] = {0, 9};
            }),
            "a metric names no row (rows.jsonl, line 5)");
}

TEST(Reference, RowsOfNoKindAndMetricsThatDoNotFitAreRefused) {
  const auto says = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos ? "" : text;
  };
  EXPECT_EQ(says(checked([](auto& rows) { rows[1]["kind"] = "sample"; }),
                 "is task, example or metric, not \"sample\""),
            "");
  const char* no_kind = "a row is an object with a \"kind\": task, example or metric";
  EXPECT_EQ(says(checked([](auto& rows) { rows[1].erase("kind"); }), no_kind), "");
  EXPECT_EQ(says(checked([](auto& rows) { rows[1] = Json::array(); }), no_kind), "");
  EXPECT_EQ(says(checked([](auto& rows) { rows.resize(1); }), "neither an example nor"), "");
  EXPECT_EQ(says(checked([](auto& rows) { rows.back()["generated"].erase(0); }),
                 "a metric of 2 rows has 1 generated"),
            "");
  EXPECT_EQ(says(checked([](auto& rows) { rows.back()["rows"] = Json::array(); }), "about no row"),
            "");
}

}  // namespace
}  // namespace phasescope::tasks
