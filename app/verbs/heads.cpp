#include <algorithm>

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class HeadsVerb : public Verb {
 public:
  std::string name() const override { return "heads"; }
  std::string help() const override { return "every head statistic, over one text or a corpus"; }
  std::string example() const override { return "phasescope heads tapa --prompt 'a b a b a b'"; }
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    input_.declare(options);
    set_.declare(options);
    options.option("--stack", stack_, "of an encoder-decoder: dec (default), enc or cross");
    options.flag("--corpus", corpus_, "over the bundled validation texts, with 95 % intervals");
    options.option("--metrics", metrics_,
                   "comma separated (default: all but js_divergence and distance_profile)");
    options.option("--sort", sort_, "metric to sort by, highest first");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"model", model_}, {"corpus", corpus_}, {"thumbnails", true}};
    input_.add_to(params);
    set_.add_to(params);
    if (!stack_.empty()) params["stack"] = stack_;
    if (!metrics_.empty()) params["metrics"] = split_list(metrics_);
    protocol::Reply reply = run.call("heads", std::move(params));
    const auto heads = result_of<protocol::HeadsResult>(reply);
    Output output{.result = std::move(reply.result)};
    Table table = heads_table(heads, sorted(output.result["rows"]));
    for (const protocol::MetricInfo& metric : heads.metrics) {
      table.notes.push_back(metric.key + ": " + metric.formula +
                            (metric.note.empty() ? "" : " (" + metric.note + ")"));
    }
    for (const auto& [key, value] : heads.model_values) {
      table.notes.push_back(key + " of the model: " + widgets::short_number(value.mean));
    }
    if (!heads.stack.empty()) table.notes.push_back(stack_note(heads.stack));
    table.notes.push_back(heads.provenance.note);
    output.tables = {std::move(table)};
    const std::string shown = sort_.empty() ? "entropy" : sort_;
    for (const protocol::TensorRef& tensor : reply.tensors) {
      if (tensor.name == "thumbnails") {
        output.grids.push_back(head_grid_figure(heads, grid_of(tensor), shown));
      }
    }
    for (const protocol::MetricInfo& metric : heads.metrics) {
      output.figures.push_back(metric_map_figure(heads, metric.key));
    }
    return output;
  }

 private:
  nlohmann::json sorted(nlohmann::json rows) const {
    if (sort_.empty() || rows.empty()) return rows;
    if (!rows.front().contains(sort_)) {
      throw formats::bad_usage("no metric is called \"" + sort_ + "\"", "--sort");
    }
    const auto value = [&](const nlohmann::json& row) {
      const nlohmann::json& cell = row[sort_];
      return protocol::detail::read_double(cell.is_object() ? cell["mean"] : cell);
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const auto& a, const auto& b) { return value(a) > value(b); });
    return rows;
  }

  std::string model_, stack_, metrics_, sort_;
  bool corpus_ = false;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> heads_verb() { return std::make_unique<HeadsVerb>(); }

}  // namespace phasescope::app
