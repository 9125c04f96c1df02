// Requests about readings: a model with other settings than its own.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/model_requests.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

// Logits of a text twice as long as trained.
at::Tensor logits_of(json params, FakeContext& context) {
  params["input"] = {{"text", std::string(127, 'x')}};
  params["length"] = 128;
  const auto reply = ask("capture", params, context);
  const auto values = reply.tensor("logits").values<float>();
  return at::tensor(std::vector<float>(values.begin(), values.end()));
}

TEST(Readings, ANameOrASetReadsTheModelWithAnotherScaling) {
  FakeContext context;
  const std::string rope = model_folder("rope");
  const at::Tensor plain = logits_of({{"model", rope}}, context);
  const at::Tensor named = logits_of({{"model", rope + " (linear x2)"}}, context);
  const at::Tensor set = logits_of(
      {{"model", rope}, {"set", {"encoding.scaling=linear", "encoding.factor=2"}}}, context);
  EXPECT_TRUE(named.equal(set));
  // Position interpolation by its definition: at doubled positions it is the model as it stands.
  const auto model = context.models().open(rope, {}, context);
  const auto reading = context.models().open(rope + " (linear x2)", {}, context);
  EXPECT_TRUE(reading->decoder.weights().embedding.is_same(model->decoder.weights().embedding));
  EXPECT_EQ(reading->report.name, model->report.name + " (linear x2)");
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::full({1, 30}, 'x', at::kLong);
  const at::Tensor halved = reading->decoder.forward(
      ids, {.backend = model::Backend::plain, .position_ids = 2 * at::arange(30, at::kLong)});
  EXPECT_TRUE(at::allclose(halved, model->decoder.forward(ids), 1e-4, 1e-5));
  EXPECT_FALSE(at::allclose(plain, named, 1e-4, 1e-5));
}

TEST(Readings, TheReportSaysWhatIsInForce) {
  const auto info =
      ask("model.info", {{"model", model_folder("rope") + " (yarn x2)"}, {"length", 512}});
  EXPECT_EQ(info.result["scaling"], "yarn x2 over 64 tokens");
  EXPECT_EQ(info.result["length"], 512);
  EXPECT_GT(info.result["memory_bytes"], info.result["memory_bytes_at_context"]);
  EXPECT_NE(info.result["model"]["name"].get<std::string>().find("(yarn x2)"), std::string::npos);
  const auto idle = ask("model.info", rope_with({{"set", {"encoding.scaling=ntk"}}}));
  ASSERT_EQ(idle.result["warnings"].size(), 1u);
  EXPECT_EQ(idle.result["warnings"][0],
            "the scaling ntk has the factor 1, which changes nothing: set encoding.factor");
  EXPECT_EQ(code_of("model.info", {{"model", model_folder("alibi") + " (yarn x2)"}}), "bad_usage");
  EXPECT_EQ(code_of("heads", {{"model", model_folder("none")}, {"set", {"encoding.scaling=yarn"}}}),
            "bad_usage");
}

// Whoever has two settings wrong hears of both.
TEST(Readings, EveryWrongSettingIsTold) {
  const std::string both = message_of(
      "model.info", rope_with({{"set", {"contxt=9", "encoding.base=-1", "context=32"}}}));
  EXPECT_NE(both.find("2 settings cannot be used"), std::string::npos) << both;
  EXPECT_NE(both.find("contxt"), std::string::npos) << both;
  EXPECT_NE(both.find("encoding.base=-1"), std::string::npos) << both;
  EXPECT_EQ(both.find("context=32"), std::string::npos) << both;
  const std::string one = message_of("model.info", rope_with({{"set", {"contxt=9"}}}));
  EXPECT_EQ(one.find("settings cannot"), std::string::npos) << one;
  // Options of an encoding that could not be set are held against no other one.
  const std::string named =
      message_of("cost", rope_with({{"set", {"encoding.key=tapaa", "encoding.alpha=0.2"}}}));
  EXPECT_NE(named.find("tapaa"), std::string::npos) << named;
  EXPECT_EQ(named.find("alpha"), std::string::npos) << named;
  const std::string malformed = message_of("heads", rope_with({{"set", {"a", "b"}}}));
  EXPECT_NE(malformed.find("'a'"), std::string::npos) << malformed;
  EXPECT_NE(malformed.find("'b'"), std::string::npos) << malformed;
}

TEST(Readings, TheCommandGivesThemAgain) {
  const auto reply =
      ask("heads", rope_with({{"set", {"encoding.scaling=yarn", "encoding.factor=2"}},
                              {"input", {{"prompt", "words"}}}}));
  const std::string command = reply.result["provenance"]["command"];
  EXPECT_NE(command.find(" --set encoding.scaling=yarn --set encoding.factor=2"), std::string::npos)
      << command;
  const auto named = ask(
      "heads", {{"model", model_folder("rope") + " (yarn x2)"}, {"input", {{"prompt", "words"}}}});
  EXPECT_NE(named.result["provenance"]["command"].get<std::string>().find("rope (yarn x2)' "),
            std::string::npos);
}

TEST(Readings, EveryMethodTakesThem) {
  const std::string yarn = model_folder("rope") + " (yarn x2)";
  const json set = {"encoding.scaling=yarn", "encoding.factor=2"};
  for (const char* method : {"heads", "map", "patterns", "text.read", "capture", "generate"}) {
    const auto named = ask(method, {{"model", yarn}, {"input", {{"prompt", "some words"}}}});
    const auto with_set =
        ask(method,
            {{"model", model_folder("rope")}, {"set", set}, {"input", {{"prompt", "some words"}}}});
    EXPECT_EQ(named.result["model"], with_set.result["model"]) << method;
    EXPECT_NE(named.result["model"].get<std::string>().find("(yarn x2)"), std::string::npos)
        << method;
  }
  const json macs = ask("cost", {{"model", model_folder("rope")}, {"length", 64}}).result["macs"];
  for (const std::string file : {"", "/config.json"}) {  // of sizes that have no weights, too
    const auto cost = ask(
        "cost", {{"model", model_folder("rope") + file}, {"set", {"layers=4"}}, {"length", 64}});
    EXPECT_GT(cost.result["macs"], macs) << file;
  }
  EXPECT_EQ(code_of("heads", rope_with({{"set", {"layers=4"}}})), "bad_input");
  const auto compare = ask("compare", {{"models", {model_folder("rope"), yarn}}});
  EXPECT_NE(compare.result["loss"]["difference"].get<double>(), 0);
}

}  // namespace
}  // namespace phasescope::worker
