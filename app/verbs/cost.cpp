#include "protocol/messages/cost.h"

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/limits.h"

namespace phasescope::app {

namespace {

class CostVerb : public Verb {
 public:
  std::string name() const override { return "cost"; }
  std::string help() const override { return "FLOPs, MACs, parameters and memory at a length"; }
  std::string example() const override { return "phasescope cost rope --length 1024"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [cost, json, tensors] = run.ask<protocol::CostResult>(request_);
    Output output{.result = std::move(json)};
    const std::vector<std::string> numbers = {"flops", "macs", "parameters", "parameters_mi",
                                              "memory_bytes"};
    nlohmann::json counts = nlohmann::json::array();
    for (const char* name : {"published", "executed"}) {
      nlohmann::json row = output.result[name];
      row["count"] = name;
      counts.push_back(std::move(row));
    }
    counts.back()["memory_bytes"] = output.result["memory_bytes"];
    Table table = table_of<protocol::Count>(
        "", counts, {"count", "flops", "macs", "parameters", "parameters_mi", "memory_bytes"});
    table.counts = numbers;
    const auto whole = protocol::headings_of<protocol::CostResult>();
    table.headings["memory_bytes"] = whole.at("memory_bytes");
    for (const std::string& line : cost.conventions) table.notes.push_back(line);
    Table parts = table_of<protocol::CostPart>("Parts", output.result["parts"],
                                               {"name", "macs", "parameters"});
    parts.counts = numbers;
    output.tables = {std::move(table), std::move(parts)};
    return output;
  }

 private:
  protocol::CostRequest request_;
};

}  // namespace

std::unique_ptr<Verb> cost_verb() { return std::make_unique<CostVerb>(); }

}  // namespace phasescope::app
