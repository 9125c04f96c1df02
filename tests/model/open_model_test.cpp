#include "model/checkpoints/open_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "golden.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/structure.h"
#include "tests/model/case_copy.h"
#include "tests/model/open_error.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

TEST(OpenModel, MissingFilesAndUnknownNamesAreOneSentence) {
  EXPECT_NE(error_of("no/such/folder").find("there is no model"), std::string::npos);
  TemporaryFolder empty;
  EXPECT_NE(error_of(empty.path().string()).find("no config.json"), std::string::npos);
  write_text(empty.path() / "a.safetensors", "x");
  EXPECT_NE(error_of((empty.path() / "a.safetensors").string()).find("no config.json beside"),
            std::string::npos);
}

// On a device that of the file where attention's kernels take it; here float32, whatever the file
// has.
TEST(OpenModel, IsComputedInTheFilesDtypeOnADevice) {
  const auto model = random_model(tiny_config("rope"), 3);
  for (const auto& [stored, there] :
       std::map<at::ScalarType, at::ScalarType>{{at::kFloat, at::kFloat},
                                                {at::kDouble, at::kFloat},
                                                {at::kHalf, at::kHalf},
                                                {at::kBFloat16, at::kBFloat16}}) {
    SCOPED_TRACE(at::toString(stored));
    const TemporaryFolder folder;
    save_model(formats::real_file_system(), folder.path(), model->config(), model->encoding(),
               model->decoder.weights(), stored);
    const std::string path = folder.path().string();
    EXPECT_EQ(dtype_to_compute_in("auto", at::kMeta, path), there);
    EXPECT_EQ(dtype_to_compute_in("auto", at::kCPU, path), at::kFloat);
    EXPECT_EQ(dtype_to_compute_in("f64", at::kMeta, path), at::kDouble);
  }
  EXPECT_EQ(dtype_to_compute_in("auto", at::kMeta, "proof-sink"), at::kFloat);
  EXPECT_THROW(dtype_to_compute_in("f12", at::kMeta, "proof-sink"), formats::Error);
}

TEST(OpenModel, ReportsWhatItFound) {
  const auto model = open_model(golden("hf/models/llama").string());
  EXPECT_EQ(model->report.family, "llama");
  EXPECT_EQ(model->report.dtypes.at("F32"), 30);
  // 256 x 32 twice, 3 layers of 4 x 32 x 32 + 3 x 32 x 43 + 2 x 32, and the last norm.
  EXPECT_EQ(model->report.parameters, 2 * 256 * 32 + 3 * (4 * 1024 + 3 * 1376 + 64) + 32);
  EXPECT_EQ(model->report.sha256,
            formats::sha256_of_file(golden("hf/models/llama/model.safetensors")));
  const auto hub = open_model(golden("hf/models/llama_hub_names").string());
  ASSERT_EQ(hub->report.quirks.size(), 1u);  // a stored inv_freq a layer
  EXPECT_NE(hub->report.quirks[0].find("(3 tensors)"), std::string::npos) << hub->report.quirks[0];
  const auto tied = open_model(golden("hf/models/llama_gqa_tied").string());
  EXPECT_EQ(tied->report.tied.size(), 1u);
  const TemporaryFolder folder;
  fs::copy(golden("papers/tape/adape/model.safetensors"), folder.path() / "model.safetensors");
  Json config = formats::json_from_file(golden("papers/tape/adape/config.json"));
  config["rope_theta"] = 50000.0;
  std::ofstream(folder.path() / "config.json") << config.dump();
  const auto tape = open_model(folder.path().string());
  EXPECT_EQ(tape->report.family, "tape_public");
  EXPECT_EQ(tape->report.encoding_why, "rpe_type is \"adape\"");
  EXPECT_EQ(tape->encoding().options().at("base").get<double>(), 50000);
  EXPECT_GE(tape->report.quirks.size(), 3u);
}

// What a family's code does otherwise than the plain transformer is listed, whichever family it is.
TEST(OpenModel, ListsTheQuirksThatItReproduces) {
  const std::map<std::string, std::vector<std::string>> quirks = {
      {"gemma3",
       {"norms multiply by 1 + their weights", "norms stand before and behind attention and MLP",
        "q and k are normed, each head by itself", "the embedding is multiplied by",
        "see keys less than", "have a positional encoding of their own: rope"}},
      {"t5", {"scores are q.k times 1, ", "logits are multiplied by"}},
      {"opt_350m_style", {"norms stand behind", "wide and projected"}},
      {"bert", {"norms stand behind", "the embedding is normed"}},
      {"llama", {}},
  };
  for (const auto& [name, sentences] : quirks) {
    const auto found = open_model(golden("hf/models/" + name).string())->report.quirks;
    for (const std::string& sentence : sentences) {
      EXPECT_TRUE(std::ranges::any_of(
          found,
          [&](const std::string& quirk) { return quirk.find(sentence) != std::string::npos; }))
          << name << ": " << sentence;
    }
    if (name == "llama") {
      EXPECT_TRUE(found.empty()) << found[0];
    }
  }
  ModelConfig capped = tiny_config("rope");
  capped.attention.soft_cap = 50, capped.head.soft_cap = 30;
  EXPECT_EQ(structure_quirks(capped),
            (std::vector<std::string>{"logits are capped: x becomes 30 tanh(x / 30)",
                                      "scores are capped: x becomes 50 tanh(x / 50)"}));
}

TEST(OpenModel, KnowsTapeByItsTensorsAlone) {
  TemporaryFolder folder;
  fs::copy(golden("papers/tape/adape/model.safetensors"), folder.path() / "model.safetensors");
  Json config = formats::json_from_file(golden("papers/tape/adape/config.json"));
  config.erase("rpe_type");
  write_text(folder.path() / "config.json", config.dump());
  const auto model = open_model(folder.path().string());
  EXPECT_EQ(model->config().encoding.key, "tape");
  EXPECT_EQ(model->report.encoding_why, "the tensors pe.up_proj are there");
}

TEST(OpenModel, OverridesChangeTheEncoding) {
  const std::string llama = golden("hf/models/llama").string();
  const auto model = open_model(llama, {.overrides = {{"rope.base", "1e6"}}});
  EXPECT_EQ(model->encoding().options().at("base").get<double>(), 1e6);
  EXPECT_NE(error_of(llama, {.overrides = {{"rope.bsae", "1"}}}).find("near: base"),
            std::string::npos);
  EXPECT_NE(error_of(llama, {.overrides = {{"encoding.key", "tape"}}}).find("up_proj"),
            std::string::npos);
}

// Readings of one file share its tensors.
TEST(OpenModel, AReadingHasItsOwnNameAndTheSameWeights) {
  const auto model = open_model(golden("hf/models/llama").string());
  const auto reading = with_overrides(
      model, {{"encoding.scaling", "yarn"}, {"encoding.factor", "2"}}, "llama (yarn x2)");
  EXPECT_EQ(reading->report.name, "llama (yarn x2)");
  EXPECT_EQ(reading->report.quirks.back(), "--set encoding.factor=2");
  EXPECT_TRUE(
      reading->decoder.weights().layers[0].wq.is_same(model->decoder.weights().layers[0].wq));
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 20, 80);
  EXPECT_GT(relative_error(reading->decoder.forward(ids), model->decoder.forward(ids)), 1e-4);
}

TEST(OpenModel, OnlyWhatRotatesTakesAScaling) {
  const std::string gpt2 = golden("hf/models/gpt2").string();
  const std::string text = error_of(gpt2, {.overrides = {{"encoding.scaling", "yarn"}}});
  EXPECT_NE(text.find("learned has no option \"scaling\""), std::string::npos) << text;
}

TEST(OpenModel, TellsHowFarItIsAndCanBeCancelled) {
  const std::string sharded = golden("hf/models/llama_sharded").string();
  std::vector<double> told;
  open_model(sharded,
             {.progress = [&told](const LoadProgress& load) { told.push_back(load.fraction()); }});
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1);
  EXPECT_EQ((LoadProgress{1'200'000'000, 13'500'000'000, 6}.words()), "1.2 of 13.5 GB, 62 s left");
  EXPECT_EQ((LoadProgress{250'000, 1'000'000, 0.1}.words()), "0.2 of 1.0 MB");
  int asked = 0;
  try {
    open_model(sharded, {.cancelled = [&asked] { return ++asked > 12; }});
    ADD_FAILURE() << "it opened";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "cancelled");
  }
  EXPECT_EQ(asked, 13);
}

// Bare models: everything but logits.
TEST(Headless, ModelsOpenAndSayThatTheyHaveNoLogits) {
  for (const std::string name : {"llama", "bert", "gpt2"}) {
    TemporaryFolder folder;
    copy_case(name, folder.path());
    NamedTensors kept;
    for (auto& [tensor, value] : tensors_of(folder.path())) {
      const bool head = tensor.starts_with("lm_head.") || tensor.starts_with("cls.");
      if (!head) kept.emplace_back(tensor, value);
    }
    write_tensors(formats::real_file_system(), folder.path() / "model.safetensors", kept);
    Json config = formats::json_from_file(folder.path() / "config.json");
    if (name != "llama") config["architectures"] = {name == "bert" ? "BertModel" : "GPT2Model"};
    write_text(folder.path() / "config.json", config.dump());
    const auto model = open_model(folder.path().string());
    EXPECT_FALSE(model->config().head.present) << name;
    EXPECT_FALSE(model->report.warnings.empty()) << name;
    EXPECT_TRUE(model->report.missing.empty() && model->report.unexpected.empty()) << name;
    const ReferenceCheck check = check_against(
        folder.path().string(), golden("hf/models/" + name + "/expected.safetensors"));
    EXPECT_TRUE(check.passed) << name;
    EXPECT_GE(check.compared.size(), 5u) << name;
    EXPECT_THROW(model->decoder.forward(random_ids(1, 5, 80)), formats::Error) << name;
  }
}

// The encoder of a T5 alone, against the encoder of the whole.
TEST(Headless, AnEncoderOfAnEncoderDecoderOpensAlone) {
  TemporaryFolder folder;
  copy_case("t5", folder.path());
  NamedTensors kept;
  for (auto& [tensor, value] : tensors_of(folder.path())) {
    if (!tensor.starts_with("decoder.")) kept.emplace_back(tensor, value);
  }
  write_tensors(formats::real_file_system(), folder.path() / "model.safetensors", kept);
  const auto model = open_model(folder.path().string());
  EXPECT_FALSE(model->config().attention.causal);
  const std::string expected = "hf/models/t5/expected.safetensors";
  const at::NoGradGuard no_grad;
  EXPECT_LT(relative_error(model->decoder.hidden(golden_tensor(expected, "input_ids")),
                           golden_tensor(expected, "enc.hidden.2")),
            1e-5);
}

TEST(Structure, Row20_PositionsPastALearnedTableAreAnErrorThatNamesBoth) {
  const auto model = open_model(golden("hf/models/gpt2").string());
  const std::int64_t rows = model->config().context;
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, rows, 80);
  EXPECT_NO_THROW(model->decoder.forward(ids));
  try {
    model->decoder.forward(ids, {.shift = 5});
    ADD_FAILURE() << "a position past the table was read";
  } catch (const formats::Error& error) {
    EXPECT_NE(error.message().find("position " + std::to_string(rows + 4)), std::string::npos)
        << error.message();
    EXPECT_NE(error.message().find(std::to_string(rows) + " positions"), std::string::npos);
  }
}

// Padding in front: texts of a batch must give what they give alone.
TEST(Structure, PaddedTextsGiveWhatTheyGiveAlone) {
  for (const std::string name : {"opt_350m_style", "mpt", "bert"}) {
    const auto model = open_model(golden("hf/models/" + name).string(), {.dtype = at::kDouble});
    const at::NoGradGuard no_grad;
    const at::Tensor text = random_ids(1, 12, 80);
    const at::Tensor alone = model->decoder.forward(text);
    const std::int64_t padding = 4;
    // Where positions do not count padding they are given.
    ForwardOptions options;
    if (!model->config().positions_skip_padding) {
      options.position_ids = (at::arange(12 + padding, at::kLong) - padding).clamp_min(0);
    }
    options.key_mask = at::ones({1, 12 + padding}, at::kLong);
    options.key_mask.narrow(1, 0, padding).zero_();
    const at::Tensor padded =
        model->decoder.forward(at::constant_pad_nd(text, {padding, 0}, 1), options);
    EXPECT_LT(relative_error(padded.slice(1, padding), alone), 1e-12) << name;
  }
}

TEST(Structure, AWindowHidesWhatLiesPastIt) {
  ModelConfig config = tiny_config("rope");
  config.layers = 1;
  config.attention.window = 5;
  config.attention.local_layers = {0};
  const auto model = random_model(config, 3, at::kDouble);
  const at::NoGradGuard no_grad;
  at::Tensor ids = random_ids(1, 20, config.vocab_size);
  const at::Tensor before = model->decoder.forward(ids).select(1, 19);
  ids[0][14] = (ids[0][14] + 1) % config.vocab_size;
  EXPECT_TRUE(model->decoder.forward(ids).select(1, 19).equal(before));
  ids[0][15] = (ids[0][15] + 1) % config.vocab_size;
  EXPECT_FALSE(model->decoder.forward(ids).select(1, 19).equal(before));
}

TEST(SavedModels, OpenToTheSameWeights) {
  for (const EncodingEntry& entry : encodings()) {
    ModelConfig config = tiny_config(entry.info->key);
    config.tokenizer = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
    config.vocab_size = 256;
    const auto model = random_model(config, 9);
    TemporaryFolder folder;
    save_model(formats::real_file_system(), folder.path(), config, model->encoding(),
               model->decoder.weights());
    const auto again = open_model(folder.path().string());
    EXPECT_EQ(again->report.family, "phasescope");
    EXPECT_EQ(again->report.tokenizer, "bytes");
    EXPECT_TRUE(again->report.unexpected.empty() && again->report.missing.empty());
    const at::NoGradGuard no_grad;
    const at::Tensor ids = random_ids(1, 20, config.vocab_size);
    EXPECT_TRUE(again->decoder.forward(ids).equal(model->decoder.forward(ids))) << entry.info->key;
  }
}

TEST(SavedModels, AJobOpensItsNewestCheckpointThatVerifies) {
  const auto model = random_model(tiny_config("rope"), 9);
  TemporaryFolder job;
  for (const int step : {100, 200, 1000}) {
    const fs::path folder = job.path() / "checkpoints" / ("step-" + std::to_string(step));
    fs::create_directories(folder);
    save_model(formats::real_file_system(), folder, model->config(), model->encoding(),
               model->decoder.weights());
    Json files = Json::array();
    for (const char* name : {"config.json", "model.safetensors"}) {
      files.push_back({{"name", name},
                       {"size", fs::file_size(folder / name)},
                       {"sha256", formats::sha256_of_file(folder / name)}});
    }
    write_text(folder / "manifest.json", Json{{"files", files}}.dump());
  }
  write_text(job.path() / "config.json", "{\"model\": {}}");  // the run's, not a model's
  const auto newest = open_model(job.path().string());
  EXPECT_EQ(newest->report.name, job.path().string());  // as asked for
  EXPECT_TRUE(newest->report.path.ends_with("step-1000")) << newest->report.path;
  write_text(job.path() / "checkpoints/step-1000/config.json", "{}");
  const auto older = open_model(job.path().string());
  EXPECT_TRUE(older->report.path.ends_with("step-200")) << older->report.path;
  EXPECT_EQ(older->report.warnings.size(), 1u);
}

TEST(InitialWeights, FollowTheRecipeAndTheSeed) {
  ModelConfig config = tiny_config("kerple_log");
  config.width = 96;
  config.heads = config.kv_heads = 12;
  const auto encoding = make_encoding(config);
  const Weights weights = init_weights(config, *encoding, 1);
  const double residual = config.init_std / std::sqrt(2.0 * 2);
  // 96 x 96 samples: the standard deviation is known to 1 %.
  EXPECT_NEAR(weights.layers[0].wq.std().item<double>(), config.init_std, 0.05 * config.init_std);
  EXPECT_NEAR(weights.layers[1].wo.std().item<double>(), residual, 0.05 * residual);
  EXPECT_TRUE(weights.final_norm.eq(1).all().item<bool>());
  EXPECT_LE(weights.layers[0].encoding.at("p").max().item<double>(), 2.0);
  EXPECT_TRUE(weights.embedding.equal(init_weights(config, *encoding, 1).embedding));
  EXPECT_FALSE(weights.embedding.equal(init_weights(config, *encoding, 2).embedding));
}

TEST(Ids, AreCheckedBeforeAnythingRuns) {
  const auto model = random_model(tiny_config("rope"), 1);
  const auto text_of = [&](const at::Tensor& ids) {
    try {
      model->decoder.forward(ids);
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(text_of(at::tensor({1, 29}, at::kLong).unsqueeze(0)),
            "token id 29 is outside the model's vocabulary of 29");
  EXPECT_EQ(text_of(at::tensor({-3, 2}, at::kLong).unsqueeze(0)),
            "token id -3 is outside the model's vocabulary of 29");
  EXPECT_NE(text_of(at::empty({1, 0}, at::kLong)).find("no tokens"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::model
