#include "golden.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "formats/tensors/safetensors.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/family.h"
#include "tests/golden_folder.h"

namespace phasescope::model {

namespace fs = std::filesystem;

fs::path golden(const std::string& path) { return golden_path(path); }

namespace {

std::vector<fs::path> family_models() {
  std::vector<fs::path> folders;
  std::set<std::string> names;
  for (const fs::path& root : {golden("hf/models"), golden_path("hf/models", /*outside=*/true),
                               golden_path("hf/models2", /*outside=*/true)}) {
    if (root.empty()) continue;
    for (const auto& folder : fs::directory_iterator(root)) {
      if (!fs::exists(folder.path() / "config.json")) continue;
      if (names.insert(folder.path().filename().string()).second) folders.push_back(folder.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Families that have no small model made with other people's code, and what runs them.
const std::map<std::string, std::string>& families_run_elsewhere() {
  static const std::map<std::string, std::string> list = {
      {"phasescope", "every encoding of the registry is run on random models"},
      {"ape_public", "ape_checkpoints_test.cpp writes checkpoints of its classes"},
      {"tape_public", "parity_test.cpp reads checkpoints of the public code"},
  };
  return list;
}

// Every family of the registry is among those that ran, or in the list above. Where the references
// outside of the source are missing, the report names those that were left out for it.
void expect_all_families(const std::set<std::string>& ran) {
  const bool complete =
      !golden_path("hf/models", true).empty() && !golden_path("hf/models2", true).empty();
  std::string missing;
  for (const Family& family : families()) {
    const bool elsewhere = families_run_elsewhere().contains(family.key);
    EXPECT_FALSE(elsewhere && ran.contains(family.key)) << family.key << " has a model now";
    if (!elsewhere && !ran.contains(family.key)) missing += " " + std::string(family.key);
  }
  if (complete) {
    EXPECT_EQ(missing, "") << "families that neither ran nor are named with a reason";
  } else {
    testing::Test::RecordProperty("families without references outside of the source", missing);
  }
}

}  // namespace

void for_each_family_model(const FamilyTest& test) {
  std::set<std::string> ran;
  for (const fs::path& folder : family_models()) {
    SCOPED_TRACE(folder.filename().string());
    const std::shared_ptr<const Model> model = open_model(folder.string());
    test(model, std::min<std::int64_t>(12, std::max<std::int64_t>(model->config().context, 2)));
    ran.insert(model->report.family);
  }
  expect_all_families(ran);
}

at::Tensor golden_tensor(const std::string& path, const std::string& name) {
  const auto file = formats::SafetensorsFile::open(golden(path));
  const formats::TensorEntry* entry = file.find(name);
  if (entry == nullptr) throw std::runtime_error(path + " has no tensor " + name);
  return read_tensor(file, *entry);
}

bool has_golden_tensor(const std::string& path, const std::string& name) {
  return formats::SafetensorsFile::open(golden(path)).find(name) != nullptr;
}

double relative_error(const at::Tensor& ours, const at::Tensor& reference) {
  const at::Tensor a = ours.to(at::kDouble);
  const at::Tensor b = reference.to(at::kDouble);
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

double noted(const std::string& what, const std::string& file, const std::string& dtype,
             double error) {
  static std::map<std::string, double> largest;
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string key = "parity|" + what + "|" + file + "|" + dtype;
  double& worst = largest[std::string(test->test_suite_name()) + test->name() + key];
  if (!(error <= worst)) worst = error;  // NaN stays
  std::ostringstream text;
  text << std::setprecision(2) << worst;
  testing::Test::RecordProperty(key, text.str());
  return error;
}

ModelConfig tiny_config(const std::string& encoding, const Json& options) {
  ModelConfig config;
  config.vocab_size = 29;
  config.width = 24;
  config.layers = 2;
  config.heads = 3;
  config.kv_heads = 3;
  config.head_dim = 8;
  config.ffn_width = 20;
  config.context = 32;
  config.init_std = 0.3;  // scores of order one
  config.encoding = {encoding, options};
  return config;
}

at::Tensor random_ids(std::int64_t batch, std::int64_t length, std::int64_t vocab,
                      std::uint64_t seed) {
  return at::randint(vocab, {batch, length}, at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::kLong);
}

}  // namespace phasescope::model
