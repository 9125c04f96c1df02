// Language models inside checkpoints of several kinds of input, and experts that lie in one tensor:
// the cases of transformers in other clothes, against its outputs of them as they are.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "formats/file_system.h"
#include "golden.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/family.h"
#include "tests/model/case_copy.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

// transformers' outputs of the case as it is.
void expect_theirs(const fs::path& model, const fs::path& expected) {
  const ReferenceCheck check = check_against(model.string(), expected);
  EXPECT_TRUE(check.passed) << model;
  EXPECT_GE(check.compared.size(), 5u) << model;
}

// What stands before the names of a trunk's tensors and of its head.
struct Names {
  const char *wrapper, *trunk, *head;
};

TEST(Wrappers, HoldTheModelThatTheirTextConfigDescribes) {
  for (const Names& names :
       {Names{"llava", "language_model.model.", "language_model.lm_head."},  // older files
        Names{"mistral3", "model.language_model.", "lm_head."},
        Names{"smolvlm", "model.text_model.", "lm_head."}}) {
    TemporaryFolder folder;
    const fs::path to = folder.path() / "model";
    copy_case("llama", to);
    const Json inner = formats::json_from_file(to / "config.json");
    write_text(to / "config.json", Json{{"model_type", names.wrapper},
                                        {"architectures", {"SomeForConditionalGeneration"}},
                                        {"text_config", inner}}
                                       .dump());
    NamedTensors tensors = tensors_of(to);
    for (auto& [name, tensor] : tensors) {
      const bool head = name.starts_with("lm_head.");
      name = head ? names.head + name.substr(8) : names.trunk + name.substr(6);
    }
    tensors.emplace_back("vision_tower.patch.weight", at::ones({2, 3}));
    write_tensors(formats::real_file_system(), to / "model.safetensors", tensors);
    expect_theirs(to, golden("hf/models/llama/expected.safetensors"));
    const LoadReport report = open_model(to.string())->report;
    EXPECT_EQ(report.family, "llama");
    EXPECT_TRUE(report.unexpected.empty());
  }
}

TEST(Wrappers, ThatAreNotKnownAreRefusedByName) {
  std::string family;
  const Json inner = {{"model_type", "llama"}};
  for (const auto& [config, told] :
       {std::pair{Json{{"model_type", "paligemma"}, {"text_config", inner}}, "\"paligemma\""},
        std::pair{Json{{"model_type", "llava"}, {"text_config", {{"model_type", "vicuna"}}}},
                  "text_config.model_type is \"vicuna\""},
        std::pair{Json{{"model_type", "llava"}, {"text_config", inner}},
                  "text_config.hidden_size: is missing"}}) {
    try {
      translate({config, {}, "config.json", true}, family);
      ADD_FAILURE() << told;
    } catch (const formats::Error& error) {
      EXPECT_NE(error.full_text().find(told), std::string::npos) << error.full_text();
    }
  }
}

// The language model's rope is that of its own part.
TEST(Wrappers, TellOfARopeOutsideThatIsAnother) {
  Json inner = formats::json_from_file(golden("hf/models/llama") / "config.json");
  const auto told = [&](const Json& outside) {
    Json config = {{"model_type", "llava"}, {"text_config", inner}};
    config.update(outside);
    std::string family, all;
    const Translation read = translate({config, {}, "config.json", true}, family);
    for (const std::string& warning : read.warnings) all += warning + "\n";
    return all;
  };
  EXPECT_EQ(told(Json::object()).find("that of text_config"), std::string::npos);
  EXPECT_EQ(told({{"rope_theta", 1000}, {"rope_scaling", nullptr}}).find("that of text_config"),
            std::string::npos);
  EXPECT_NE(told({{"rope_theta", 777.0}})
                .find("rope_theta 777.0 is not read: the language model's rope is that of "
                      "text_config"),
            std::string::npos);
  EXPECT_NE(told({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})
                .find("rope_scaling {\"factor\":2.0,\"type\":\"linear\"} is not read"),
            std::string::npos);
}

// transformers reads one tensor for each expert, and one for all as its classes have them.
TEST(FusedExperts, AreThoseThatLieByThemselves) {
  int read = 0;
  for (const std::string name : {"qwen3_moe", "deepseek_v3", "laguna", "qwen3_5_moe"}) {
    const fs::path from = golden("hf/models2/" + name);
    if (from.empty()) continue;
    TemporaryFolder folder;
    fs::copy(from / "config.json", folder.path() / "config.json");
    NamedTensors plain = tensors_of(from), fused;
    const auto find = [&](const std::string& wanted) {
      for (const auto& [own, tensor] : plain) {
        if (own == wanted) return tensor;
      }
      return at::Tensor();
    };
    for (const auto& [own, tensor] : plain) {
      const std::size_t at = own.find(".experts.");
      const bool of_one = at != std::string::npos && own.ends_with("_proj.weight") &&
                          own.find("shared") == std::string::npos;
      if (!of_one) {
        fused.emplace_back(own, tensor);
      } else if (own.ends_with(".experts.0.down_proj.weight")) {
        const std::string start = own.substr(0, at + 9);
        std::vector<at::Tensor> down, up;
        for (int n = 0; find(start + std::to_string(n) + ".up_proj.weight").defined(); ++n) {
          const std::string expert = start + std::to_string(n);
          down.push_back(find(expert + ".down_proj.weight"));
          up.push_back(
              at::cat({find(expert + ".gate_proj.weight"), find(expert + ".up_proj.weight")}));
        }
        fused.emplace_back(start + "down_proj", at::stack(down));
        fused.emplace_back(start + "gate_up_proj", at::stack(up));
      }
    }
    ASSERT_LT(fused.size(), plain.size()) << name;
    write_tensors(formats::real_file_system(), folder.path() / "model.safetensors", fused);
    expect_theirs(folder.path(), from / "expected.safetensors");
    ++read;
  }
  if (read == 0) GTEST_SKIP() << "their files are not here";
}

}  // namespace
}  // namespace phasescope::model
