#include <cmath>
#include <limits>

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

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
  void declare(Options& options) override {
    options.argument("MODEL", model_, kModelHelp);
    options.option("--reference", reference_, "safetensors file with inputs and expected tensors");
    options.option("--tolerance", tolerance_,
                   "relative to each tensor's largest magnitude (default: 1e-10 in f64; in f32 "
                   "1e-5 or 3 x the reference's own loss)");
    set_.declare(options);
  }
  Output run(Run& run) override {
    if (reference_.empty()) {
      throw formats::bad_usage("check needs a reference file", "--reference");
    }
    const bool given = !std::isnan(tolerance_);  // the parser takes finite numbers alone
    if (given && !(tolerance_ > 0)) {
      throw formats::bad_usage("a tolerance must be above 0", "--tolerance");
    }
    nlohmann::json params{{"model", model_}, {"reference", reference_}};
    if (given) params["tolerance"] = tolerance_;
    set_.add_to(params);
    Output output{.result = run.call("check", std::move(params)).result};
    const std::string verdict = output.result.value("verdict", "");
    Table table =
        table_of("", output.result["tensors"], {"name", "dtype", "error", "tolerance", "ok"});
    const auto& left_out = output.result["not_compared"];
    if (!left_out.empty()) table.notes.push_back("not compared: " + joined(left_out));
    table.notes.push_back("verdict: " + verdict);
    output.tables = {std::move(table)};
    output.status = verdict == "equal" ? 0 : 1;
    return output;
  }

 private:
  static std::string joined(const nlohmann::json& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
    return text;
  }

  std::string model_, reference_;
  double tolerance_ = std::numeric_limits<double>::quiet_NaN();
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> check_verb() { return std::make_unique<CheckVerb>(); }

}  // namespace phasescope::app
