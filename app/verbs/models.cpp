#include "protocol/messages/models.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "app/window/session.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "formats/file_system.h"

namespace phasescope::app {

namespace {

namespace fs = std::filesystem;

// Newest first, as the window's own session has them; none where there is none to be read.
std::vector<std::string> recent_models() {
  try {
    return read_session(formats::real_file_system(), default_session_path()).recent;
  } catch (const formats::Error&) {
    return {};
  }
}

class ModelsVerb : public Verb {
 public:
  std::string name() const override { return "models"; }
  std::string help() const override {
    return "bundled models, and those that the window has opened lately";
  }
  std::string example() const override { return "phasescope models"; }
  std::string missing_forms() const override { return kTablesAlone; }
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
    // Those of this machine, whichever the worker is on.
    const std::vector<std::string> recent = recent_models();
    output.result["recent"] = recent;
    if (recent.empty()) return output;
    Table opened{.title = "opened lately in the window", .columns = {"model"}};
    for (const std::string& model : recent) opened.rows.push_back({{"model", model}});
    output.tables.push_back(std::move(opened));
    return output;
  }
};

}  // namespace

std::unique_ptr<Verb> models_verb() { return std::make_unique<ModelsVerb>(); }

}  // namespace phasescope::app
