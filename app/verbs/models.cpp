#include "protocol/messages/models.h"

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class ModelsVerb : public Verb {
 public:
  std::string name() const override { return "models"; }
  std::string help() const override { return "bundled models"; }
  std::string example() const override { return "phasescope models"; }
  void declare(Options&) override {}
  Output run(Run& run) override {
    Output output{.result = run.call(protocol::ModelsRequest{}).result};
    Table table = table_of<protocol::ModelSummary>(
        "", output.result["models"],
        {"name", "encoding", "layers", "heads", "width", "context", "parameters", "title"});
    for (const auto& model : output.result["models"]) {
      const std::string note = model.value("note", "");
      if (!note.empty()) table.notes.push_back(model.value("name", "") + ": " + note);
    }
    output.tables = {std::move(table)};
    return output;
  }
};

}  // namespace

std::unique_ptr<Verb> models_verb() { return std::make_unique<ModelsVerb>(); }

}  // namespace phasescope::app
