// What views ask for, by what was chosen in them.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "app/cli/given_input.h"
#include "app/figures/job_figures.h"
#include "app/views/arcs_view.h"
#include "app/views/compare_view.h"
#include "app/views/distance_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/head_values.h"
#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/patterns_view.h"
#include "app/views/shift_view.h"
#include "app/views/text_view.h"
#include "app/views/theory_view.h"
#include "app/views/views.h"
#include "formats/error.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/cost.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/query.h"
#include "protocol/messages/xray.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

class Choices : public OneView {
 protected:
  Choices() : OneView(5) {}
};

TEST(Fields, TakeWhatWasChosenAndLeaveTheRestAsItIs) {
  const json chosen{{"pairs", 7}, {"near", {1, 5}}, {"far", "x"}, {"no_such_field", 1}};
  const auto request = with_choices(protocol::DistanceRequest{.models = {"rope"}}, chosen);
  EXPECT_EQ(request.pairs, 7);
  EXPECT_EQ(request.near, (protocol::Range{1, 5}));
  EXPECT_FALSE(request.far);
  EXPECT_EQ(request.models, std::vector<std::string>{"rope"});
  EXPECT_EQ(with_choices(protocol::DistanceRequest{}, json("nonsense")).pairs,
            protocol::DistanceRequest{}.pairs);
}

template <class... Requests>
std::vector<std::vector<std::string>> titles_of_forms() {
  const auto titles = []<class Request>(Request request) {
    std::vector<std::string> list;
    for (const protocol::BoundField& field : protocol::detail::bound_fields(request)) {
      list.push_back(title_of(field));
    }
    return list;
  };
  return {titles(Requests{})...};
}

// 19: a form shows titles, never the words of JSON, and no two of its lines read alike.
TEST(Fields, HaveTitlesInEveryForm) {
  namespace p = protocol;
  const auto forms =
      titles_of_forms<p::AblateRequest, p::AcuityRequest, p::AddressingRequest, p::CompareRequest,
                      p::CostRequest, p::DemandRequest, p::DistanceRequest, p::EvalRequest,
                      p::GenerateRequest, p::HeadsRequest, p::PairRequest, p::PatternsRequest,
                      p::ProfileRequest, p::QueryRequest, p::ShiftRequest, p::TheoryRequest,
                      p::XrayRequest>();
  for (const auto& form : forms) {
    EXPECT_EQ(std::set(form.begin(), form.end()).size(), form.size()) << form.front();
    for (const std::string& title : form) {
      EXPECT_EQ(title.find('_'), title.npos) << title;
      EXPECT_TRUE(std::isupper(static_cast<unsigned char>(title.at(0)))) << title;
    }
  }
  EXPECT_EQ(title_of_key("weight_decay"), "Weight decay");
}

// What stands beside the numbers of an evaluation, of each kind of what it may read.
TEST(Evaluations, SayWhatTheyRead) {
  const auto words = [](const json& params) {
    return words_of_reading(protocol::request_of<protocol::EvalRequest>(params));
  };
  EXPECT_EQ(words({{"task", "perplexity"}}), "perplexity of the bundled validation texts");
  EXPECT_EQ(words({{"task", "perplexity"}, {"corpus", true}}),
            "perplexity of the bundled validation texts");
  EXPECT_EQ(words({{"task", "perplexity"}, {"corpus", "a.txt"}}),
            "perplexity of the texts of a.txt");
  EXPECT_EQ(words({{"task", "perplexity"}, {"input", {{"text", "a"}}}}), "perplexity of one text");
  EXPECT_EQ(words({{"task", "perplexity"}, {"corpus", {"a", "b"}}}),
            "perplexity of texts that were given");
  EXPECT_EQ(words({{"task", "copy"}}), "copy of samples of the task");
}

// A text and the length that it was read to tell an answer from those of others.
TEST(Asking, KnowsWhichTextItWasOf) {
  TextInput text;
  text.words = SharedText("a b"), text.length = 7;
  const Asked asked{{{"length", 7}}, text.words};
  EXPECT_TRUE(asked.is_of(text));
  EXPECT_FALSE(Asked({}, text.words).is_of(text));
  text.words = SharedText("b a");
  EXPECT_FALSE(asked.is_of(text));
}

// 19: two jobs of one name are told apart by the ends of their folders.
TEST(Jobs, OfOneNameAreToldApart) {
  const auto job = [](const char* dir, const char* name) {
    protocol::JobStatus status;
    status.dir = dir, status.name = name;
    return status;
  };
  const std::vector<protocol::JobStatus> jobs{job("/jobs/rope", "rope"), job("/jobs/tapa", "tapa"),
                                              job("/other/tapa", "tapa"), job("/jobs/x", "tapa"),
                                              job("/jobs/y", "")};
  EXPECT_EQ(names_of_jobs(jobs), (std::map<std::string, std::string>{{"/jobs/rope", "rope"},
                                                                     {"/jobs/tapa", "jobs/tapa"},
                                                                     {"/other/tapa", "other/tapa"},
                                                                     {"/jobs/x", "tapa, x"},
                                                                     {"/jobs/y", "y"}}));
}

// 19: the choice of a metric has its title and its unit; the key is said on hover.
TEST(Metrics, AreCalledByTitleAndUnit) {
  const protocol::MetricInfo metric{
      .key = "mean_distance", .title = "Mean distance", .formula = "f", .unit = "tokens"};
  protocol::HeadsResult result;
  result.metrics = {metric};
  EXPECT_EQ(heading_of(result, "mean_distance"), "Mean distance (tokens)");
  EXPECT_EQ(heading_of(result, "top1_mass"), "Top1 mass");
  EXPECT_TRUE(described(metric).ends_with("mean_distance"));
}

TEST(Pairs, AreReadAsTheyAreTyped) {
  EXPECT_EQ(pair_in("12, 3"), (std::pair<std::int64_t, std::int64_t>{12, 3}));
  EXPECT_EQ(pair_in("12 3"), (std::pair<std::int64_t, std::int64_t>{12, 3}));
  EXPECT_EQ(pair_in("7"), (std::pair<std::int64_t, std::int64_t>{7, 7}));
  for (const char* words : {"", "a", "1,2,3", "-1,2", "1.5"}) EXPECT_FALSE(pair_in(words)) << words;
}

TEST(Pairs, AreGoneToWithAsMuchAroundThemAsIsShown) {
  EXPECT_EQ(region_around({}, 100, 10, 256, 256), (Region{76, 124, 0, 48}));
  EXPECT_EQ(region_around({0, 20, 0, 10}, 255, 128, 256, 256), (Region{236, 256, 123, 133}));
  EXPECT_EQ(region_around({}, 3, 1, 10, 10), (Region{0, 10, 0, 10}));
  // Cross attention has keys of its own.
  EXPECT_EQ(region_around({}, 3, 90, 10, 100), (Region{0, 10, 52, 100}));
}

TEST(Pairs, AreZoomedInOnByKeys) {
  const Selection pair{.query = 100, .key = 10}, none;
  EXPECT_EQ(zoomed({}, 0.5, pair, 256, 256), (Region{36, 164, 0, 128}));
  EXPECT_EQ(zoomed({36, 164, 0, 128}, 0.5, pair, 256, 256), (Region{68, 132, 0, 64}));
  EXPECT_EQ(zoomed({64, 128, 0, 32}, 0.5, none, 256, 256), (Region{80, 112, 8, 24}));
  EXPECT_EQ(zoomed({96, 104, 6, 14}, 0.5, pair, 256, 256), (Region{96, 104, 6, 14})) << "enough";
  EXPECT_EQ(zoomed({36, 164, 0, 128}, 2, pair, 256, 256), Region{}) << "all of it";
  EXPECT_EQ(zoomed({}, 2, none, 256, 256), Region{});
  EXPECT_EQ(zoomed({}, 0.5, none, 4, 300), (Region{0, 4, 75, 225})) << "cross attention";
}

TEST(Search, FindsWordsAcrossTokens) {
  std::vector<protocol::TokenReading> tokens;
  for (const char* text : {"the", "\u00b7ca", "t", "\u21b5", "the"}) {
    tokens.push_back({.text = text});
  }
  using Ranges = std::vector<std::pair<int, int>>;
  EXPECT_EQ(tokens_with(tokens, "cat"), (Ranges{{1, 3}}));
  EXPECT_EQ(tokens_with(tokens, "the"), (Ranges{{0, 1}, {4, 5}}));
  EXPECT_EQ(tokens_with(tokens, "t\nt"), (Ranges{{2, 5}}));
  EXPECT_EQ(tokens_with(tokens, "e c"), (Ranges{{0, 2}}));
  EXPECT_TRUE(tokens_with(tokens, "dog").empty());
  EXPECT_TRUE(tokens_with(tokens, "").empty());
}

TEST_F(Choices, OneHeadsDistancesAreMeasuredApart) {
  open("distance");
  EXPECT_FALSE(link_.last_params("distance").contains("per_head"));
  DistanceState state{.figure = "score", .layer = 1, .head = 2};
  state.options["pairs"] = 50, state.options["near"] = {1, 4};
  context_.set_state("head", state);
  draw();
  const json& asked = link_.last_params("distance");
  EXPECT_EQ(asked["per_head"], true);
  EXPECT_EQ(asked["pairs"], 50);
  EXPECT_EQ(asked["near"], json({1, 4}));
  EXPECT_EQ(asked["corpus"], true);
  EXPECT_EQ(saved_.at(0).output.figures.at(0).title, "Mean score by distance, L1H2");
  EXPECT_NE(saved_[0].command.find("--near 1:4"), std::string::npos) << saved_[0].command;
}

// 17.B15: what belongs to one task means nothing to another, in a session edited by hand too.
TEST(Fields, OfOneTaskAreLeftOutOfAnother) {
  const json chosen{{"window", "last_k:3"}, {"corpus", "some texts"}, {"trials", 3}};
  const EvalChoices of_addition{.task = "addition", .options = chosen};
  EXPECT_EQ(protocol::params_of(of_addition.request({"m"})),
            json({{"task", "addition"}, {"models", {"m"}}, {"trials", 3}}));
  const EvalChoices of_perplexity{.task = "perplexity", .options = chosen};
  EXPECT_EQ(of_perplexity.request({"m"}).perplexity.window, "last_k:3");
  EXPECT_EQ(of_perplexity.request({"m"}).perplexity.corpus.path, "some texts");
}

// 17.A8: any corpus, in this view as on the command line.
TEST_F(Choices, HeadsAreMeasuredOverAnyCorpus) {
  open("heads");
  EXPECT_FALSE(link_.last_params("heads").contains("corpus"));
  HeadsState state;
  state.options = {{"corpus", "some texts"}, {"windows", {4, 8}}};
  context_.set_state("corpus", state);
  draw();
  const json& asked = link_.last_params("heads");
  EXPECT_EQ(asked["corpus"], "some texts");
  EXPECT_EQ(asked["windows"], json({4, 8}));
  EXPECT_FALSE(asked.contains("input"));
  EXPECT_NE(saved_.at(0).command.find("--corpus 'some texts'"), std::string::npos)
      << saved_[0].command;
}

// A session from before the view had options says "corpus" alone.
TEST(HeadsState, OfASessionOfBefore) {
  const auto before = protocol::from_json_form<HeadsState>({{"corpus", true}, {"metric", "sink"}});
  EXPECT_TRUE(before.corpus());
  EXPECT_EQ(before.options, json({{"corpus", true}}));
  EXPECT_EQ(before.metric, "sink");
  HeadsState state;
  EXPECT_FALSE(protocol::from_json_form<HeadsState>(protocol::to_json_form(state)).corpus());
  state.options["corpus"] = "a folder";
  const auto after = protocol::from_json_form<HeadsState>(protocol::to_json_form(state));
  EXPECT_EQ(after.options, state.options);
}

TEST_F(Choices, BIsAnyHeadOfAnyOpenModel) {
  Session session = default_session();
  session.models = {"rope", "tape", "tapa"};
  session.selection = {0, 1, 0, {}, {}};
  session.views.set(MapState{.show = "difference", .b = "tapa", .b_layer = 2, .b_head = 3});
  open("map", session);
  ASSERT_EQ(saved_.size(), 3U);  // A, B and A - B
  EXPECT_EQ(saved_[0].output.figures[0].title, "rope L1H0: weight");
  EXPECT_EQ(saved_[1].output.figures[0].title, "tapa L2H3: weight");
  const std::string command = view_->command_line(context_);
  EXPECT_NE(command.find("map rope --head L1H0 "), std::string::npos) << command;
  EXPECT_NE(command.find("--minus tapa --minus-head L2H3"), std::string::npos) << command;
  EXPECT_EQ(saved_[2].command, command);
  // Another head of the same model.
  session.views.set(MapState{.show = "both", .b = "rope", .b_layer = 3, .b_head = 3});
  open("map", session);
  ASSERT_EQ(saved_.size(), 2U);
  EXPECT_EQ(saved_[1].output.figures[0].title, "rope L3H3: weight");
  EXPECT_NE(saved_[0].folder, saved_[1].folder);
  EXPECT_NE(context_.of(kMapBeside, 0).answer(), nullptr);
  // One look for both.
  EXPECT_EQ(saved_[0].output.figures[0].map->range, saved_[1].output.figures[0].map->range);
}

// The worker takes the mean (tests/analysis/map_test.cpp): one question, and one command.
TEST_F(Choices, AMapIsTheMeanOfTheChosenHeads) {
  Session session = default_session();
  session.models = {"rope", "tapa"};
  HeadsState heads;
  heads.chosen = {{"rope", 0, 1}, {"tapa", 1, 1}, {"rope", 2, 3}};
  session.views.set(heads);
  session.views.set(MapState{.mean = true});
  open("map", session);
  ASSERT_EQ(saved_.size(), 1U);
  EXPECT_EQ(link_.last_params("map")["head"], nlohmann::json({"L0H1", "L2H3"}));
  EXPECT_EQ(saved_[0].output.figures.at(0).title, "rope mean of L0H1, L2H3: weight");
  EXPECT_EQ(saved_[0].command.find(" && "), std::string::npos) << saved_[0].command;
  EXPECT_NE(saved_[0].command.find(" --head L0H1,L2H3 "), std::string::npos) << saved_[0].command;
  EXPECT_EQ(view_->command_line(context_), saved_[0].command);
  // Of many their number is in the title, and their names below.
  for (std::int64_t layer = 3; layer < 7; ++layer) heads.chosen.push_back({"rope", layer, 0});
  session.views.set(heads);
  open("map", session);
  const widgets::PlotSpec& many = saved_.at(0).output.figures.at(0);
  EXPECT_EQ(many.title, "rope mean of 6 heads: weight");
  EXPECT_NE(std::ranges::find(many.notes, "mean of L0H1, L2H3, L3H0, L4H0, L5H0, L6H0"),
            many.notes.end());
  // One head alone is the selected one.
  heads.chosen = {{"rope", 0, 1}};
  session.selection.layer = 2, session.selection.head = 3;
  session.views.set(heads), session.views.set(MapState{.mean = true});
  open("map", session);
  EXPECT_EQ(saved_.at(0).output.figures.at(0).title, "rope L2H3: weight");
}

TEST_F(Choices, TheLengthOfTheTextIsAskedOfEveryView) {
  open("text");
  read_tokens(context_, 4096);
  draw();
  EXPECT_EQ(link_.last_params("text.read")["length"], 4096);
  EXPECT_EQ(link_.last_params("model.info")["length"], 4096);
  EXPECT_EQ(edit_.undo_title(), "Read 4096 tokens");
}

TEST_F(Choices, ModelsWriteOnWhereThatIsWanted) {
  open("text");
  EXPECT_EQ(link_.counts().count("generate"), 0U);
  TextState state{.continued = true};
  state.writing["tokens"] = 12;
  context_.set_state("write on", state);
  draw();
  EXPECT_EQ(link_.last_params("generate")["tokens"], 12);
  ASSERT_NE(context_.of(kContinued, 0).answer(), nullptr);
}

class ChoicesOfStacks : public OneView {
 protected:
  ChoicesOfStacks() : OneView(5, {.stacks = true}) {}
};

// Of the encoder, of the decoder, and of what reads the one from the other: in the heads and on the
// map, once it is known that there are several.
TEST_F(ChoicesOfStacks, HeadsOfEveryStackAreReached) {
  link_.set_manner("map", MadeUpWorker::Manner::hold);  // what is asked for is looked at alone
  open("heads");
  EXPECT_EQ(link_.last_params("heads").value("stack", ""), "");
  for (const char* stack : {"enc", "cross"}) {
    edit_.apply("stack", [&](Session& s) { s.selection.stack = stack; });
    draw();
    EXPECT_EQ(link_.last_params("heads")["stack"], stack);
    Session session = edit_.session();
    open("map", session);
    EXPECT_EQ(link_.last_params("map")["head"],
              nlohmann::json::array({std::string(stack) + ".L3H1"}));
    open("heads", session);
  }
}

// 19: that of a session from the first question on.
TEST_F(ChoicesOfStacks, AQueryIsShownOfTheStackThatTheSessionHas) {
  Session session = default_session();
  session.selection.stack = "cross";
  open("query", session);
  EXPECT_EQ(link_.last_params("query")["stack"], "cross");
}

// q and k are captured of that stack alone, the decoder's where none is chosen.
TEST_F(ChoicesOfStacks, QueriesAndKeysAreOfTheStackThatTheSessionHas) {
  for (const std::string stack : {"", "enc", "cross"}) {
    Session session = default_session();
    session.selection.stack = stack;
    open("query_key", session);
    const std::string asked = stack.empty() ? "dec" : stack;
    EXPECT_EQ(link_.last_params("capture")["stack"], asked);
    EXPECT_NE(view_->command_line(context_).find("--stack " + asked), std::string::npos);
    ASSERT_EQ(saved_.size(), 1U);
    ASSERT_FALSE(saved_[0].output.figures.empty());
    EXPECT_NE(saved_[0].output.figures[0].title.find(" " + asked + ".L3H1"), std::string::npos);
  }
}

TEST_F(ChoicesOfStacks, SingleHeadsAreNotChanged) {
  open("intervene");
  const std::vector<std::string> before = edit_.session().models;
  std::vector<Command> commands;
  view_->add_commands(commands);
  for (const Command& command : commands) {
    if (command.id.starts_with("intervene.")) command.run(context_);
  }
  EXPECT_EQ(edit_.session().models, before);
}

TEST_F(ChoicesOfStacks, HeadsOfEveryStackAreComparedWithOneAnother) {
  Session session = default_session();
  session.views.set(CompareState{.figure = "heads of A alone"});
  open("compare", session);
  EXPECT_EQ(link_.last_params("heads").value("stack", ""), "");
  for (const char* stack : {"enc", "cross"}) {
    edit_.apply("stack", [&](Session& s) { s.selection.stack = stack; });
    draw();
    EXPECT_EQ(link_.last_params("heads")["stack"], stack);
    EXPECT_EQ(link_.last_params("heads")["metrics"], nlohmann::json{"js_divergence"});
  }
}

TEST_F(ChoicesOfStacks, TheSameStackOfTwoModelsIsCompared) {
  Session session = default_session();
  session.views.set(CompareState{.figure = "same heads"});
  open("compare", session);
  EXPECT_EQ(link_.last_params("compare").value("stack", ""), "");
  for (const char* stack : {"enc", "cross"}) {
    edit_.apply("stack", [&](Session& s) { s.selection.stack = stack; });
    draw();
    EXPECT_EQ(link_.last_params("compare")["stack"], stack);
  }
}

// One copy of the text for all that read it as the same tokens, in the colours of one of them or of
// the difference of two.
TEST_F(Choices, ModelsThatReadTheSameTokensShareTheText) {
  Session session = default_session();
  session.models = {"rope", "tape", "none"};
  open("text", session);
  EXPECT_EQ(alike_readers(context_), (std::vector<std::vector<std::size_t>>{{0, 1, 2}}));
  auto state = context_.state<TextState>();
  state.less = "tape";
  context_.set_state("", state);
  draw();
  EXPECT_EQ(window_.said.size(), 0U);
  link_.set_manner_of_model("tape", MadeUpWorker::Manner::hold);
  read_text(context_, TextInput::kTyped, "another text");
  draw();
  const auto groups = alike_readers(context_);  // the answer of before is of other tokens
  EXPECT_EQ(groups, (std::vector<std::vector<std::size_t>>{{0, 2}, {1}}));
}

// Of a text of thousands of tokens the queries around the selected one.
TEST_F(Choices, ArcsAreOfAPartOfALongText) {
  link_ = MadeUpWorker({.tokens = 5000});
  Session session = default_session();
  session.models = {"rope"};
  session.selection.query = 4900;
  open("arcs", session);
  const json params = link_.last_params("map");
  EXPECT_EQ(params.value("rows", json()), json({5000 - ArcsView::kMostQueries, 5000}));
  EXPECT_EQ(params.value("top", 0), 3);
  link_ = MadeUpWorker({.tokens = 64});
  session.models = {"tape"};
  open("arcs", session);
  EXPECT_FALSE(link_.last_params("map").contains("rows")) << link_.last_params("map");
}

TEST_F(Choices, TheSelectedTokenIsTheQueryOfEveryHead) {
  Session session = default_session();
  session.selection.query = 20;
  open("query", session);
  EXPECT_EQ(link_.last_params("query")["query"], 20);
  ASSERT_EQ(saved_.size(), 2U);  // of each model
  const widgets::PlotSpec& plot = saved_[0].output.figures.at(0);
  EXPECT_EQ(plot.map->rows, 4 * 4);
  EXPECT_EQ(plot.title, "rope: weights of query 20 in every head");
  EXPECT_EQ(saved_[0].output.tables.at(0).rows.size(), 16U);
  EXPECT_EQ(saved_[0].output.tables[0].rows[5]["head"], "L1H1");
  EXPECT_EQ(saved_[0].output.tables[0].rows[5]["key"], 20);
  session.selection.query.reset();
  open("query", session);
  EXPECT_FALSE(link_.last_params("query").contains("query"));  // the last token
}

TEST_F(Choices, TheRopePlanIsAFigureOfTheModelItself) {
  Session session = default_session();
  session.models = {"rope"};
  PatternsState state;
  state.figure = "rope plan";
  session.views.set(state);
  open("patterns", session);
  ASSERT_EQ(saved_.size(), 1U);
  ASSERT_EQ(saved_[0].output.figures.size(), 1U);
  EXPECT_EQ(saved_[0].output.figures[0].series.size(), 2U);
  EXPECT_EQ(saved_[0].command, "phasescope info rope");
}

TEST_F(Choices, TextsThatWereReadAreKept) {
  open("text");
  EXPECT_TRUE(context_.state<TextState>().kept.empty());  // the one that nobody chose
  for (const char* words : {"first", "second", "first"}) {
    read_text(context_, TextInput::kTyped, words);
    draw();
  }
  const auto kept = context_.state<TextState>().kept;
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].words.str(), "second");
}

// A task that the window knows nothing of.
TEST_F(Choices, AnotherTaskIsAskedWithItsOwnOptions) {
  Session session = default_session();
  session.views.set(ExtrapolationState{.choices = {.task = "later", .options = {{"trials", 3}}}});
  open("extrapolation", session);
  draw();
  const json& asked = link_.last_params("eval");
  EXPECT_EQ(asked["task"], "later");
  EXPECT_EQ(asked["trials"], 3);
  EXPECT_FALSE(asked.contains("lengths"));  // those of perplexity follow from the models
  EXPECT_FALSE(saved_.at(0).output.figures.empty());
}

TEST_F(Choices, DifferencesArePairedInOneQuestion) {
  Session session = default_session();
  session.views.set(ExtrapolationState{.figure = "paired difference"});
  open("extrapolation", session);
  draw();
  EXPECT_EQ(requests_.of(kEvalTogether).asked().params["models"], json({"rope", "tapa_norm"}));
  const auto& figure = saved_.at(0).output.figures.back();
  EXPECT_EQ(figure.id, "eval_difference_perplexity");
  EXPECT_EQ(figure.series.at(0).y, std::vector<double>{0.25});
  EXPECT_NE(saved_[0].command.find("rope tapa_norm"), std::string::npos) << saved_[0].command;
  const std::size_t first = saved_[0].command.find("tapa_norm");
  EXPECT_EQ(saved_[0].command.find("tapa_norm", first + 1), std::string::npos);  // named once
}

TEST_F(Choices, AnyTwoModelsAreComparedAndOneWithItself) {
  Session session = default_session();
  session.models = {"rope", "tape", "tapa"};
  session.views.set(CompareState{.a = "tapa", .b = "tape", .figure = "heads most alike"});
  open("compare", session);
  EXPECT_EQ(link_.last_params("compare")["models"], json({"tapa", "tape"}));
  EXPECT_EQ(link_.last_params("compare")["match"], true);
  EXPECT_EQ(saved_.at(0).output.figures.at(0).id, "matched_tapa_tape");
  EXPECT_EQ(saved_[0].command, "phasescope compare tapa tape --match");
  session.views.set(CompareState{.a = "tapa", .figure = "heads of A alone"});
  open("compare", session);
  EXPECT_EQ(link_.last_params("heads")["metrics"], json({"js_divergence"}));
  EXPECT_EQ(saved_.at(0).output.figures.at(0).id, "head_divergence_tapa");
}

// 19.2: a sample of a task is read as the command line reads it.
TEST_F(Choices, ASampleOfATaskIsAText) {
  for (const char* words : {"addition:7", "copy:3:5"}) {
    read_sample(context_, words);
    const Session session = edit_.session();
    EXPECT_EQ(session.text.words.str(), words_of_sample(words));
    open("text", session);
    EXPECT_EQ(link_.last_params("text.read")["input"], input_of_sample(words));
    const std::string command = view_->command_line(context_);
    EXPECT_NE(command.find(std::string("--sample ") + words), std::string::npos) << command;
    // It is gone back to as any text is.
    EXPECT_EQ(text_of_id(edit_.session(), session.text.name).words, session.text.words);
    EXPECT_EQ(edit_.session().views.get<TextState>().kept.at(0).name, session.text.name);
  }
  EXPECT_THROW(read_sample(context_, "no_such_task:1"), formats::Error);
}

// 19.3: two texts through one model, its heads and their maps.
TEST_F(Choices, TwoTextsAreReadByOneModel) {
  Session session = default_session();
  session.views.set(CompareState{.a = "rope", .other = "/texts/other.txt"});
  open("compare", session);
  EXPECT_EQ(link_.last_params("compare")["models"], json({"rope"}));
  EXPECT_EQ(link_.last_params("compare")["other"], "/texts/other.txt");
  EXPECT_EQ(saved_.at(0).command, "phasescope compare rope --other /texts/other.txt");
  EXPECT_NE(saved_[0].output.figures.at(0).title.find("rope against other.txt"), std::string::npos)
      << saved_[0].output.figures[0].title;
}

TEST_F(Choices, BIsAMapOfAnotherText) {
  Session session = default_session();
  const KeptText typed{TextInput::kTyped, "Other words."};
  session.views.set(TextState{.kept = {typed}});
  EXPECT_EQ(other_texts(session), std::vector<KeptText>{typed});
  session.views.set(MapState{.show = "difference", .b = "rope", .b_text = id_of_text(typed)});
  open("map", session);
  EXPECT_EQ(requests_.of(kMap, "rope").asked().text.str(), session.text.words.str());
  EXPECT_EQ(requests_.of(kMapBeside, "rope").asked().text.str(), "Other words.");
  ASSERT_EQ(saved_.size(), 2u) << "no difference of two texts";
  EXPECT_NE(saved_[0].folder, saved_[1].folder);
  EXPECT_EQ(saved_[0].command.find("--prompt"), std::string::npos) << saved_[0].command;
  EXPECT_NE(saved_[1].command.find("--prompt 'Other words.'"), std::string::npos)
      << saved_[1].command;
  // The text that is read now is no other one; the bundled one is then.
  session.text = {.name = TextInput::kTyped, .words = typed.words};
  EXPECT_EQ(other_texts(session), (std::vector<KeptText>{{TextInput::kBundled, {}}}));
}

TEST_F(Choices, ChecksAndShiftsAreThoseChosen) {
  Session session = default_session();
  session.views.set(TheoryState{.verdict = "fails", .options = {{"check", {"tape.shift"}}}});
  session.views.set(ShiftState{.figure = "against the shift", .options = {{"by", {2, 5}}}});
  open("theory", session);
  EXPECT_EQ(link_.last_params("theory")["check"], json({"tape.shift"}));
  EXPECT_NE(requests_.of(kTheoryChecks).answer(), nullptr);
  open("shift", session);
  EXPECT_EQ(link_.last_params("shift")["by"], json({2, 5}));
}

}  // namespace
}  // namespace phasescope::app
