#include "protocol/messages/models.h"

#include <filesystem>
#include <system_error>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "app/window/session.h"

namespace phasescope::app {

namespace {

namespace fs = std::filesystem;

class ModelsVerb : public Verb {
 public:
  std::string name() const override { return "models"; }
  std::string help() const override { return "bundled models"; }
  std::string example() const override { return "phasescope models"; }
  std::string missing_forms() const override { return ".npy .safetensors .svg .pdf .png"; }
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
    if (std::error_code none; run.common().remote.empty() && !fs::exists(assets_folder(), none)) {
      table.notes.push_back("the folder of the bundled models is not there: " +
                            assets_folder().string());
    }
    output.tables = {std::move(table)};
    return output;
  }
};

}  // namespace

std::unique_ptr<Verb> models_verb() { return std::make_unique<ModelsVerb>(); }

}  // namespace phasescope::app
