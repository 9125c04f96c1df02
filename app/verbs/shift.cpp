#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class ShiftVerb : public Verb {
 public:
  std::string name() const override { return "shift"; }
  std::string help() const override { return "shift stability (TAPE Table 8)"; }
  std::string example() const override {
    return "phasescope shift rope tape tapa --by 3\n"
           "phasescope shift rope tape --by 1,1000,1000000 --method ids";
  }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [shift, json, tensors] = run.ask<protocol::ShiftResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(shift)};
    Table table = shift_table(shift);
    const ModelNames names = names_in(shift);
    add_notes(table.notes, shift.provenance, names);
    output.tables = {std::move(table), shift_rows_table(output.result)};
    output.tables.push_back(published_shift_table(shift));
    if (output.tables.back().rows.empty()) output.tables.pop_back();
    output.figures = shift_figures(shift, names);
    return output;
  }

 private:
  protocol::ShiftRequest request_;
};

}  // namespace

std::unique_ptr<Verb> shift_verb() { return std::make_unique<ShiftVerb>(); }

}  // namespace phasescope::app
