#include <cmath>
#include <limits>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "protocol/messages/capture.h"

namespace phasescope::app {

namespace {

class CheckVerb : public Verb {
 public:
  std::string name() const override { return "check"; }
  std::string help() const override { return "compare a model with a reference file"; }
  std::string example() const override {
    return "phasescope capture rope --prompt 'In the beginning' --what input_ids,logits,attn "
           "--out out/reference.safetensors\n"
           "phasescope check rope --reference out/reference.safetensors";
  }
  std::string missing_forms() const override { return kTablesAlone; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    if (request_.tolerance && !(*request_.tolerance > 0)) {
      throw formats::bad_usage("a tolerance must be above 0", "--tolerance");
    }
    auto [check, json, tensors] = run.ask<protocol::ReferenceCheckResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(check)};
    Table table = table_of<protocol::CheckedTensor>("", output.result["tensors"],
                                                    {"name", "dtype", "error", "tolerance", "ok"});
    const auto& left_out = output.result["not_compared"];
    if (!left_out.empty()) table.notes.push_back("not compared: " + joined(left_out));
    table.notes.push_back("verdict: " + check.verdict);
    output.tables = {std::move(table)};
    output.status = check.verdict == "equal" ? 0 : 1;
    return output;
  }

 private:
  static std::string joined(const nlohmann::json& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
    return text;
  }

  protocol::CheckRequest request_;
};

}  // namespace

std::unique_ptr<Verb> check_verb() { return std::make_unique<CheckVerb>(); }

}  // namespace phasescope::app
