// Every file of sample_configs/ is read, checked and run; every encoding of the registry has one of
// each scale, and learns to copy; the paper's counts come out of the paper's configurations.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "analysis/cost.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/open_model.h"
#include "model/config.h"
#include "model/encoding.h"
#include "tests/training/small_run.h"
#include "training/run_config.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(PHASESCOPE_SOURCE) / "sample_configs";

// The names of a folder's files, without their extension.
std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder / folder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

RunConfig config_of(const char* folder, const std::string& name) {
  return run_config_from_file(kFolder / folder / (name + ".json"));
}

// Those that learn text, which are to be compared with each other; tasks have recipes of their own
// (task_training_test.cpp).
std::vector<std::string> text_names_in(const char* folder) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [&](const std::string& name) { return !config_of(folder, name).of_text(); });
  return names;
}

std::string encoding_of(const RunConfig& config) {
  return config.encoding.at("key").get<std::string>();
}

std::set<std::string> encodings_in(const char* folder, const std::string& ending) {
  std::set<std::string> keys;
  for (const std::string& name : names_in(folder)) {
    if (name.ends_with(ending)) keys.insert(encoding_of(config_of(folder, name)));
  }
  return keys;
}

TEST(SampleConfigs, EveryEncodingHasOneOfEachScale) {
  const auto desk = encodings_in("desk", ""), paper = encodings_in("paper", "_155m");
  for (const model::EncodingEntry& entry : model::encodings()) {
    // What was computed elsewhere is not trained, and what is constructed needs no training.
    if (entry.info->key == "imported" || entry.info->key == "tape_circuit") continue;
    EXPECT_TRUE(desk.contains(entry.info->key)) << "sample_configs/desk has no " << entry.info->key;
    EXPECT_TRUE(paper.contains(entry.info->key))
        << "sample_configs/paper has no " << entry.info->key << "_155m";
  }
}

// What the files of one group are compared in must be all that differs.
TEST(SampleConfigs, ThoseOfOneScaleShareTheirRecipe) {
  for (const auto& [folder, ending] :
       {std::pair{"desk", ""}, {"paper", "_155m"}, {"paper", "_125m"}, {"paper", "_7b"}}) {
    nlohmann::json first;
    for (const std::string& name : text_names_in(folder)) {
      if (!name.ends_with(ending)) continue;
      nlohmann::json config = to_json(config_of(folder, name));
      config.erase("encoding");
      config.erase("positions");
      config.at("model").erase("note");
      if (first.is_null()) first = config;
      EXPECT_EQ(config, first) << folder << "/" << name;
    }
    EXPECT_FALSE(first.is_null()) << folder << "/*" << ending;
  }
}

class DeskConfig : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, DeskConfig, testing::ValuesIn(text_names_in("desk")),
                         [](const auto& info) { return info.param; });

// The model as it is; shorter windows of a text that is there.
TEST_P(DeskConfig, ReadsAndTrains) {
  RunConfig config = config_of("desk", GetParam());
  config.train.curriculum = {{16, 0.5}};
  config.train.batch_tokens = config.model.context;
  config.train.steps = 2;
  const auto corpus =
      std::make_shared<const Corpus>(small_text(), config.data, config.model.context);
  Trainer trainer(config, corpus, {});
  const protocol::MetricPoint first = trainer.step();
  // Random weights give each of 256 bytes about the same chance.
  EXPECT_NEAR(first.loss, std::log(256), 1);
  EXPECT_GT(*first.gradient_norm, 0);
  const at::NoGradGuard no_gradients;
  const at::Tensor logits = trainer.decoder().forward(at::arange(33, at::kLong).view({1, 33}));
  EXPECT_EQ(logits.sizes(), (at::IntArrayRef{1, 33, 256}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

constexpr int kLetters = 16;

// Words of four letters drawn evenly, each written sixteen times. Whoever looks at the letter
// before alone knows nothing of the next one; whoever looks further back copies it.
std::string repeated_words() {
  std::mt19937 random(5);
  std::string text, word(4, ' ');
  while (text.size() < 60'000) {
    for (char& letter : word) letter = static_cast<char>('a' + random() % kLetters);
    for (int n = 0; n < 16; ++n) text += word;
  }
  return text;
}

class CopyTask : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, CopyTask, testing::ValuesIn(text_names_in("desk")),
                         [](const auto& info) { return info.param; });

// The file's encoding in a model that trains in seconds. Large weights and a high rate: beside
// sinusoids of size one the letters must not be lost.
TEST_P(CopyTask, TheLossFallsBelowThatOfGuessing) {
  RunConfig config;
  config.encoding = config_of("desk", GetParam()).encoding;
  config.positions = config_of("desk", GetParam()).positions;
  config.model.context = 32;
  config.model.layers = 2;
  config.model.width = 32;
  config.model.ffn_width = 64;
  config.model.init_std = 0.2;
  config.train.steps = 150;
  config.train.batch_tokens = 512;
  config.train.learning_rate = 1e-2;
  config.train.warmup_steps = 20;
  const auto corpus =
      std::make_shared<const Corpus>(repeated_words(), config.data, config.model.context);
  Trainer trainer(config, corpus, {});
  std::vector<double> losses;
  while (!trainer.done()) losses.push_back(trainer.step().loss);
  EXPECT_GT(losses.front(), std::log(kLetters) + 1);
  const double last = std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20;
  std::printf("%-18s %.2f nats, from %.2f\n", GetParam().c_str(), last, losses.front());
  // Knowing the alphabet gives ln 16 = 2.77 nats, and no model that reads no earlier letter can be
  // below that, but for the 0.05 that 10,000 letters vary by. One that knows a word's four letters,
  // but not their order, is at ln 4 = 1.4 once it has seen them; one that copies is at 0.6, the
  // price of the words that begin.
  EXPECT_LT(last, std::log(kLetters) - 0.3);
}

class PaperConfig : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, PaperConfig, testing::ValuesIn(names_in("paper")),
                         [](const auto& info) { return info.param; });

TEST_P(PaperConfig, IsAModelWithACost) {
  const RunConfig config = config_of("paper", GetParam());
  const model::ModelConfig model = model_config_of(config);
  const auto cost = analysis::analyse_cost(model, GetParam(), model.context);
  // Both embeddings and every layer's seven matrices, and next to them little.
  const double matrices =
      2.0 * static_cast<double>(model.vocab_size * model.width) +
      static_cast<double>(model.layers * model.width * (4 * model.width + 3 * model.ffn_width));
  EXPECT_GT(cost.parameters, matrices);
  EXPECT_LT(cost.parameters, 1.05 * matrices);
  EXPECT_GT(cost.published.macs, matrices * static_cast<double>(model.context) / 2);
  EXPECT_GT(cost.memory_bytes, 4 * matrices);
}

// A narrow slice of it, two layers high, at the length it is for.
TEST_P(PaperConfig, RunsInASmallerSize) {
  RunConfig config = config_of("paper", GetParam());
  config.model.layers = 2;
  config.model.width = 8 * config.model.heads;
  config.model.ffn_width = 16;
  config.model.vocab_size = 256;
  const auto model = model::random_model(model_config_of(config), 1);
  const at::NoGradGuard no_gradients;
  const at::Tensor ids = at::arange(300, at::kLong).remainder(256).view({1, 300});
  const at::Tensor logits = model->decoder.forward(ids);
  EXPECT_EQ(logits.sizes(), (at::IntArrayRef{1, 300, 256}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

// `cost` reads the files as they are; training reads them by its own schema. Both must mean the
// same model, whichever sections a file has.
TEST(SampleConfigs, CostReadsEveryFileAsTrainingDoes) {
  std::size_t files = 0;
  for (const char* folder : {"desk", "paper"}) {
    for (const std::string& name : names_in(folder)) {
      const std::string file = (kFolder / folder / (name + ".json")).string();
      const model::ModelConfig trained = model_config_of(config_of(folder, name));
      model::ModelConfig read;
      ASSERT_NO_THROW(read = model::config_without_weights(file)) << file;
      read.tokenizer = trained.tokenizer;  // of the data section, which has nothing to do with cost
      EXPECT_EQ(model::write_model_config(read), model::write_model_config(trained)) << file;
      const auto cost = analysis::analyse_cost(read, name, read.context);
      const auto expected = analysis::analyse_cost(trained, name, trained.context);
      EXPECT_EQ(cost.executed.macs, expected.executed.macs) << file;
      EXPECT_EQ(cost.published.parameters, expected.published.parameters) << file;
      EXPECT_GT(cost.executed.macs, 0) << file;
      ++files;
    }
  }
  EXPECT_GE(files, 60u);  // names_in() finds them
}

// TAPE, arXiv 2501.00712, Table 3: FLOPs and multiply-accumulates in 10^9, parameters in 2^20.
TEST(SampleConfigs, CostsAreThePublishedOnes) {
  struct Row {
    const char* name;
    double flops, macs, parameters;
  };
  for (const Row& row :
       {Row{"tape_155m", 365.65, 180.69, 155.33}, Row{"rope_155m", 321.10, 160.46, 154.89},
        Row{"fire_155m", 331.97, 165.69, 154.90}, Row{"t5_155m", 321.10, 160.46, 154.90}}) {
    const auto cost =
        analysis::analyse_cost(model_config_of(config_of("paper", row.name)), row.name, 1024);
    EXPECT_NEAR(cost.published.macs / 1e9 / row.macs, 1, 0.005) << row.name;
    EXPECT_NEAR(cost.published.parameters_mi / row.parameters, 1, 0.005) << row.name;
    // What TAPE's table counts beside the products is not said: 4e9 of its FLOPs stay unexplained.
    EXPECT_NEAR(cost.published.flops / 1e9 / row.flops, 1, 0.015) << row.name;
    // Causal pairs alone: what runs here is less.
    EXPECT_LT(cost.executed.macs, cost.published.macs) << row.name;
  }
}

}  // namespace
}  // namespace phasescope::training
