#include <cstdio>

#include "app/figures/figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/limits.h"
#include "protocol/messages/models.h"

namespace phasescope::app {

namespace {

// "1, 0.316, 0.1, ..., 0.001 (16)": a table has no room for all of them; the JSON has.
std::string frequencies_text(const nlohmann::json& list) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n == kShown && list.size() > kShown + 2) {
      text += ", ...";
      n = list.size() - 1;
    }
    char number[32];
    std::snprintf(number, sizeof number, "%.4g", list[n].get<double>());
    text += (text.empty() ? "" : ", ") + std::string(number);
  }
  return list.size() > kShown ? text + " (" + std::to_string(list.size()) + ")" : text;
}

void add_rope_plan(Output& output) {
  auto plan = output.result.value("rope_plan", nlohmann::json::array());
  if (plan.empty()) return;
  for (nlohmann::json& row : plan) row["frequencies"] = frequencies_text(row.at("frequencies"));
  output.tables.push_back(table_of<protocol::RopePlanRow>(
      "Rope plan", plan,
      {"layers", "sees", "encoding", "channels", "frequencies", "magnitude", "axes", "norm",
       "temperature", "stored_difference", "library_difference"}));
}

class InfoVerb : public Verb {
 public:
  std::string name() const override { return "info"; }
  std::string help() const override {
    return "load report: family, encoding, dtypes, tensors, parameters, memory, quirks";
  }
  std::string example() const override { return "phasescope info rope"; }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    Output output{.result = run.call(request_).result};
    nlohmann::json facts = output.result;
    facts.update(output.result.value("model", nlohmann::json::object()));
    facts["encoding_options"] = facts.value("encoding_options", nlohmann::json::object()).dump();
    facts["dtypes"] = facts.value("dtypes", nlohmann::json::object()).dump();
    output.tables.push_back(facts_table("", facts,
                                        {"name",
                                         "path",
                                         "family",
                                         "encoding",
                                         "encoding_why",
                                         "encoding_title",
                                         "encoding_source",
                                         "scaling",
                                         "encoding_options",
                                         "note",
                                         "parameters",
                                         "layers",
                                         "heads",
                                         "kv_heads",
                                         "head_dim",
                                         "width",
                                         "ffn_width",
                                         "vocab_size",
                                         "context",
                                         "dtypes",
                                         "tokenizer",
                                         "dtype",
                                         "weight_bytes",
                                         "memory_bytes_at_context",
                                         "length",
                                         "memory_bytes",
                                         "missing",
                                         "unexpected",
                                         "tied",
                                         "quirks",
                                         "warnings",
                                         "hash"}));
    add_rope_plan(output);
    const auto report = protocol::from_json_form<protocol::LoadReport>(output.result);
    if (auto plan = rope_plan_figure(report, ModelNames({report.model.name}))) {
      output.figures = {std::move(*plan)};
    }
    const auto flagged = output.result.value("flagged", nlohmann::json::array());
    if (!flagged.empty()) {
      output.tables.push_back(
          table_of("Flagged tensors", flagged, {"name", "dtype", "shape", "flag"}));
    }
    return output;
  }

 private:
  protocol::InfoRequest request_;
};

}  // namespace

std::unique_ptr<Verb> info_verb() { return std::make_unique<InfoVerb>(); }

}  // namespace phasescope::app
