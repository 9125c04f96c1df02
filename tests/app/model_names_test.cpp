// A model is the name it was asked for by, whatever the last folder of its path is called.
#include "app/figures/model_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "app/figures/figures.h"

namespace phasescope::app {
namespace {

TEST(ModelNames, AreTheShortestEndsThatTellThemApart) {
  const std::vector<std::string> models{
      "rope",       "/a/hf/llama",           "/b/hf/gpt2/", "./jobs/gpt2", "/a/hf/bert",
      "/b/hf/bert", "/a/hf/llama (yarn x2)", "r/x/ck",      "s/x/ck",      "r/x/ck (f=a/b)"};
  const std::vector<std::string> expected{
      "rope",      "llama",           "hf/gpt2", "jobs/gpt2", "a/hf/bert",
      "b/hf/bert", "llama (yarn x2)", "r/x/ck",  "s/x/ck",    "r/x/ck (f=a/b)"};
  const ModelNames names(models);
  for (std::size_t i = 0; i < models.size(); ++i) {
    EXPECT_EQ(names.short_name(models[i]), expected[i]) << models[i];
  }
  EXPECT_EQ(names.short_name("/not/open"), "open");
}

// A model of a job's folder is not called as a bundled one is, though that is not open; neither is
// a reading of it, nor one of a folder whose name another model's reading would have.
TEST(ModelNames, LeaveANameToTheModelThatHasIt) {
  const std::vector<std::string> bundled{"rope", "tapa"};
  const ModelNames alone({"/home/me/out/rope"}, {}, bundled);
  EXPECT_EQ(alone.short_name("/home/me/out/rope"), "out/rope");
  EXPECT_EQ(alone.short_name("/home/me/out/rope (yarn x2)"), "out/rope (yarn x2)");
  EXPECT_EQ(alone.short_name("rope"), "rope");
  EXPECT_EQ(alone.short_name("rope (yarn x2)"), "rope (yarn x2)");
  EXPECT_EQ(alone.short_name("/home/me/out/gpt2"), "gpt2");
  const ModelNames two({"a/ck", "b/ck (base=1e6)"});
  EXPECT_EQ(two.short_name("b/ck (base=1e6)"), "b/ck (base=1e6)");
}

// Where the path of one ends in the whole of another, that one keeps all of its name.
TEST(ModelNames, DifferWhereverThePathsDiffer) {
  const std::vector<std::string> models{"b",    "./b",          "x/b", "/y/x/b", "/x/b",
                                        "x/b/", "b (base=1e6)", "x_b", "x b"};
  const ModelNames names(models);
  std::set<std::string> shown, files;
  for (const std::string& model : models) {
    shown.insert(names.short_name(model));
    files.insert(names.file_name(model));
    EXPECT_EQ(names.file_name(model).find_first_of("/ ()="), std::string::npos) << model;
  }
  EXPECT_EQ(shown.size(), models.size());
  EXPECT_EQ(files.size(), models.size());
}

TEST(ModelNames, AModelKeepsItsColourWhoeverAnswers) {
  const ModelNames names({"a/ck", "b/ck", "rope", "b/ck"});
  EXPECT_EQ(names.models().size(), 3U);
  EXPECT_EQ(names.color("b/ck"), 1);
  EXPECT_EQ(names.color("rope"), 2);
}

protocol::DistanceModel measured(const std::string& model) {
  protocol::DistanceModel distance{.model = model};
  distance.profile.push_back({.distance = 1, .count = 4, .score_mean = 1});
  protocol::NearFar near_far{.pairs = 2, .mean = 1};
  near_far.edges = {0, 1}, near_far.counts = {2};
  distance.histogram = near_far;
  distance.layers.push_back({.layer = 0, .histogram = near_far});
  return distance;
}

// The first of three has not answered: the colours of the others stay.
TEST(ModelNames, AFigureOfSomeOfTheModelsHasTheirColours) {
  const ModelNames names({"rope", "a/ck", "b/ck"});
  const std::vector<protocol::DistanceModel> models{measured("a/ck"), measured("b/ck")};
  for (const auto& plot :
       {near_far_figure(models, names), near_far_by_layer_figure(models, names),
        score_profile_figure(models, names), weight_profile_figure(models, names)}) {
    ASSERT_EQ(plot.series.size(), 2U) << plot.id;
    EXPECT_EQ(plot.series[0].color, 1) << plot.id;
    EXPECT_EQ(plot.series[1].color, 2) << plot.id;
    EXPECT_TRUE(plot.series[0].label.starts_with("a/ck")) << plot.series[0].label;
  }
  const auto points = near_far_by_layer_figure(models, names);
  EXPECT_NE(points.series.at(0).points, points.series.at(1).points) << "no colour alone";
  protocol::EvalResult eval{.task = "perplexity"};
  protocol::ShiftResult shift;
  std::vector<protocol::TextResult> texts;
  for (const char* model : {"a/ck", "b/ck"}) {
    for (const std::int64_t length : {8, 16}) {
      eval.rows.push_back({.model = model, .length = length, .value = 1, .n = 2});
      shift.rows.push_back({.model = model, .method = "ids", .by = 1, .layer = length});
    }
    eval.positions.push_back({.model = model, .position = {1}, .bits = {2}});
    texts.push_back({.model = model, .tokens = {{.loss = 1.0}}, .loss = 1});
  }
  for (const auto& plot : {eval_figure(eval, names), position_loss_figure(eval, names),
                           shift_figure(shift, names), token_loss_figure(texts, names)}) {
    ASSERT_EQ(plot.series.size(), 2U) << plot.id;  // two models of one folder name, not one
    EXPECT_EQ(plot.series[0].color, 1) << plot.id;
    EXPECT_EQ(plot.series[1].color, 2) << plot.id;
  }
}

}  // namespace
}  // namespace phasescope::app
