// The requests about models and analyses, handled in this process on a small random model.
#include <gtest/gtest.h>

#include "protocol/results.h"
#include "tests/worker/fake_context.h"
#include "worker/handle_analysis.h"
#include "worker/handle_models.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

std::vector<Handler> handlers() {
  auto all = models_handlers();
  for (Handler& handler : analysis_handlers()) all.push_back(std::move(handler));
  return all;
}

protocol::Reply ask(const std::string& method, const json& params, FakeContext& context) {
  return ask(handlers(), method, params, context);
}

protocol::Reply ask(const std::string& method, const json& params) {
  FakeContext context;
  return ask(method, params, context);
}

std::string code_of(const std::string& method, const json& params) {
  return code_of(handlers(), method, params);
}

json rope_with(json params) {
  params["model"] = model_folder("rope");
  return params;
}

TEST(Requests, ProvenanceSaysWhatMakesTheResultAgain) {
  const auto reply = ask("heads", rope_with({{"input", {{"prompt", "hello there"}}}, {"seed", 4}}));
  const auto result = protocol::from_json_form<protocol::HeadsResult>(reply.result);
  EXPECT_EQ(result.provenance.version, "9.9.9");
  EXPECT_EQ(result.provenance.text_hash.size(), 64u);
  EXPECT_EQ(result.provenance.model_hashes.at(0).size(), 64u);
  EXPECT_EQ(result.provenance.seed, 4);
  EXPECT_FALSE(result.provenance.kernel.empty());
  EXPECT_NE(result.provenance.command.find("phasescope heads"), std::string::npos);
  EXPECT_NE(result.provenance.command.find("--prompt \"hello there\""), std::string::npos);
}

TEST(Requests, TextsAreCutToTheContextAndSaySo) {
  const std::string text(500, 'x');
  const auto cut = ask("text.read", rope_with({{"input", {{"text", text}}}}));
  EXPECT_EQ(cut.result["tokens"].size(), 64u);
  EXPECT_NE(cut.result["provenance"]["note"].get<std::string>().find("cut to 64 of 501"),
            std::string::npos);
  const auto longer = ask("text.read", rope_with({{"input", {{"text", text}}}, {"length", 300}}));
  EXPECT_EQ(longer.result["tokens"].size(), 300u);
  EXPECT_TRUE(longer.result["bits_per_byte"].is_number());
}

TEST(Requests, InputsOfEveryKind) {
  const json ids = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(ask("capture", rope_with({{"input", {{"ids", ids}}}})).tensor("logits").shape,
            (std::vector<std::int64_t>{1, 8, 256}));
  const auto batch =
      ask("capture", rope_with({{"input", {{"ids", {ids, ids}}}}, {"what", "attn.1"}}));
  EXPECT_EQ(batch.tensor("attn.1").shape, (std::vector<std::int64_t>{2, 2, 8, 8}));
  FakeContext context;
  context.sent.push_back(protocol::TensorRef::own<std::int64_t>("input_ids", {1, 4}, {9, 8, 7, 6}));
  const auto sent = ask("capture", rope_with({{"input", {{"inputs", ""}}}}), context);
  EXPECT_EQ(sent.tensor("logits").shape[1], 4);
  const auto corpus = ask("heads", rope_with({{"input", {{"corpus", {"one text", "another"}}}}}));
  EXPECT_TRUE(corpus.result["rows"][0]["entropy"].is_object());
  const auto one = ask("heads", rope_with(json::object()));
  EXPECT_TRUE(one.result["rows"][0]["entropy"].is_number());
}

TEST(Requests, BadInputIsSaid) {
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"text", ""}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"ids", {1, 999}}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"ids", {1, "a"}}}}})), "bad_input");
  EXPECT_EQ(code_of("heads", rope_with({{"input", {{"words", "x"}}}})), "bad_usage");
  EXPECT_EQ(code_of("heads", rope_with({{"metrics", {"nothing"}}})), "bad_usage");
  EXPECT_EQ(code_of("heads", {{"input", {{"text", "x"}}}}), "bad_usage");
  EXPECT_EQ(code_of("heads", {{"model", "/no/such/model"}}), "bad_input");
  EXPECT_EQ(code_of("map", rope_with({{"head", "L9H0"}})), "bad_usage");
  EXPECT_EQ(code_of("map", rope_with({{"head", "L0H0"}, {"rows", {5, 900}}})), "bad_usage");
  EXPECT_EQ(code_of("map", rope_with({{"of", "nothing"}})), "bad_usage");
  EXPECT_EQ(code_of("shift", rope_with({{"method", "sideways"}})), "bad_usage");
  EXPECT_EQ(code_of("theory", rope_with({{"check", "no.such"}})), "bad_usage");
  EXPECT_EQ(code_of("compare", rope_with(json::object())), "bad_usage");
  EXPECT_EQ(code_of("check", rope_with(json::object())), "bad_usage");
}

TEST(Requests, CancelledRequestsStop) {
  FakeContext context;
  context.cancel = true;
  EXPECT_ANY_THROW(ask("distance", rope_with({{"corpus", true}}), context));
}

TEST(Requests, MapGivesItsTensors) {
  const auto reply = ask("map", rope_with({{"input", {{"prompt", "abcdefghij"}}},
                                           {"head", "L1"},
                                           {"rows", "2:6"},
                                           {"size", {2, 3}},
                                           {"of", "positional"}}));
  EXPECT_EQ(reply.tensor("map").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(reply.tensor("row_profile").shape[0], 2);
  EXPECT_EQ(reply.tensor("column_profile").shape[0], 3);
  EXPECT_EQ(reply.result["head"], -1);
}

TEST(Requests, SeveralModels) {
  const json models = {model_folder("rope"), model_folder("tapa")};
  const auto distance = ask("distance", {{"models", models},
                                         {"corpus",
                                          {"a text of some length, "
                                           "longer than the context of sixty-four tokens it is",
                                           "another text of some length, longer than the context "
                                           "of sixty-four tokens"}},
                                         {"pairs", 50}});
  ASSERT_EQ(distance.result["models"].size(), 2u);
  EXPECT_EQ(distance.result["models"][0]["histogram"]["pairs"], 50);
  EXPECT_FALSE(distance.result["models"][0]["intrinsic"].empty());
  EXPECT_TRUE(distance.result["models"][1]["intrinsic"].empty());
  const auto shift = ask(
      "shift",
      {{"models", models}, {"by", {3}}, {"method", "ids"}, {"input", {{"prompt", "some text"}}}});
  EXPECT_EQ(shift.result["rows"].size(), 2u * 2 * 2);  // models, dtypes, layers
  const auto theory = ask("theory", {{"models", models}, {"check", "tape.shift"}});
  EXPECT_EQ(theory.result["checks"][0]["verdict"], "holds");
  EXPECT_EQ(theory.result["checks"][1]["verdict"], "premise_not_met");
  const auto compare = ask("compare", {{"models", models}});
  EXPECT_EQ(compare.result["heads"].size(), 4u);
}

TEST(Requests, AboutModels) {
  const auto info = ask("model.info", rope_with(json::object()));
  EXPECT_EQ(info.result["encoding"], "rope");
  EXPECT_EQ(info.result["model"]["context"], 64);
  EXPECT_TRUE(ask("models.list", json::object()).result["models"].is_array());
  const auto cost = ask("cost", rope_with({{"length", 128}}));
  EXPECT_GT(cost.result["executed"]["macs"].get<double>(), 0);
  const auto config = ask("cost", {{"model", model_folder("rope") + "/config.json"}});
  EXPECT_EQ(config.result["length"], 1024);
}

TEST(Requests, TokenizeGoesBothWays) {
  const auto with = ask("tokenize", rope_with({{"input", {{"text", "hi"}}}}));
  EXPECT_EQ(with.result["ids"], json({0, 'h', 'i'}));
  EXPECT_EQ(with.result["decoded"], "hi");
  const auto without =
      ask("tokenize", rope_with({{"input", {{"text", "hi"}}}, {"no_special", true}}));
  EXPECT_EQ(without.result["ids"], json({'h', 'i'}));
  const auto back = ask("tokenize", rope_with({{"input", {{"ids", {0, 'o', 'k'}}}}}));
  EXPECT_EQ(back.result["decoded"], "ok");
}

TEST(Requests, GenerateAndPatterns) {
  const auto text = ask(
      "generate", rope_with({{"input", {{"prompt", "so"}}}, {"tokens", 5}, {"temperature", 1.0}}));
  EXPECT_EQ(text.result["ids"].size(), 5u);
  const auto patterns = ask("patterns", rope_with({{"input", {{"prompt", "abcdef"}}}}));
  EXPECT_EQ(patterns.tensor("pe_dot.0").shape[0], 7);
  EXPECT_FALSE(ask("theory.list", json::object()).result["checks"].empty());
}

}  // namespace
}  // namespace phasescope::worker
