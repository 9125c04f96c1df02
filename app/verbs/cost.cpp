#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class CostVerb : public Verb {
 public:
  std::string name() const override { return "cost"; }
  std::string help() const override { return "FLOPs, MACs, parameters and memory at a length"; }
  std::string example() const override { return "phasescope cost rope --length 1024"; }
  void declare(Options& options) override {
    options.argument("MODEL", model_, "model, or a run configuration or config.json");
    options.option("--length", length_, "tokens of one forward pass");
  }
  Output run(Run& run) override {
    Output output{.result = run.call("cost", {{"model", model_}, {"length", length_}}).result};
    nlohmann::json counts = nlohmann::json::array();
    for (const char* name : {"published", "executed"}) {
      nlohmann::json row = output.result[name];
      row["count"] = name;
      counts.push_back(std::move(row));
    }
    Table table = table_of("", counts, {"count", "flops", "macs", "parameters"});
    for (const auto& line : output.result.value("conventions", nlohmann::json::array())) {
      table.notes.push_back(line);
    }
    output.tables = {std::move(table),
                     table_of("Parts", output.result["parts"], {"name", "macs", "parameters"})};
    return output;
  }

 private:
  std::string model_;
  int64_t length_ = 1024;
};

}  // namespace

std::unique_ptr<Verb> cost_verb() { return std::make_unique<CostVerb>(); }

}  // namespace phasescope::app
