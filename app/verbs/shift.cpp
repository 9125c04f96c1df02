#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class ShiftVerb : public Verb {
 public:
  std::string name() const override { return "shift"; }
  std::string help() const override { return "shift stability (TAPE Table 8)"; }
  std::string example() const override { return "phasescope shift rope tape tapa --by 3"; }
  void declare(Options& options) override {
    options.arguments("MODEL", models_, kModelsHelp);
    input_.declare(options);
    set_.declare(options);
    options.option("--by", by_, "shifts, e.g. 1,3,16");
    options.option("--method", method_,
                   "ids (position ids start at k), tokens (k [BOS] tokens before the text)");
  }
  Output run(Run& run) override {
    nlohmann::json params{{"models", models_param(models_)},
                          {"by", integer_list(by_, "--by")},
                          {"method", split_list(method_)}};
    input_.add_to(params);
    set_.add_to(params);
    protocol::Reply reply = run.call("shift", std::move(params));
    const auto shift = result_of<protocol::ShiftResult>(reply);
    Output output{.result = std::move(reply.result)};
    Table table = table_of("", output.result["rows"],
                           {"model", "method", "by", "layer", "attention_difference",
                            "position_difference", "logits_difference", "dtype"});
    table.notes.push_back(shift.formula);
    add_notes(table.notes, shift.provenance);
    output.tables = {std::move(table)};
    output.figures = {shift_figure(shift)};
    return output;
  }

 private:
  std::vector<std::string> models_;
  std::string by_ = "1,3,16", method_ = "ids,tokens";
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> shift_verb() { return std::make_unique<ShiftVerb>(); }

}  // namespace phasescope::app
