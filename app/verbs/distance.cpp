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
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [distance, json, tensors] = run.ask<protocol::DistanceResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(distance)};
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
  protocol::DistanceRequest request_;
};

}  // namespace

std::unique_ptr<Verb> distance_verb() { return std::make_unique<DistanceVerb>(); }

}  // namespace phasescope::app
