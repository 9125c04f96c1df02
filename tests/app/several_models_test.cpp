// Questions asked of several models: one request each, one table, one figure.
#include "app/verbs/several_models.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/verbs/factories.h"
#include "fake_run.h"
#include "formats/error.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/pair.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

// Answers with one head whose numbers are those of the model's place.
class Answering final : public FakeRun {
 public:
  static int length_of(const std::string& model) {
    return model == "long" || model == "b/ck" ? 512 : 256;
  }
  protocol::Reply call(const std::string& method, json params) override {
    if (method == protocol::FindRequest::method) return find(params["models"]);
    const std::string model = params["model"];
    protocol::AddressingResult addressing{.model = model, .formula = "f"};
    const double share = model == "rope" ? 0.25 : 0.75;
    protocol::AddressingRow row;
    row.distance_first = row.key_last = row.interaction = row.key_first = {share, {}, {}, 3, "t"};
    addressing.rows = {row};
    addressing.texts = {"a", "b"};
    addressing.provenance.models = {model};
    addressing.provenance.note = "text cut to " + std::to_string(length_of(model)) + " tokens";
    FakeRun::replies["addressing"] = {protocol::to_json_form(addressing), {}};
    protocol::PairResult pair{.model = model, .formula = "f"};
    pair.curve = std::vector<protocol::PairPoint>{{0, 1, share}, {7, 2, 0.5}};
    if (model == "none") pair.curve.reset(), pair.why = "no distance";
    pair.provenance = addressing.provenance;
    FakeRun::replies["pair"] = {protocol::to_json_form(pair), {}};
    return FakeRun::call(method, std::move(params));
  }

 private:
  static protocol::Reply find(const std::vector<std::string>& models) {
    if (std::ranges::find(models, "lost") == models.end()) return {};
    throw protocol::RequestError({"bad_input", "there is no model \"lost\"", "lost", ""});
  }
};

Output run_with(std::unique_ptr<Verb> verb, FakeRun& run, std::vector<std::string> words) {
  CLI::App parser;
  Options options(parser);
  verb->declare(options);
  parser.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  return verb->run(run);
}

TEST(SeveralModels, AreAskedOneByOneAndShownTogether) {
  Answering run;
  const Output output =
      run_with(addressing_verb(), run, {"rope", "tapa", "--texts", "0:4:2", "none"});
  ASSERT_EQ(run.requests.size(), 3U);
  EXPECT_EQ(run.requests[1].params["model"], "tapa");
  EXPECT_EQ(run.requests[2].params["texts"], "0:4:2");
  ASSERT_EQ(output.result["models"].size(), 3U);
  EXPECT_EQ(output.result["models"][1]["model"], "tapa");
  ASSERT_EQ(output.tables.size(), 1U);
  EXPECT_EQ(output.tables[0].columns[0], "model");
  EXPECT_EQ(output.tables[0].rows.size(), 3U);
  EXPECT_EQ(output.tables[0].rows[1]["model"], "tapa");
  ASSERT_EQ(output.figures.size(), 1U);
  // The triangle, and the dots and whiskers of a model each.
  ASSERT_EQ(output.figures[0].series.size(), 7U);
  EXPECT_EQ(output.figures[0].series[1].label, "rope");
  EXPECT_EQ(output.figures[0].series[1].x.at(0), 0.25 + 0.25 / 2);
}

// Of two models of one folder name a note says which is meant (17.A3).
TEST(SeveralModels, NotesNameTheModelAsTheRowsDo) {
  Answering run;
  const Output output = run_with(addressing_verb(), run, {"a/ck", "b/ck"});
  const auto& notes = output.tables.at(0).notes;
  for (const char* note : {"a/ck: text cut to 256 tokens", "b/ck: text cut to 512 tokens"}) {
    EXPECT_NE(std::ranges::find(notes, note), notes.end()) << note;
  }
}

TEST(SeveralModels, OneAloneIsAnsweredAsBefore) {
  Answering run;
  const Output output = run_with(addressing_verb(), run, {"rope"});
  EXPECT_EQ(output.result["model"], "rope");
  EXPECT_EQ(output.tables[0].columns[0], "layer");
  EXPECT_EQ(output.figures[0].id, "addressing_rope");
}

TEST(SeveralModels, ThoseWithoutACurveSayWhy) {
  Answering run;
  const Output output = run_with(pair_verb(), run, {"rope", "none"});
  EXPECT_EQ(output.figures.at(0).series.size(), 1U);
  EXPECT_EQ(output.figures[0].notes.at(0), "none: no distance");
  EXPECT_EQ(output.tables[0].rows.size(), 2U);
}

// What all models' texts were cut to is said once of all, by table and figure together; where
// models differ in it each says its own.
TEST(SeveralModels, SayOnceWhatHoldsForAll) {
  using Notes = std::vector<std::string>;
  const auto said = [](std::unique_ptr<Verb> verb, std::vector<std::string> models) {
    Answering run;
    const Output output = run_with(std::move(verb), run, std::move(models));
    Notes notes = output.tables.at(0).notes;
    for (const std::string& note : output.figures.at(0).notes) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    }
    std::erase_if(notes, [](const auto& note) { return note.find(" cut to ") == note.npos; });
    return notes;
  };
  const Notes once{"each model: text cut to 256 tokens"};
  const Notes each{"rope: text cut to 256 tokens", "long: text cut to 512 tokens"};
  EXPECT_EQ(said(addressing_verb(), {"rope", "tapa", "alibi"}), once);
  EXPECT_EQ(said(pair_verb(), {"rope", "tapa", "alibi"}), once);
  EXPECT_EQ(said(addressing_verb(), {"rope", "long"}), each);
  EXPECT_EQ(said(pair_verb(), {"rope", "long"}), each);
}

// Minutes of measuring are not lost to the name that stands last.
TEST(SeveralModels, AreThereBeforeTheFirstIsMeasured) {
  for (const std::vector<std::string>& models :
       {std::vector<std::string>{"rope", "tapa", "lost"}, {"rope", "tapa", "rope"}}) {
    Answering run;
    EXPECT_THROW(run_with(addressing_verb(), run, models), protocol::RequestError);
    EXPECT_TRUE(run.requests.empty());
  }
}

TEST(SeveralModels, ABiasIsFittedForOne) {
  Answering run;
  EXPECT_THROW(run_with(demand_verb(), run, {"rope", "tapa", "--fit"}), formats::Error);
  EXPECT_TRUE(run.requests.empty());
}

}  // namespace
}  // namespace phasescope::app
