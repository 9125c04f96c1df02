// The report on models, by a run whose replies are made up.
#include "app/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli_tools.h"
#include "fake_run.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/text.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Other requests read one of the two.
TEST(Report, ReadsATextAndACorpus) {
  ReportRequest request{.models = {"rope"}};
  request.reading.input.prompt = "a text";
  request.corpus.asked = true;
  const json params = protocol::params_of(request);
  EXPECT_EQ(params["corpus"], true);
  EXPECT_EQ(params["input"]["prompt"], "a text");
}

// Of a model that sees both ways, heads have no mean distance, and texts no loss.
TEST(Report, StandsWithoutLossesAndDistances) {
  TemporaryFolder folder;
  FakeRun run;
  protocol::TextResult text{.model = "bert"};
  text.tokens = {{.id = 0, .text = "a"}, {.id = 60, .text = "b"}};
  text.loss = text.bits_per_byte = std::nan("");
  protocol::HeadsResult heads{.model = "bert", .layers = 1, .heads = 2};
  for (const std::int64_t head : {0, 1}) {
    heads.rows.push_back({0, head, {{"entropy", {double(head), 0, 0, 1}}}, {}});
  }
  protocol::MapResult map;
  map.tokens = map.row_end = map.column_end = map.height = map.width = 2;
  run.replies["model.info"] = {protocol::to_json_form(protocol::LoadReport{}), {}};
  run.replies["text.read"] = {protocol::to_json_form(text), {}};
  run.replies["heads"] = {protocol::to_json_form(heads), {}};
  run.replies["heads"].tensors.push_back(
      protocol::TensorRef::own<float>("thumbnails", {1, 2, 1, 1}, {1, 1}));
  run.replies["map"] = {protocol::to_json_form(map), {}};
  run.replies["map"].tensors.push_back(
      protocol::TensorRef::own<float>("map", {2, 2}, {1, 0, 0, 1}));
  make_report(run, {.models = {"bert"}}, folder / "r");
  const std::string page = content(folder / "r" / "index.html");
  EXPECT_NE(page.find(">Two heads of each model<"), std::string::npos);
  EXPECT_EQ(std::ranges::count_if(run.requests, [](const auto& r) { return r.method == "map"; }),
            2);
  EXPECT_EQ(page.find("token_loss"), std::string::npos);
  EXPECT_NE(page.find("nan"), std::string::npos);
}

// A causal model beside one that sees both ways is not compared, the next one is.
TEST(Report, APairThatIsRefusedDoesNotEndTheOthers) {
  class Pairs final : public FakeRun {
   public:
    protocol::Reply call(const std::string& method, json params) override {
      const bool refused = method == "compare" && params["b"] == "bert";
      FakeRun::replies.erase("compare");
      if (method == "compare" && !refused) {
        const protocol::CompareResult result{.a = params["a"], .b = params["b"]};
        FakeRun::replies["compare"] = {protocol::to_json_form(result), {}};
      }
      return FakeRun::call(method, std::move(params));
    }
  };
  TemporaryFolder folder;
  Pairs run;
  const Output output = make_report(run, {.models = {"rope", "bert", "tapa"}}, folder / "r");
  EXPECT_TRUE(fs::exists(folder / "r" / "figures" / "divergence_rope_tapa.svg"));
  EXPECT_FALSE(fs::exists(folder / "r" / "figures" / "divergence_rope_bert.svg"));
  EXPECT_EQ(
      std::ranges::count_if(output.result["refused"],
                            [](const json& one) { return one["part"] == "Model against model"; }),
      1);
}

// Only some parts answer: the others are said to be missing, and the page stands by itself.
TEST(Report, IsOnePageThatLeadsWithThePositionsAndNamesWhatIsPublished) {
  TemporaryFolder folder;
  FakeRun run;
  protocol::TextResult text{.model = "rope"};
  text.tokens = {{.id = 0, .text = "[BOS]"}, {.id = 60, .text = "<b>", .loss = 1.0}};
  text.provenance.text_hash = "0123abcd";
  text.provenance.models = {"rope"};
  text.provenance.model_hashes = {"feedbeef"};
  text.provenance.kernel = "plain";
  const protocol::LoadReport load;
  run.replies["model.info"] = {protocol::to_json_form(load), {}};
  run.replies["text.read"] = {protocol::to_json_form(text), {}};
  run.replies["shift"] = {protocol::to_json_form(two_shifted()), {}};
  run.replies["distance"] = {protocol::to_json_form(two_models()), {}};
  const Output output = make_report(run, {.models = {"rope"}}, folder / "r");
  const std::string page = content(folder / "r" / "index.html");
  for (const char* fetched : {"<script", "<link", "src=", "@import", "url(http"}) {
    EXPECT_EQ(page.find(fetched), std::string::npos) << fetched;
  }
  EXPECT_LT(page.find(">Loss against position<"), page.find(">The text<"));
  EXPECT_NE(page.find("RoPE mean 4.1, sigma 0.85"), std::string::npos);
  EXPECT_NE(page.find("Published, not measured here"), std::string::npos);
  EXPECT_NE(page.find("feedbeef"), std::string::npos);
  EXPECT_NE(page.find("0123abcd"), std::string::npos);
  EXPECT_NE(page.find("Not measured: no reply for eval"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  for (const char* name : {"data/shift.csv", "data/shift.json", "data/near_far.csv",
                           "figures/shift.svg", "figures/near_far.png"}) {
    EXPECT_TRUE(fs::exists(folder / "r" / name)) << name;
  }
  EXPECT_FALSE(output.result["refused"].empty());
}

}  // namespace
}  // namespace phasescope::app
