#include "model/checkpoints/adapter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "formats/file_system.h"
#include "golden.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/model/case_copy.h"
#include "tests/model/open_error.h"
#include "tests/model/torch_state.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

class Adapters : public testing::TestWithParam<const char*> {};

// The base beside it, merged here by hand: r = 3 and alpha 6 give a scale of 2. GPT-2's matrices
// are (in, out), and its files lack the "transformer." that PEFT's names have.
TEST_P(Adapters, AreMergedIntoTheBaseModelBesideThem) {
  const bool gpt2 = GetParam() == std::string("gpt2_hub_names");
  TemporaryFolder folder;
  const fs::path base = folder.path() / "base", adapter = folder.path() / "adapter";
  copy_case(GetParam(), base);
  fs::create_directories(adapter);
  NamedTensors tensors = tensors_of(base);
  const std::string target =
      gpt2 ? "h.1.attn.c_attn.weight" : "model.layers.1.self_attn.v_proj.weight";
  const std::string norm = gpt2 ? "ln_f.weight" : "model.norm.weight";
  NamedTensors changes;
  for (auto& [name, tensor] : tensors) {
    const std::string full = "base_model.model." + std::string(gpt2 ? "transformer." : "") +
                             name.substr(0, name.rfind('.'));
    if (name == target) {
      const std::int64_t out = tensor.size(gpt2 ? 1 : 0), in = tensor.size(gpt2 ? 0 : 1);
      const at::Tensor a = at::randn({3, in}), b = at::randn({out, 3});
      changes.emplace_back(full + ".lora_A.weight", a);
      changes.emplace_back(full + ".lora_B.weight", b);
      const at::Tensor added = 2 * at::matmul(b, a);
      tensor = tensor + (gpt2 ? added.t() : added);
    } else if (name == norm) {
      tensor = at::randn_like(tensor);
      changes.emplace_back(full + ".weight", tensor);
    }
  }
  ASSERT_EQ(changes.size(), 3u);
  const bool older = gpt2;  // written by torch.save
  if (older) {
    write_torch_state(adapter / "adapter_model.bin", changes);
  } else {
    write_tensors(formats::real_file_system(), adapter / "adapter_model.safetensors", changes);
  }
  Json config = {{"peft_type", "LORA"},
                 {"r", 3},
                 {"lora_alpha", 6},
                 {"fan_in_fan_out", gpt2},
                 {"base_model_name_or_path", "somebody/base"}};
  write_text(adapter / "adapter_config.json", config.dump());
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 20, 80);
  const at::Tensor adapted = open_model(adapter.string())->decoder.forward(ids);
  EXPECT_GT(relative_error(adapted, open_model(base.string())->decoder.forward(ids)), 1e-2);
  const fs::path merged = folder.path() / "merged";
  copy_case(GetParam(), merged);
  write_tensors(formats::real_file_system(), merged / "model.safetensors", tensors);
  EXPECT_LT(relative_error(adapted, open_model(merged.string())->decoder.forward(ids)), 1e-6);

  // Results name their model by its hash: that of the base is another one, and so is that of the
  // same matrices with another scale.
  const LoadReport report = open_model(adapter.string())->report;
  EXPECT_EQ(report.path, adapter.string());
  EXPECT_NE(report.sha256, open_model(base.string())->report.sha256);
  config["lora_alpha"] = 7;
  write_text(adapter / "adapter_config.json", config.dump());
  const std::string scaled = open_model(adapter.string())->report.sha256;
  EXPECT_NE(scaled, report.sha256);
  changes.back().second = changes.back().second + 1;
  if (older) {
    write_torch_state(adapter / "adapter_model.bin", changes);
  } else {
    write_tensors(formats::real_file_system(), adapter / "adapter_model.safetensors", changes);
  }
  EXPECT_NE(open_model(adapter.string())->report.sha256, scaled);

  for (const Json& pattern : {Json(), Json{{"elsewhere", 3}}}) {  // of another adapter
    config["r"] = 8;
    config["rank_pattern"] = pattern;
    write_text(adapter / "adapter_config.json", config.dump());
    EXPECT_NE(error_of(adapter.string()).find("r says the rank 8, but"), std::string::npos);
  }
  const std::string module = target.substr(0, target.rfind('.'));
  for (const std::string& key : {module.substr(module.rfind('.') + 1), std::string("\\d\\..*")}) {
    config["rank_pattern"] = {{key, 3}};
    write_text(adapter / "adapter_config.json", config.dump());
    EXPECT_NO_THROW(open_model(adapter.string())) << key;
    config["rank_pattern"] = {{key, 4}};
    write_text(adapter / "adapter_config.json", config.dump());
    EXPECT_NE(error_of(adapter.string()).find("rank_pattern says the rank 4"), std::string::npos);
  }
  config.erase("rank_pattern");
  config["r"] = 3;

  config["use_dora"] = true;
  write_text(adapter / "adapter_config.json", config.dump());
  EXPECT_NE(error_of(adapter.string()).find("use_dora"), std::string::npos);
  config["use_dora"] = false;
  config["base_model_name_or_path"] = "somebody/absent";
  write_text(adapter / "adapter_config.json", config.dump());
  EXPECT_NE(error_of(adapter.string()).find("somebody/absent"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Bases, Adapters, testing::Values("llama", "gpt2_hub_names"),
                         [](const auto& info) { return std::string(info.param); });

// An adapter of two modules, the query projections of the small Llama's layers 0 and 1, of rank 3
// and with alpha 6.
class TwoModules : public testing::Test {
 protected:
  TwoModules() {
    copy_case("llama", folder_.path() / "base");
    fs::create_directories(path());
    at::manual_seed(3);
    for (int layer = 0; layer < 2; ++layer) {
      a_.push_back(at::randn({3, 32}));
      b_.push_back(at::randn({32, 3}));
    }
    write_matrices();
  }

  fs::path path() const { return folder_.path() / "adapter"; }
  static std::string module(int layer) {
    return "model.layers." + std::to_string(layer) + ".self_attn.q_proj";
  }

  void write_matrices() const {
    NamedTensors tensors;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const std::string start = "base_model.model." + module(static_cast<int>(layer));
      tensors.emplace_back(start + ".lora_A.weight", a_[layer]);
      tensors.emplace_back(start + ".lora_B.weight", b_[layer]);
    }
    write_tensors(formats::real_file_system(), path() / "adapter_model.safetensors", tensors);
  }

  // `alphas`: the JSON of alpha_pattern.
  void write_config(const std::string& alphas) const {
    write_text(path() / "adapter_config.json",
               R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6,)"
               R"( "base_model_name_or_path": "base", "alpha_pattern": )" +
                   alphas + "}");
  }

  // The error of W + alpha / 3 B A.
  double error_with(int layer, double alpha) const {
    const std::string name = module(layer) + ".weight";
    const auto at_layer = static_cast<std::size_t>(layer);
    const at::Tensor added =
        at::matmul(b_[at_layer].to(at::kDouble), a_[at_layer].to(at::kDouble)) * (alpha / 3);
    const at::Tensor base =
        CheckpointReader((folder_.path() / "base").string()).read(name, at::kDouble);
    return relative_error(CheckpointReader(path().string()).read(name, at::kDouble), base + added);
  }

  TemporaryFolder folder_;
  std::vector<at::Tensor> a_, b_;
};

// 17.A2: the product and the sum are float32's, and what 16 bits hold of them is rounded once: half
// a unit in the last of 8 bits of bfloat16, 11 of float16 (a part of 10^4 more for float32 itself).
TEST_F(TwoModules, AreRoundedOnceInSixteenBits) {
  write_config("{}");
  const std::string name = module(0) + ".weight";
  const at::Tensor exact = CheckpointReader(path().string()).read(name, at::kDouble);
  for (const auto& [dtype, half_unit] :
       {std::pair{at::kBFloat16, 0x1p-8}, std::pair{at::kHalf, 0x1p-11}}) {
    const at::Tensor merged = CheckpointReader(path().string()).read(name, dtype).to(at::kDouble);
    // Numbers about 1; near 0 float16 has fewer bits.
    const at::Tensor off = (merged - exact).abs() / exact.abs().clamp_min(1e-3);
    EXPECT_LT(off.max().item<double>(), 1.0001 * half_unit) << dtype;
  }
}

// As PEFT's get_pattern_key: re.match("(.*\\.)?(KEY)$", module), the file's first key that matches.
TEST_F(TwoModules, TakeTheAlphaOfTheFirstKeyThatMatchesTheirNames) {
  struct Case {
    const char* alphas;
    double first, second;
  };
  for (const Case& c : {
           Case{"{}", 6, 6},
           Case{"null", 6, 6},
           Case{R"({"q_proj": 12})", 12, 12},
           Case{R"({"layers.1.self_attn.q_proj": 12})", 6, 12},
           Case{R"({"model.layers.0.self_attn.q_proj": 12})", 12, 6},
           Case{R"({"proj": 12, "1.self_attn": 12})", 6, 6},
           Case{R"({".*layers\\.0\\..*q_proj": 12})", 12, 6},
           Case{R"({"^model.layers.0.self_attn.q_proj": 12})", 12, 6},
           Case{R"({"layers\\.[1-9]\\d*\\.self_attn\\.(q|v)_proj": 1.5})", 6, 1.5},
           Case{R"({"^(?!.*\\.0\\.).*_proj": 12})", 6, 12},
           // The file's order, which is not the alphabet's.
           Case{R"({"self_attn.q_proj": 12, "layers.0.self_attn.q_proj": 24})", 12, 12},
           Case{R"({"layers.0.self_attn.q_proj": 24, "self_attn.q_proj": 12})", 24, 12},
       }) {
    write_config(c.alphas);
    EXPECT_LT(error_with(0, c.first), 1e-14) << c.alphas;  // one rounding or two in float64
    EXPECT_LT(error_with(1, c.second), 1e-14) << c.alphas;
  }
}

TEST_F(TwoModules, AreRefusedWithAPatternThatCannotBeReadOrCarriedOut) {
  const auto problem_with = [&](const std::string& alphas) {
    write_config(alphas);
    return error_of(path().string());
  };
  const auto expect = [&](const std::string& alphas, const std::string& sentence) {
    const std::string text = problem_with(alphas);
    EXPECT_NE(text.find(sentence), std::string::npos) << text;
    EXPECT_NE(text.find("alpha_pattern"), std::string::npos) << text;
  };
  expect(R"({"q_proj[": 12})", "cannot be read");
  expect(R"({"q_proj": null})", "must be a number");
  expect(R"({"q_proj": "12"})", "must be a number");
  expect(R"({"q_proj": -1})", "must be a number");
  expect(R"(["q_proj"])", "must be an object");
  expect(R"({")" + std::string(3000, 'q') + R"(": 12})", "longer than");
  // More ways to read a name than can be tried.
  expect(R"({"(\\w|[a-z]|\\.)*(\\w|[a-z]|\\.)*\\d": 12})", "too many steps");
  Json many;
  for (int i = 0; i < 10'001; ++i) many["q" + std::to_string(i)] = 1;
  expect(many.dump(), "more than 10000 entries");
}

TEST_F(TwoModules, StandInTheReportWithTheirTypesAndWhatTheyHold) {
  write_config("{}");
  EXPECT_TRUE(open_model(path().string())->report.flagged.empty());
  a_[0][1][2] = std::numeric_limits<double>::quiet_NaN();
  a_[1] = a_[1].to(at::kHalf);
  b_[1] = at::zeros({32, 3}).to(at::kHalf);
  write_matrices();
  const LoadReport report = open_model(path().string())->report;
  EXPECT_EQ(report.dtypes.at("F32"), 30 + 2);
  EXPECT_EQ(report.dtypes.at("F16"), 2);
  std::map<std::string, std::string> flags;
  for (const auto& tensor : report.flagged) flags[tensor.name] = tensor.flag + " " + tensor.dtype;
  EXPECT_EQ(flags, (std::map<std::string, std::string>{
                       {"base_model.model." + module(0) + ".lora_A.weight", "nan F32"},
                       {"base_model.model." + module(1) + ".lora_B.weight", "all zero F16"}}));
}

}  // namespace
}  // namespace phasescope::model
