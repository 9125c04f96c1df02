// Claims: what a measurement says of them, the sheets that are shipped, and commands that are run
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "app/claims/claim_sheet.h"
#include "app/claims/desk_runs.h"
#include "app/claims/verdict.h"
#include "app/cli/cli.h"
#include "app/verbs/factories.h"
#include "app/verbs/sweep_plan.h"
#include "app/verbs/verbs.h"
#include "cli_tools.h"
#include "fake_run.h"
#include "formats/error.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/sweep.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::ClaimRow;

const fs::path kSheets = fs::path(PHASESCOPE_SOURCE) / "assets/claims";

json interval(double mean, double half, std::int64_t n = 8) {
  return {{"value", mean}, {"low", mean - half}, {"high", mean + half}, {"n", n}};
}

// Three models at a length: losses 1, 2 and 2.05 with wide bands, and b - a, c - a, paired.
json planted() {
  json rows = json::array();
  const char* names[] = {"a", "b", "c"};
  const double values[] = {1, 2, 2.05};
  for (int n = 0; n < 3; ++n) {
    rows.push_back({{"model", names[n]}, {"length", 64}, {"value", values[n]}, {"n", 8}});
    rows.back()["low"] = values[n] - 0.8, rows.back()["high"] = values[n] + 0.8;
  }
  return {
      {"rows", rows},
      {"differences",
       {{{"model", "b"}, {"against", "a"}, {"length", 64}, {"difference", interval(1, 0.1)}},
        {{"model", "c"}, {"against", "a"}, {"length", 64}, {"difference", interval(1.05, 0.1)}},
        {{"model", "c"}, {"against", "b"}, {"length", 64}, {"difference", interval(0.05, 0.1)}}}},
      {"checks", {{{"id", "x.y"}, {"verdict", "holds"}}, {{"id", "x.z"}, {"verdict", "fails"}}}},
      {"counts", {{{"model", "a"}, {"published", {{"macs", 180.0}}}}}}};
}

Claim claim_of(const json& predicate, bool paired = true) {
  json claim{
      {"item", "Table 1"},
      {"claim", "words"},
      {"desk", {"eval"}},
      {"measured",
       {{{"name", "a"}, {"where", {{"model", "a"}, {"length", 64}}}},
        {{"name", "b"}, {"where", {{"model", "b"}, {"length", 64}}}},
        {{"name", "c"}, {"where", {{"model", "c"}, {"length", 64}}}},
        {{"name", "check"}, {"list", "/checks"}, {"where", {{"id", "x.y"}}}, {"field", "verdict"}},
        {{"name", "broken"}, {"list", "/checks"}, {"where", {{"id", "x.z"}}}, {"field", "verdict"}},
        {{"name", "macs"}, {"list", "/counts"}, {"field", "/published/macs"}}}},
      {"predicate", predicate}};
  if (paired) claim["differences"] = {{"list", "/differences"}, {"where", {{"length", 64}}}};
  return claim_sheet({{"paper", "p"}, {"claims", {claim}}}, "sheet").claims.at(0);
}

std::string verdict_of(const json& predicate, bool paired = true) {
  ClaimRow row;
  judge(claim_of(predicate, paired), planted(), row);
  EXPECT_FALSE(row.why.empty());
  return row.verdict;
}

// Planted: b is worse than a, c than a, and b and c are not told apart.
TEST(Verdicts, OfAnOrderFollowFromPairedDifferences) {
  EXPECT_EQ(verdict_of({{"order", {"a", "b"}}}), "agrees");
  EXPECT_EQ(verdict_of({{"order", {"b", "a"}}}), "disagrees");
  EXPECT_EQ(verdict_of({{"order", {"c", "a"}}}), "disagrees");
  EXPECT_EQ(verdict_of({{"order", {"b", "c"}}}), "cannot tell");
  EXPECT_EQ(verdict_of({{"order", {"a", "b", "c"}}}), "cannot tell");
  EXPECT_EQ(verdict_of({{"order", {"b", "a", "c"}}}), "disagrees");
  // Two bands that touch say nothing.
  EXPECT_EQ(verdict_of({{"order", {"a", "b"}}}, false), "cannot tell");
}

TEST(Verdicts, OfAnOrderTellTheDifference) {
  ClaimRow row;
  judge(claim_of({{"order", {"b", "a"}}}), planted(), row);
  ASSERT_EQ(row.differences.size(), 1u);
  EXPECT_EQ(row.differences[0].name, "a - b");
  EXPECT_DOUBLE_EQ(row.differences[0].value, -1);
  EXPECT_DOUBLE_EQ(*row.differences[0].low, -1.1);
  EXPECT_DOUBLE_EQ(*row.differences[0].high, -0.9);
}

// Values beside it may be bits a byte.
TEST(Verdicts, ADifferenceOfLossesHasItsUnit) {
  json result = planted();
  result["differences"][0]["metric"] = "loss";
  result["differences"][0]["per"] = "byte";
  ClaimRow row;
  judge(claim_of({{"order", {"b", "a"}}}), result, row);
  ASSERT_EQ(row.differences.size(), 1u);
  EXPECT_EQ(row.differences[0].name, "a - b (nats a byte)");
}

// One seed of each says which way it points, and decides nothing.
TEST(Verdicts, OfOneSeedAreNone) {
  json result = planted();
  for (json& row : result["differences"]) {
    row["difference"] = {
        {"value", row["difference"]["value"]}, {"low", nullptr}, {"high", nullptr}, {"n", 1}};
  }
  ClaimRow row;
  judge(claim_of({{"order", {"a", "b"}}}), result, row);
  EXPECT_EQ(row.verdict, "cannot tell");
  EXPECT_NE(row.why.find("a and b as claimed"), std::string::npos) << row.why;
  judge(claim_of({{"order", {"b", "a"}}}), result, row);
  EXPECT_EQ(row.verdict, "cannot tell");
  EXPECT_NE(row.why.find("b and a the other way round"), std::string::npos) << row.why;
  // One pair of three has more.
  result["differences"][0]["difference"] = interval(1, 0.1);
  judge(claim_of({{"order", {"a", "b", "c"}}}), result, row);
  EXPECT_EQ(row.verdict, "cannot tell");
  judge(claim_of({{"order", {"b", "a"}}}), result, row);
  EXPECT_EQ(row.verdict, "disagrees");
}

TEST(Verdicts, OfSignsRatiosAndChecks) {
  EXPECT_EQ(verdict_of({{"sign", "positive"}, {"of", "a"}}), "agrees");  // 1 +- 0.8
  EXPECT_EQ(verdict_of({{"sign", "negative"}, {"of", "a"}}), "disagrees");
  EXPECT_EQ(verdict_of({{"sign", "zero"}, {"of", "a"}, {"within", 2}}), "agrees");
  EXPECT_EQ(verdict_of({{"sign", "zero"}, {"of", "a"}, {"within", 0.1}}), "disagrees");
  EXPECT_EQ(verdict_of({{"sign", "zero"}, {"of", "a"}, {"within", 1}}), "cannot tell");
  EXPECT_EQ(verdict_of({{"ratio", {"macs"}}, {"from", 179.0}, {"to", 181.0}}), "agrees");
  EXPECT_EQ(verdict_of({{"ratio", {"macs"}}, {"from", 100.0}, {"to", 120.0}}), "disagrees");
  // b / a lies from 1.2 / 1.8 to 2.8 / 0.2.
  EXPECT_EQ(verdict_of({{"ratio", {"b", "a"}}, {"from", 0.6}, {"to", 14.1}}), "agrees");
  EXPECT_EQ(verdict_of({{"ratio", {"b", "a"}}, {"from", 1.5}, {"to", 2.5}}), "cannot tell");
  EXPECT_EQ(verdict_of({{"ratio", {"b", "a"}}, {"from", 15.0}, {"to", 20.0}}), "disagrees");
  EXPECT_EQ(verdict_of({{"holds", "check"}}), "agrees");
  EXPECT_EQ(verdict_of({{"holds", "broken"}}), "disagrees");
}

TEST(Verdicts, AreInThePapersUnit) {
  const Place place{.name = "macs", .list = "/counts", .field = "/published/macs", .scale = 1e-1};
  const auto number = number_at(planted(), place);
  ASSERT_TRUE(number);
  EXPECT_DOUBLE_EQ(number->value, 18);
  EXPECT_EQ(number->low, number->high);
  EXPECT_DOUBLE_EQ(*number->low, 18);
}

TEST(Verdicts, AreNoneWithoutNumbersOrWithoutThePremise) {
  ClaimRow row;
  json result = planted();
  result["rows"].erase(1);
  judge(claim_of({{"order", {"a", "b"}}}), result, row);
  EXPECT_EQ(row.verdict, "cannot tell");
  EXPECT_NE(row.why.find("not measured yet: b"), std::string::npos) << row.why;
  Claim claim = claim_of({{"order", {"a", "b"}}});
  claim.premise = Premise{.at_least = 3, .words = "nobody learnt it"};
  judge(claim, planted(), row);
  EXPECT_EQ(row.verdict, "cannot tell");
  EXPECT_EQ(row.why, "nobody learnt it: the best is 2.05");
  claim.premise->at_least = 2;
  judge(claim, planted(), row);
  EXPECT_EQ(row.verdict, "agrees");
}

// Claims about numbers that are drawn: a true one is refuted in 2.5 % of draws at most, and so is
// one of equals either way; a false one is never confirmed more often. 400 draws know 2.5 % to 0.8.
TEST(Verdicts, OfDrawnMeasurementsAreRarelyWrong) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::map<std::string, int> of_true, of_equal, of_false;
  for (int n = 0; n < 400; ++n) {
    const double noise = normal(random);
    const auto said = [&](double truth) {
      json result = planted();
      result["differences"][0]["difference"] = interval(truth + noise, 1.959964);
      ClaimRow row;
      judge(claim_of({{"order", {"a", "b"}}}), result, row);
      return row.verdict;
    };
    ++of_true[said(0.5)], ++of_equal[said(0)], ++of_false[said(-0.5)];
  }
  EXPECT_LE(of_true["disagrees"], 10 + 10);
  EXPECT_LE(of_equal["agrees"], 10 + 10);
  EXPECT_LE(of_equal["disagrees"], 10 + 10);
  EXPECT_LE(of_false["agrees"], 10 + 10);
  EXPECT_GT(of_true["agrees"], of_false["agrees"]);
}

// ---- Sheets -------------------------------------------------------------------------------------

std::string refusal_of(const json& claim) {
  try {
    claim_sheet({{"paper", "p"}, {"claims", {claim}}}, "sheet");
  } catch (const formats::Error& error) {
    return error.full_text();
  }
  return "";
}

TEST(ClaimSheets, RefuseWhatTheyDoNotKnow) {
  const json good{{"item", "T"}, {"limits", "none"}, {"predicate", {{"order", {"a", "b"}}}}};
  EXPECT_EQ(refusal_of(good), "");
  json claim = good;
  claim["publshed"] = json::array();
  EXPECT_NE(refusal_of(claim).find("published"), std::string::npos);
  claim = good, claim["predicate"]["sign"] = "positive";
  EXPECT_NE(refusal_of(claim).find("one predicate"), std::string::npos);
  claim = good, claim["desk"] = {"eval"};
  EXPECT_NE(refusal_of(claim).find("\"a\", which is not measured"), std::string::npos);
  claim = good, claim.erase("limits");
  EXPECT_NE(refusal_of(claim).find("says why"), std::string::npos);
}

// What is printed must itself be as the claim says, or the claim is not the paper's.
TEST(ClaimSheets, ThatAreShippedSayWhatTheirPapersPrint) {
  const auto sheets = claim_sheets(kSheets, "");
  ASSERT_EQ(sheets.size(), 4u);
  EXPECT_EQ(claim_sheets(kSheets, "tapa").size(), 1u);
  EXPECT_EQ(claim_sheets(kSheets, "2509.12635").size(), 1u);
  EXPECT_THROW(claim_sheets(kSheets, "BERT"), formats::Error);
  for (const ClaimSheet& sheet : sheets) {
    std::set<std::string> items;
    for (const Claim& claim : sheet.claims) {
      EXPECT_TRUE(items.insert(claim.item).second) << claim.item << " is there twice";
      const auto printed = [&](const std::string& name) {
        const auto found =
            std::ranges::find(claim.published, name, &protocol::PublishedNumber::name);
        return found == claim.published.end() ? std::nan("") : found->value;
      };
      const auto& order = claim.predicate.order;
      for (std::size_t n = 0; n + 1 < order.size() && !claim.published.empty(); ++n) {
        EXPECT_LT(printed(order[n]), printed(order[n + 1])) << sheet.paper << " " << claim.item;
      }
      if (claim.predicate.ratio.size() == 2) {
        const double ratio = printed(claim.predicate.ratio[0]) / printed(claim.predicate.ratio[1]);
        EXPECT_GE(ratio, claim.predicate.from) << claim.item;
        EXPECT_LE(ratio, claim.predicate.to) << claim.item;
      }
    }
  }
}

// Every command is one: its words are understood, and its files are there.
TEST(ClaimSheets, ThatAreShippedHaveCommandsThatRun) {
  std::set<std::vector<std::string>> commands;
  for (const ClaimSheet& sheet : claim_sheets(kSheets, "")) {
    for (const Claim& claim : sheet.claims) {
      if (!claim.desk.empty()) commands.insert(claim.desk);
    }
  }
  EXPECT_GT(commands.size(), 10u);
  for (const auto& words : commands) {
    for (const std::string& word : words) {
      if (!word.ends_with(".json")) continue;
      EXPECT_TRUE(fs::exists(fs::path(PHASESCOPE_SOURCE) / word)) << word;
    }
    if (words[0] == "sweep") {
      EXPECT_GT(sweep_plan(fs::path(PHASESCOPE_SOURCE) / words[1]).jobs.size(), 1u);
      continue;
    }
    FakeRun run;  // has no replies: what is asked of a worker is all that is wanted
    try {
      output_of(run, words, all_verbs());
    } catch (const protocol::RequestError&) {
    } catch (const formats::Error& error) {
      ADD_FAILURE() << words[0] << ": " << error.full_text();
    }
    EXPECT_FALSE(run.requests.empty()) << words[0];
  }
}

// Groups that claims about sweeps speak of are those that the sweeps have.
TEST(ClaimSheets, NameGroupsOfTheirSweeps) {
  std::size_t places = 0;
  for (const ClaimSheet& sheet : claim_sheets(kSheets, "")) {
    for (const Claim& claim : sheet.claims) {
      if (claim.desk.empty() || claim.desk[0] != "sweep") continue;
      const SweepPlan plan = sweep_plan(fs::path(PHASESCOPE_SOURCE) / claim.desk[1]);
      std::set<std::string> groups;
      for (const SweepJob& job : plan.jobs) groups.insert(job.group);
      const json lengths = plan.eval.at("lengths");
      for (const Place& place : claim.measured) {
        EXPECT_TRUE(groups.contains(place.where.at("model"))) << claim.item << " " << place.where;
        EXPECT_NE(std::ranges::find(lengths, place.where.at("length")), lengths.end())
            << claim.item;
        ++places;
      }
    }
  }
  EXPECT_GT(places, 0u);
}

// ---- Runs ---------------------------------------------------------------------------------------

class DeskRunsTest : public testing::Test {
 protected:
  // One that counts how often a worker was asked.
  DeskRun asked(bool run_missing = true) {
    DeskRuns runs(run_, {.folder = folder_ / "claims", .run_missing = run_missing});
    const std::vector<std::string> words{"eval", "perplexity", "a", "b", "--lengths", "64"};
    const DeskRun found = runs.of(words);
    EXPECT_EQ(runs.of(words).result, found.result);
    return found;
  }

  TemporaryFolder folder_;
  FakeRun run_;
};

TEST_F(DeskRunsTest, AreRunOnceAndKept) {
  EXPECT_TRUE(asked(false).result.is_null());
  EXPECT_EQ(run_.requests.size(), 0u);
  EXPECT_FALSE(asked().whole);  // no reply: the worker refuses
  EXPECT_EQ(run_.requests.size(), 1u);
  run_.replies["eval"] = {protocol::to_json_form(protocol::EvalResult{.task = "perplexity"}), {}};
  EXPECT_TRUE(asked().whole);
  EXPECT_EQ(run_.requests.size(), 2u);
  EXPECT_TRUE(asked().whole);
  EXPECT_TRUE(asked(false).whole);
  EXPECT_EQ(run_.requests.size(), 2u);
}

// What is kept of a result says of its claims what all of it says, and has nothing else.
TEST(Verdicts, OfWhatIsKeptAreThoseOfTheWhole) {
  json result = planted();
  result["positions"] = std::string(10'000, 'x');
  for (json& row : result["rows"]) row["curve"] = std::vector<double>(1000, 1.0);
  std::vector<Claim> claims;
  for (const json& predicate : {json{{"order", {"a", "b"}}},
                                {{"order", {"b", "c"}}},
                                {{"order", {"b", "a", "c"}}},
                                {{"sign", "positive"}, {"of", "a"}},
                                {{"ratio", {"macs"}}, {"from", 179.0}, {"to", 181.0}},
                                {{"ratio", {"b", "a"}}, {"from", 0.6}, {"to", 14.1}},
                                {{"holds", "check"}},
                                {{"holds", "broken"}}}) {
    for (const bool paired : {true, false}) claims.push_back(claim_of(predicate, paired));
  }
  claims.front().premise = Premise{.at_least = 3, .words = "nobody learnt it"};
  std::vector<const Claim*> all;
  for (const Claim& claim : claims) all.push_back(&claim);
  const json kept = needed_of(result, all);
  EXPECT_LT(kept.dump().size(), 3000u);
  for (const Claim& claim : claims) {
    ClaimRow of_all, of_kept;
    judge(claim, result, of_all), judge(claim, kept, of_kept);
    EXPECT_EQ(protocol::to_json_form(of_all), protocol::to_json_form(of_kept));
  }
}

// A command that was run elsewhere, on another day, is not run again here.
TEST_F(DeskRunsTest, CountWhatIsKept) {
  const std::vector<std::string> words{"eval", "perplexity", "a", "b", "--lengths", "64"};
  const auto options = [this](const char* name) {
    DeskRunOptions some{.folder = folder_ / name, .run_missing = true};
    some.kept = folder_ / "kept";
    some.needed = [](const auto&, const json& all) { return json{{"task", all.at("task")}}; };
    return some;
  };
  run_.replies["eval"] = {protocol::to_json_form(protocol::EvalResult{.task = "perplexity"}), {}};
  DeskRuns here(run_, options("here"));
  EXPECT_TRUE(here.of(words).whole);
  EXPECT_EQ(run_.requests.size(), 1u);
  DeskRuns there(run_, options("there"));
  const DeskRun& found = there.of(words);
  EXPECT_EQ(run_.requests.size(), 1u);
  EXPECT_TRUE(found.whole);
  EXPECT_EQ(found.result, (json{{"task", "perplexity"}}));
  // Other words are another command.
  EXPECT_TRUE(there.of({"eval", "perplexity", "a", "--lengths", "64"}).whole);
  EXPECT_EQ(run_.requests.size(), 2u);
}

// A worker for which every job that it is asked about is done.
class AllDone : public FakeRun {
 public:
  protocol::Reply call(const std::string& method, json params) override {
    requests.push_back({method, params});
    protocol::SweepResult sweep;
    sweep.cells.resize(params.at("cells").size());
    for (protocol::SweepCell& cell : sweep.cells) cell.state = cell.evaluated = "done";
    return {protocol::to_json_form(sweep), {}};
  }
  using Run::call;
};

// A page of what is kept says the same on every machine, whatever stands in its folder.
TEST_F(DeskRunsTest, OfWhatIsKeptAloneKnowNothingOfThisMachine) {
  const std::vector<std::string> words{"eval", "perplexity", "a", "b", "--lengths", "64"};
  const std::vector<std::string> sweep{
      "sweep", std::string(PHASESCOPE_SOURCE) + "/sample_configs/sweeps/copy.json"};
  class Keeping : public AllDone {
   public:
    protocol::Reply call(const std::string& method, json params) override {
      if (method != "jobs.keep") return AllDone::call(method, std::move(params));
      requests.push_back({method, std::move(params)});
      return {protocol::to_json_form(protocol::KeptResult{}), {}};
    }
    using Run::call;
  };
  Keeping run;
  DeskRunOptions options{.folder = folder_ / "claims", .run_missing = true};
  run_.replies["eval"] = {protocol::to_json_form(protocol::EvalResult{.task = "perplexity"}), {}};
  EXPECT_TRUE(DeskRuns(run_, options).of(words).whole);
  EXPECT_TRUE(DeskRuns(run, options).of(sweep).whole);
  options.kept = folder_ / "kept", options.kept_alone = true;
  run.requests.clear();
  fs::path place;
  {
    DeskRuns alone(run, options);
    EXPECT_TRUE(alone.of(words).result.is_null());
    alone.of(sweep);
    ASSERT_FALSE(run.requests.empty());
    place = run.requests[0].params.at("cells")[0].at("dir").get<std::string>();
    for (const FakeRun::Request& request : run.requests) {
      EXPECT_EQ(request.params.dump().find((folder_ / "claims").string()), std::string::npos);
    }
    // The line that runs it again is of the folder that was named.
    EXPECT_NE(alone.line_of(sweep).find((folder_ / "claims/jobs/copy").string()),
              std::string::npos);
    EXPECT_TRUE(fs::exists(place.parent_path().parent_path().parent_path()));
  }
  EXPECT_FALSE(fs::exists(place.parent_path().parent_path().parent_path()));
}

// Every sweep has its first seed before any has its second.
TEST_F(DeskRunsTest, GoThroughSweepsSeedBySeed) {
  const std::string folder = std::string(PHASESCOPE_SOURCE) + "/sample_configs/sweeps/";
  const std::vector<std::vector<std::string>> sweeps = {{"sweep", folder + "copy.json"},
                                                        {"sweep", folder + "s5.json"}};
  AllDone run;
  DeskRuns runs(run, {.folder = folder_ / "claims", .run_missing = true});
  runs.run_by_seeds(sweeps);
  std::vector<std::size_t> cells;
  for (const FakeRun::Request& request : run.requests) {
    const std::size_t asked = request.params.at("cells").size();
    if (cells.empty() || cells.back() != asked) cells.push_back(asked);
  }
  // Three encodings and nine, with one seed, two and three.
  EXPECT_EQ(cells, (std::vector<std::size_t>{3, 9, 6, 18, 9, 27}));
  EXPECT_TRUE(runs.of(sweeps[0]).whole);
}

// A worker that is lost once costs a sweep its turn, and not its later seeds.
TEST_F(DeskRunsTest, GoOnWithSweepsThatFailOnce) {
  class LostOnce : public AllDone {
   public:
    protocol::Reply call(const std::string& method, json params) override {
      if (requests.empty()) {
        requests.push_back({method, params});
        throw protocol::RequestError({"worker_died", "the worker has died", "", ""});
      }
      return AllDone::call(method, std::move(params));
    }
    using Run::call;
  };
  const std::string file = std::string(PHASESCOPE_SOURCE) + "/sample_configs/sweeps/copy.json";
  LostOnce run;
  DeskRuns runs(run, {.folder = folder_ / "claims", .run_missing = true});
  runs.run_by_seeds({{"sweep", file}});
  EXPECT_EQ(run.requests.front().params.at("cells").size(), 3u);
  EXPECT_EQ(run.requests.back().params.at("cells").size(), 9u);
  EXPECT_TRUE(std::ranges::any_of(run.said, [](const std::string& line) {
    return line.find("the worker has died") != std::string::npos;
  }));
}

// Every sweep that a claim needs has its place; what is cheap and tells much goes first.
TEST(DeskSweeps, HaveAnOrder) {
  std::vector<std::vector<std::string>> sweeps;
  for (const ClaimSheet& sheet : claim_sheets(kSheets, "")) {
    for (const Claim& claim : sheet.claims) {
      if (!claim.desk.empty() && claim.desk[0] == "sweep") sweeps.push_back(claim.desk);
    }
  }
  sweeps.push_back({"sweep", "sample_configs/sweeps/unknown.json"});
  sweeps.push_back({"sweep", "sample_configs/sweeps/desk_tasks.json"});
  order_sweeps(sweeps);
  std::vector<std::string> names;
  for (const auto& words : sweeps) {
    const std::string name = fs::path(words[1]).stem().string();
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"even_pairs", "missing_duplicate", "s5", "tuning", "addition",
                                      "copy_encodings", "tree_rotate", "perplexity", "desk_tasks",
                                      "tapa_phase", "cape_forms", "tape_switches", "unknown"}));
}

// Another base makes another sweep, though its own file is the same.
TEST_F(DeskRunsTest, ASweepOfAnotherBaseIsNotTheSame) {
  const std::string file = (folder_ / "sweep.json").string();
  const auto write_base = [&](int steps) {
    std::ofstream(folder_ / "base.json") << json{{"train", {{"steps", steps}}}};
  };
  std::ofstream(file) << json{{"base", "base.json"}, {"grid", {{"train.seed", {1, 2}}}}};
  write_base(10);
  AllDone run;
  const DeskRunOptions options{.folder = folder_ / "claims", .run_missing = true};
  DeskRuns(run, options).of({"sweep", file});
  const std::size_t asked = run.requests.size();
  DeskRuns(run, options).of({"sweep", file});
  EXPECT_EQ(run.requests.size(), asked);  // it is whole
  write_base(20);
  DeskRuns(run, options).of({"sweep", file});
  EXPECT_GT(run.requests.size(), asked);
}

// What is kept with the sources is of the sweeps as they are.
TEST(DeskResults, AreOfTheSweepsThatThereAre) {
  const fs::path source = PHASESCOPE_SOURCE, kept = source / "docs/desk_results";
  std::size_t cells = 0;
  for (const auto& entry : fs::directory_iterator(kept)) {
    const std::string name = entry.path().stem().string();
    if (name == "commands") continue;
    const SweepPlan plan = sweep_plan(source / "sample_configs/sweeps" / (name + ".json"));
    std::ifstream file(entry.path());
    for (std::string text; std::getline(file, text); ++cells) {
      const json line = json::parse(text);
      const std::string cell = line.at("name");
      const auto job = std::ranges::find(plan.jobs, cell, &SweepJob::name);
      ASSERT_NE(job, plan.jobs.end()) << name << ": " << cell;
      EXPECT_EQ(line.at("asked"), job->config) << name << ": " << cell;
      EXPECT_EQ(line.value("/eval/asked"_json_pointer, json()), plan.eval) << name << ": " << cell;
    }
  }
  EXPECT_GT(cells, 0u);
}

TEST_F(DeskRunsTest, ASweepWithoutJobsIsRead) {
  protocol::SweepResult sweep;
  sweep.cells.resize(9);
  for (protocol::SweepCell& cell : sweep.cells) cell.state = "new";
  run_.replies["jobs.sweep"] = {protocol::to_json_form(sweep), {}};
  DeskRuns runs(run_, {.folder = folder_ / "claims"});
  const std::string file = std::string(PHASESCOPE_SOURCE) + "/sample_configs/sweeps/copy.json";
  const DeskRun& found = runs.of({"sweep", file});
  EXPECT_FALSE(found.whole);
  EXPECT_EQ(found.result.at("cells").size(), 9u);
  EXPECT_EQ(run_.requests.size(), 2u);  // whose folders they are, and what is in them
  EXPECT_NE(runs.line_of({"sweep", file}).find("/claims/jobs/copy"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::app
