#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class PatternsVerb : public Verb {
 public:
  std::string name() const override { return "patterns"; }
  std::string help() const override { return "PE dot products, spectra, bias curves, drift"; }
  std::string example() const override { return "phasescope patterns tape --out out/patterns"; }
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    input_.declare(options);
    set_.declare(options);
    options.option("--layers", layers_, "e.g. 0,3 (default: all; 0 is the start)");
    options.option("--positions", positions_, "how many positions are sampled");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"model", model_}, {"positions", positions_}};
    input_.add_to(params);
    set_.add_to(params);
    if (!layers_.empty()) params["layers"] = integer_list(layers_, "--layers");
    protocol::Reply reply = run.call("patterns", std::move(params));
    const auto patterns = result_of<protocol::PatternsResult>(reply);
    Output output{.result = std::move(reply.result), .tensors = std::move(reply.tensors)};
    add_figures(patterns, output);
    Table table =
        table_of("", output.result["layers"], {"layer", "mean_abs_z", "sd_abs_z", "drift"});
    for (const std::string& note : {patterns.formula, patterns.why_empty}) {
      if (!note.empty()) table.notes.push_back(note);
    }
    output.tables = {std::move(table)};
    return output;
  }

 private:
  static void add_figures(const protocol::PatternsResult& patterns, Output& output) {
    const std::string prefix = "pe_dot.";
    for (const protocol::TensorRef& tensor : output.tensors) {
      if (tensor.name.rfind(prefix, 0) != 0) continue;
      const int64_t layer = std::stoll(tensor.name.substr(prefix.size()));
      output.figures.push_back(pe_dot_figure(patterns, layer, grid_of(tensor)));
    }
    if (!patterns.layers.empty()) {
      output.figures.push_back(pe_by_distance_figure(patterns));
      // One layer's state has no drift to show: fixed positions are the same in every layer.
      if (patterns.layers.size() > 1) output.figures.push_back(state_drift_figure({&patterns, 1}));
    }
    if (!patterns.frequencies.empty()) output.figures.push_back(frequencies_figure(patterns));
    int64_t last = -1;
    for (const protocol::BiasCurve& curve : patterns.bias) {
      if (curve.layer == last) continue;
      last = curve.layer;
      output.figures.push_back(bias_curves_figure(patterns, last));
    }
  }

  std::string model_, layers_;
  int64_t positions_ = 128;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> patterns_verb() { return std::make_unique<PatternsVerb>(); }

}  // namespace phasescope::app
