// Requests about changed heads and about models beside each other, handled in this process on small
// random models.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/worker/model_requests.h"
#include "worker/handle_interventions.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

json some_texts(std::int64_t count) {
  json list = json::array();
  for (std::int64_t n = 0; n < count; ++n) {
    list.push_back(
        {{"name", "text " + std::to_string(n)},
         {"text", std::to_string(n) + " is a text of some forty bytes, written down by hand"}});
  }
  return list;
}

json ablation(const json& more) {
  json params = {{"model", model_folder("rope")}, {"corpus", some_texts(4)}, {"texts", "0:4:1"}};
  params.update(more);
  return params;
}

json ablated(const json& more) {
  FakeContext context;
  return ask(interventions_handlers(), "ablate", ablation(more), context).result;
}

// Every reading that is told of opens in another verb, and is what was measured.
TEST(AblateRequests, ReadingsOpenAgain) {
  for (const json& more : {json({{"head", {"L1H0"}}, {"how", "resample"}, {"seed", 3}}),
                           json({{"head", {"all"}}, {"how", "sink"}, {"limit", 0.05}}),
                           json({{"head", {"L1"}}, {"how", "clamp"}, {"limit", 5}}),
                           json({{"set", {"encoding.base=300"}}})}) {
    const json result = ablated(more);
    ASSERT_EQ(result["rows"].size(), 1u);
    EXPECT_NE(result["rows"][0]["loss_change"]["value"], 0);
    EXPECT_EQ(result["model"], model_folder("rope"));
    const json compare =
        ask("compare", {{"models", {model_folder("rope"), result["rows"][0]["reading"]}},
                        {"corpus", some_texts(4)},
                        {"backend", "plain"}})
            .result;
    // Losses are float32 numbers of order 5.
    EXPECT_NEAR(compare["loss_difference"]["value"].get<double>(),
                result["rows"][0]["loss_change"]["value"].get<double>(), 2e-6)
        << result["rows"][0]["reading"];
    EXPECT_NEAR(compare["loss_difference"]["low"].get<double>(),
                result["rows"][0]["loss_change"]["low"].get<double>(), 2e-6);
  }
}

// The rows that are drawn are the same in every text, which the intervals do not show.
TEST(AblateRequests, DrawsThatTextsShareAreSaid) {
  const auto note_of = [](const char* how) {
    return ablated({{"head", {"L1H0"}}, {"how", how}})["provenance"]["note"].get<std::string>();
  };
  EXPECT_NE(note_of("resample").find("is the same in every text"), std::string::npos);
  EXPECT_EQ(note_of("zero").find("in every text"), std::string::npos);
}

TEST(AblateRequests, AreReadAsTheyAreAskedFor) {
  const json result = ablated({{"by", "layer"}, {"how", "mean"}, {"texts", "0:4:2"}});
  EXPECT_EQ(result["texts"], json({"text 0", "text 2"}));
  EXPECT_EQ(result["rows"].size(), 2u);
  EXPECT_EQ(result["passes"], 2 * (1 + 1 + 2));
  EXPECT_FALSE(result["rows"][0]["maps"].empty());
  EXPECT_TRUE(ablated({{"maps", "no"}})["rows"][0]["maps"].empty());
  const std::string command = result["provenance"]["command"];
  EXPECT_TRUE(command.starts_with("phasescope ablate ")) << command;
  EXPECT_EQ(ablated({{"head", {"L0"}}}).dump(), ablated({{"head", {"L0"}}}).dump());
}

TEST(AblateRequests, WhatCannotBeIsRefused) {
  const auto code = [](const json& more) {
    return code_of(interventions_handlers(), "ablate", ablation(more));
  };
  EXPECT_EQ(code({{"head", {"L9H0"}}}), "bad_usage");
  EXPECT_EQ(code({{"how", "window"}}), "bad_usage");
  EXPECT_EQ(code({{"limit", 3}}), "bad_usage");
  EXPECT_EQ(code({{"how", "bias"}, {"limit", 2}}), "not_applicable");
  EXPECT_EQ(code({{"model", headless_folder()}}), "not_applicable");
  EXPECT_EQ(code({{"model", both_ways_folder("rope")}}), "not_applicable");
  FakeContext context;
  context.cancel_when_told = true;
  EXPECT_THROW(ask(interventions_handlers(), "ablate", ablation(json::object()), context),
               std::exception);
}

TEST(CompareRequests, AnyNumberOfModelsStandsBesideTheFirst) {
  const std::string a = model_folder("rope"), b = model_folder("alibi"), c = model_folder("tape");
  const json text = {{"prompt", "some words that are read by every model"}};
  const json all = ask("compare", {{"models", {a, b, c}}, {"input", text}}).result;
  ASSERT_EQ(all["others"].size(), 1u);
  EXPECT_EQ(all["others"][0]["b"], c);
  const json alone = ask("compare", {{"models", {a, c}}, {"input", text}}).result;
  EXPECT_EQ(all["others"][0]["loss"], alone["loss"]);
  EXPECT_EQ(all["others"][0]["heads"], alone["heads"]);
  EXPECT_TRUE(alone["others"].empty());
  EXPECT_EQ(all["provenance"]["models"], json({a, b, c}));
  EXPECT_EQ(code_of("compare", {{"models", {a}}, {"input", text}}), "bad_usage");
}

TEST(CompareRequests, HeadsOfModelsOfOtherSizesAreMatched) {
  model::ModelConfig config = byte_config("rope");
  config.layers = 3, config.heads = config.kv_heads = 4, config.head_dim = 4;
  const std::string larger = model_folder("larger", config);
  const auto reply =
      ask("compare",
          {{"models", {model_folder("rope"), larger}}, {"corpus", some_texts(3)}, {"match", true}});
  EXPECT_EQ(reply.result["matches"].size(), 4u);
  EXPECT_EQ(reply.result["matches"][0]["js_divergence"]["n"], 1);  // text 1 of 0, 1, 2
  const auto* between = protocol::find_tensor(reply.tensors, "js_between");
  ASSERT_NE(between, nullptr);
  EXPECT_EQ(between->shape, (std::vector<std::int64_t>{4, 12}));
}

TEST(CompareRequests, TwoTextsThroughOneModel) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "other.txt";
  std::ofstream(file) << "another text, of another length than that beside it";
  const json params = {{"models", {model_folder("rope")}},
                       {"input", {{"prompt", "some words that are read here"}}},
                       {"other", file.string()}};
  const auto reply = ask("compare", params);
  EXPECT_EQ(reply.result["b"], model_folder("rope") + " on " + file.string());
  EXPECT_NE(reply.result["loss"]["difference"], 0);
  EXPECT_TRUE(notes(reply, "row by row"));
  json two = params;
  two["models"].push_back(model_folder("alibi"));
  EXPECT_EQ(code_of("compare", two), "bad_usage");
}

// JOB/checkpoints is all of them, by their steps as numbers.
TEST(CompareRequests, CheckpointsOfOneRun) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "run" / "checkpoints";
  for (const auto& [step, encoding] :
       {std::pair{"step-100", "rope"}, std::pair{"step-20", "alibi"}, std::pair{"step-3", "t5"}}) {
    fs::create_directories(folder / step);
    fs::copy(model_folder(encoding), folder / step,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }
  const json result =
      ask("compare", {{"models", {folder.string()}}, {"input", {{"prompt", "some words"}}}}).result;
  EXPECT_EQ(result["a"], (folder / "step-3").string());
  EXPECT_EQ(result["b"], (folder / "step-20").string());
  EXPECT_EQ(result["others"][0]["b"], (folder / "step-100").string());
}

TEST(HeadsRequests, WindowsAndDrawsAreThoseAskedFor) {
  const json params = {{"model", model_folder("rope")},
                       {"input", {{"prompt", "some words that are read here"}}},
                       {"windows", {4, 9}},
                       {"draws", 5}};
  const json result = ask("heads", params).result;
  EXPECT_TRUE(result["rows"][0].contains("window_mass_9"));
  EXPECT_FALSE(result["rows"][0].contains("window_mass_64"));
  EXPECT_EQ(result["rows"][0]["intervals"]["induction"]["n"], 5);
  EXPECT_EQ(result["model_values"]["induction_loss"]["n"], 5);
  json bad = params;
  bad["windows"] = {1, 2, 3, 4};
  EXPECT_EQ(code_of("heads", bad), "bad_usage");
}

}  // namespace
}  // namespace phasescope::worker
