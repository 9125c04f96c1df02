#include "golden.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "ape_checkpoint.h"
#include "formats/file_system.h"
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

// Models of families of which nobody else has made a small one, written into a folder.
std::vector<fs::path> write_family_models(const fs::path& folder) {
  const fs::path own = folder / "phasescope", ape = folder / "ape_public";
  for (const fs::path& one : {own, ape}) fs::create_directories(one);
  const ModelConfig config = tiny_config("rope");
  const auto model = random_model(config, 3);
  save_model(formats::real_file_system(), own, model->config(), model->encoding(),
             model->decoder.weights());
  std::map<std::string, at::Tensor> tensors = ape_tensors(config.vocab_size, config.width);
  tensors["positional_encoder._primitives"] =
      at::randn({config.heads, config.head_dim, config.head_dim},
                at::make_generator<at::CPUGeneratorImpl>(5));
  write_ape(ape,
            ape_config({{"key", "ape_sequence"}}, config.vocab_size, config.heads, config.width),
            tensors);
  return {own, ape};
}

// Every family of the registry is among those that ran. Where the references outside of the source
// are missing, the report names those that were left out for it.
void expect_all_families(const std::set<std::string>& ran) {
  const bool complete =
      !golden_path("hf/models", true).empty() && !golden_path("hf/models2", true).empty();
  std::string missing;
  for (const Family& family : families()) {
    if (!ran.contains(family.key)) missing += " " + std::string(family.key);
  }
  if (complete) {
    EXPECT_EQ(missing, "") << "families that have not run";
  } else {
    testing::Test::RecordProperty("families without references outside of the source", missing);
  }
}

}  // namespace

void for_each_family_model(const FamilyTest& test) {
  const TemporaryFolder written;
  std::vector<fs::path> folders = family_models();
  folders.push_back(golden("papers/tape/adape"));  // a checkpoint of TAPE's public code
  std::ranges::copy(write_family_models(written.path()), std::back_inserter(folders));
  std::set<std::string> ran;
  for (const fs::path& folder : folders) {
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
