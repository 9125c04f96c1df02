// The requests about extrapolation tasks, handled in this process on small random models.
#include <cmath>
#include <map>

#include "model/attention/attention.h"
#include "protocol/messages/eval.h"
#include "tests/worker/fake_context.h"
#include "worker/handle_eval.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

const std::string text =
    "A text of a hundred bytes or so, read by two models at two lengths, each of "
    "which has weights drawn at random.";

json request() {
  return {{"task", "perplexity"},
          {"models", {model_folder("rope"), model_folder("alibi")}},
          {"lengths", {16, 32}},
          {"input", {{"text", text}, {"name", "a text"}}}};
}

json with(const std::string& key, const json& value) {
  json params = request();
  params[key] = value;
  return params;
}

TEST(EvalRequests, TheListSaysWhatATaskIsAndTakes) {
  FakeContext context;
  const json tasks = ask(eval_handlers(), "eval.list", json::object(), context).result["tasks"];
  ASSERT_FALSE(tasks.empty());
  EXPECT_EQ(tasks[0]["key"], "perplexity");
  for (const json& task : tasks) {
    EXPECT_FALSE(task["title"].empty());
    EXPECT_FALSE(task["source"].empty());
    for (const json& option : task["options"]) EXPECT_FALSE(option["help"].empty());
  }
}

TEST(EvalRequests, EveryModelHasARowALengthAndSaysWhereItComesFrom) {
  FakeContext context;
  const auto reply = ask(eval_handlers(), "eval", request(), context);
  const auto result = protocol::from_json_form<protocol::EvalResult>(reply.result);
  ASSERT_EQ(result.rows.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.rows[i].model, model_folder(i < 2 ? "rope" : "alibi"));
    EXPECT_EQ(result.rows[i].length, i % 2 ? 32 : 16);
    // Weights near zero know nothing of bytes.
    EXPECT_NEAR(result.rows[i].value, 8, 0.5);
  }
  ASSERT_EQ(result.provenance.size(), 2u);
  EXPECT_EQ(result.provenance[1].models, std::vector{model_folder("alibi")});
  EXPECT_EQ(result.provenance[1].model_hashes.at(0).size(), 64u);
  EXPECT_EQ(result.provenance[0].version, "9.9.9");
  EXPECT_NE(result.provenance[0].command.find("phasescope eval"), std::string::npos);
  EXPECT_EQ(result.provenance[0].kernel, model::fused_kernel_name());
  EXPECT_EQ(context.last_fraction, 1);
}

// What the window asks of a table of 64 positions (tests/app/window_session_test.cpp, EvalLengths).
TEST(EvalRequests, ALearnedTableIsReadAtItsWholeLength) {  // 17.A1
  FakeContext context;
  json params = with("models", {model_folder("learned")});
  params["lengths"] = {16, 32, 64};
  const auto reply = ask(eval_handlers(), "eval", params, context);
  const auto result = protocol::from_json_form<protocol::EvalResult>(reply.result);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[2].length, 64);
  EXPECT_TRUE(std::isfinite(result.rows[2].value));
}

// One length that no text has does not cost the others.
TEST(EvalRequests, ALengthWithoutATextIsLeftOutAlone) {  // 17.A8
  FakeContext context;
  const auto reply = ask(eval_handlers(), "eval", with("lengths", {32, 512}), context);
  const auto result = protocol::from_json_form<protocol::EvalResult>(reply.result);
  ASSERT_EQ(result.rows.size(), 2u);  // a model each
  EXPECT_EQ(result.rows[1].length, 32);
  EXPECT_NE(result.provenance.at(0).note.find("left out is a length of 512"), std::string::npos);
}

// CoPE's positions depend on the content, which has no fused form; asked for or not, that is said.
TEST(EvalRequests, AFallbackIsNamed) {
  FakeContext context;
  const auto reply = ask(eval_handlers(), "eval", with("models", {model_folder("cope")}), context);
  const auto result = protocol::from_json_form<protocol::EvalResult>(reply.result);
  EXPECT_EQ(
      result.provenance.at(0).kernel,
      "plain (a distance that is counted from the scores of all keys between has no fused form)");
  EXPECT_EQ(code_of(eval_handlers(), "eval", with("backend", "fast")), "bad_usage");
}

// desk_models.md: RoPE read past its length, repaired without training. At twice its length the
// bundled model loses half a bit a byte and more, and with YaRN nothing; four texts differ by 0.3.
TEST(EvalRequests, YarnMendsTheBundledRopeAtTwiceItsLength) {
  FakeContext context;
  json params = {{"task", "perplexity"},
                 {"models", {"rope", "rope (yarn x2)"}},
                 {"lengths", {256, 512}},
                 {"window", "per_position"},
                 {"trials", 4}};
  const auto far = [&](const json& asked) {
    const auto reply = ask(eval_handlers(), "eval", asked, context);
    std::map<std::string, double> bits;
    for (const auto& row : protocol::from_json_form<protocol::EvalResult>(reply.result).rows) {
      if (row.length == 512) bits[row.model] = row.value;
    }
    return bits;
  };
  const auto both = far(params);
  EXPECT_GT(both.at("rope"), both.at("rope (yarn x2)") + 0.3);
  EXPECT_LT(both.at("rope (yarn x2)"), 2.3);
  params["models"] = {"rope"};
  params["set"] = {"encoding.scaling=yarn", "encoding.factor=2"};
  EXPECT_EQ(far(params).at("rope (yarn x2)"), both.at("rope (yarn x2)"));
}

// Ids have no bytes, so that their bits are those of a token; weights near zero know nothing of
// them, which is log2(256) bits.
TEST(EvalRequests, AModelWithoutATokenizerReadsRandomIds) {
  FakeContext context;
  model::ModelConfig config = byte_config("rope");
  config.tokenizer = nullptr;
  const std::string mute = model_folder("without_tokenizer", config);
  const auto evaluated = [&](json params) {
    const auto reply = ask(eval_handlers(), "eval", params, context);
    return protocol::from_json_form<protocol::EvalResult>(reply.result);
  };
  json params = {{"task", "perplexity"}, {"models", {mute}}, {"lengths", {16, 32}}, {"trials", 3}};
  const auto result = evaluated(params);
  EXPECT_EQ(result.metric, "bits_per_token");
  EXPECT_DOUBLE_EQ(result.chance, 8);
  ASSERT_EQ(result.rows.size(), 2u);
  for (const protocol::EvalRow& row : result.rows) {
    EXPECT_EQ(row.metric, "bits_per_token");
    EXPECT_EQ(row.n, 3);
    EXPECT_NEAR(row.value, 8, 0.5);
  }
  ASSERT_EQ(result.positions.size(), 1u);
  EXPECT_EQ(result.positions[0].metric, "bits_per_token");
  EXPECT_EQ(result.positions[0].source, "texts of seeded random ids");
  EXPECT_TRUE(std::isnan(result.positions[0].bits[0]));  // nothing stands before the first token
  EXPECT_NE(result.provenance[0].note.find("no tokenizer"), std::string::npos);

  EXPECT_EQ(evaluated(params).rows[1].value, result.rows[1].value);  // the same seed
  params["seed"] = 5;
  EXPECT_NE(evaluated(params).rows[1].value, result.rows[1].value);
  params["metric"] = "perplexity";
  EXPECT_NEAR(evaluated(params).rows[0].value, 256, 60);
  EXPECT_EQ(evaluated(params).positions[0].metric, "bits_per_token");
  params.erase("metric");

  // Beside a model with a tokenizer each row says what it is of.
  params["models"] = {model_folder("rope"), mute};
  const auto both = evaluated(params);
  EXPECT_EQ(both.metric, "bits");
  EXPECT_TRUE(std::isnan(both.chance));
  EXPECT_EQ(both.rows[0].metric, "bits_per_byte");
  EXPECT_EQ(both.rows[2].metric, "bits_per_token");
  params["metric"] = "bits_per_token";
  EXPECT_EQ(evaluated(params).metric, "bits_per_token");

  // A text that somebody chose cannot be read.
  params["models"] = {mute};
  params["input"] = {{"text", text}, {"name", "a text"}};
  EXPECT_EQ(code_of(eval_handlers(), "eval", params), "bad_input");
}

TEST(EvalRequests, WhatIsWrongIsSaid) {
  const auto code = [](const json& params) { return code_of(eval_handlers(), "eval", params); };
  EXPECT_EQ(code(with("task", "perplexty")), "bad_usage");
  EXPECT_EQ(code(with("models", json::array())), "bad_usage");
  EXPECT_EQ(code(with("models", {"/no/such/model"})), "bad_input");
  EXPECT_EQ(code(with("lengths", {0})), "bad_usage");
  EXPECT_EQ(code(with("lengths", {100'000})), "bad_input");
  EXPECT_EQ(code(with("window", "sideways")), "bad_usage");
  EXPECT_EQ(code(with("seed", "seven")), "bad_usage");
  EXPECT_EQ(code(with("metric", "bits")), "bad_usage");
}

TEST(EvalRequests, ACancelIsObeyed) {
  FakeContext context;
  context.cancel = true;
  EXPECT_THROW(ask(eval_handlers(), "eval", request(), context), protocol::Cancelled);
}

}  // namespace
}  // namespace phasescope::worker
