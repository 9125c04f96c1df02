// What a finished job becomes in assets/models, and the table of those that are there.
#include "training/bundle.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "model/checkpoints/open_model.h"
#include "tests/temporary_folder.h"
#include "training/jobs/job.h"
#include "training/run_config.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kSource = PHASESCOPE_SOURCE;

formats::FileSystem& disk() { return formats::real_file_system(); }

// A job on a task, which has no texts: three steps of the smallest of its form.
fs::path finished_job(const fs::path& dir) {
  RunConfig config =
      run_config_from_file(kSource / "sample_configs/desk/missing_duplicate_rope.json");
  config.model.layers = 1, config.model.width = 16, config.model.ffn_width = 16;
  config.model.heads = config.model.kv_heads = 2;
  config.task.batch = 4;
  config.train.steps = 3, config.train.warmup_steps = 1, config.train.checkpoint_every = 2;
  config.train.keep_steps = {2};
  config.eval = {.every = 2, .windows = 4};
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << to_json(config);
  EXPECT_EQ(run_job(dir), 0);
  return dir;
}

TEST(Bundle, AJobBecomesAFolderThatOpens) {
  const TemporaryFolder folder;
  const fs::path job = finished_job(folder / "job"), out = folder / "models/small";
  protocol::NoProgress progress;
  bundle_model(disk(), job, out, progress, 100'000);
  const auto bundled = model::open_model(out.string());
  const auto trained = model::open_model((job / "checkpoints/step-3").string());
  // bfloat16 has eight bits: no weight is further off than 2^-8 of itself, rounded to nearest.
  const at::Tensor whole = trained->decoder.weights().embedding;
  const at::Tensor narrow = bundled->decoder.weights().embedding.to(whole.scalar_type());
  EXPECT_TRUE(((narrow - whole).abs() <= whole.abs() / 256).all().item<bool>());
  EXPECT_FALSE(narrow.equal(whole));
  const json history = formats::json_from_file(out / "history.json").at("checkpoints");
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].at("step"), 2);
  EXPECT_EQ(history[1].at("step"), 3);
  EXPECT_EQ(formats::json_from_file(out / "run.json").at("train").at("steps"), 3);
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(out)) bytes += entry.file_size();
  EXPECT_LT(bytes, 100'000u);
  const std::string table = models_table(folder / "models");
  EXPECT_NE(table.find("| `small` | rope, base 10000.0 | samples of missing_duplicate | "),
            std::string::npos)
      << table;
  EXPECT_NE(table.find(formats::sha256_of_file(out / "model.safetensors")), std::string::npos);
}

TEST(Bundle, WhatIsTooLargeWritesNothing) {
  const TemporaryFolder folder;
  const fs::path job = finished_job(folder / "job"), out = folder / "models/small";
  protocol::NoProgress progress;
  EXPECT_THROW(bundle_model(disk(), job, out, progress, 1000), formats::Error);
  EXPECT_FALSE(fs::exists(out));
}

// The sums that assets/README.md tells are those of the files.
TEST(Bundle, TheAssetsPageHasTheTableOfTheModels) {
  const std::string page = disk().read(kSource / "assets/README.md");
  const std::string table = models_table(kSource / "assets/models");
  EXPECT_EQ(std::ranges::count(table, '\n'), 2 + 7);
  EXPECT_EQ(with_models_table(page, table), page);
  EXPECT_THROW(with_models_table("# Nothing\n", table), formats::Error);
}

}  // namespace
}  // namespace phasescope::training
