#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class DistanceVerb : public Verb {
 public:
  std::string name() const override { return "distance"; }
  std::string help() const override {
    return "distance bias: score by distance, near-far histogram, intrinsic bias";
  }
  std::string example() const override { return "phasescope distance rope tapa --corpus"; }
  void declare(Options& options) override {
    options.arguments("MODEL", models_, kModelsHelp);
    input_.declare(options);
    set_.declare(options);
    options.flag("--corpus", corpus_, "over the bundled validation texts (default without input)");
    options.option("--near", near_, "near distances a:b (default 1:N/16)");
    options.option("--far", far_, "far distances a:b (default 15N/16:N)");
    options.option("--pairs", pairs_, "samples for each histogram");
    options.flag("--per-head", per_head_, "the same for every head");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"models", models_param(models_)}, {"per_head", per_head_}};
    input_.add_to(params);
    set_.add_to(params);
    if (corpus_) params["corpus"] = true;
    if (!near_.empty()) params["near"] = integer_range(near_, "--near");
    if (!far_.empty()) params["far"] = integer_range(far_, "--far");
    if (pairs_ > 0) params["pairs"] = pairs_;
    protocol::Reply reply = run.call("distance", std::move(params));
    const auto distance = result_of<protocol::DistanceResult>(reply);
    Output output{.result = std::move(reply.result)};
    output.tables = {near_far_table(distance)};
    output.figures = {near_far_figure(distance.models), near_far_by_layer_figure(distance.models),
                      score_profile_figure(distance.models),
                      weight_profile_figure(distance.models)};
    for (const protocol::DistanceModel& model : distance.models) {
      output.figures.push_back(score_parts_figure(model));
      for (size_t i = 0; i < model.intrinsic.size(); ++i) {
        output.figures.push_back(intrinsic_bias_figure(model, i));
      }
    }
    return output;
  }

 private:
  std::vector<std::string> models_;
  std::string near_, far_;
  int64_t pairs_ = 0;
  bool corpus_ = false, per_head_ = false;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> distance_verb() { return std::make_unique<DistanceVerb>(); }

}  // namespace phasescope::app
