#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class DistanceVerb : public Verb {
 public:
  std::string name() const override { return "distance"; }
  std::string help() const override {
    return "distance bias: score by distance, near-far histogram, intrinsic bias";
  }
  std::string example() const override {
    return "phasescope distance rope tapa --corpus\n"
           "phasescope distance rope --heads L1H2,L3H0 --bases 10000,1000000 --factors 4 --out "
           "out/d";
  }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [distance, json, tensors] = run.ask<protocol::DistanceResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(distance)};
    output.tables = {near_far_table(distance)};
    if (Table biases = head_bias_table(distance); !biases.rows.empty()) {
      output.tables.push_back(std::move(biases));
    }
    auto figures = figures_of(measured(distance), names_in(distance));
    // The intrinsic bias is one of each head.
    if (!request_.per_head) figures = without("intrinsic bias", std::move(figures));
    output.figures = plots_of(std::move(figures));
    return output;
  }

 private:
  protocol::DistanceRequest request_;
};

}  // namespace

std::unique_ptr<Verb> distance_verb() { return std::make_unique<DistanceVerb>(); }

}  // namespace phasescope::app
