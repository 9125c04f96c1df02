#pragma once

#include "app/views/view.h"
#include "protocol/messages/capture.h"
#include "protocol/messages/models.h"
#include "protocol/messages/worker.h"
#include "widgets/data_table.h"

namespace phasescope::app {

inline constexpr Asks<protocol::ModelsResult> kModels{"models", protocol::ModelsRequest::method,
                                                      "listing models"};

// Which devices there are, among other facts.
inline constexpr Asks<nlohmann::json> kWorkerFacts{"models", protocol::WorkerInfoRequest::method,
                                                   "asking for devices"};

inline constexpr Asks<protocol::ReferenceCheckResult> kReferenceCheck{
    "models", protocol::CheckRequest::method, "comparing with the reference"};

struct ModelsState {
  static constexpr const char* kView = "models";
  std::string search = {};              // as of a table (widgets/data_table.h)
  std::vector<std::string> hosts = {};  // whose workers were used, newest first
  std::string reference = {};           // path of a file that models are compared with
  template <class V>
  void fields(V& v) {
    v("search", search), v("hosts", hosts), v("reference", reference);
  }
};

// What can be opened, what is open, and the load report of the selected model.
class ModelsView : public View {
 public:
  std::string id() const override { return "models"; }
  bool about_models() const override { return false; }
  std::string title() const override { return "Models"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::left_top; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  bool has_figures() const override { return false; }
  std::string command_line(const ViewContext& context) const override;

 private:
  // The models that can be opened, and as rows of a table that is searched and sorted.
  struct Listed {
    std::vector<protocol::ModelSummary> models;
    ModelNames names;
    widgets::TableSpec rows;
  };
  static Listed listed(const ViewContext& context);
  void draw_search(ViewContext& context);
  void draw_titles();
  void draw_list(ViewContext& context);
  void draw_row_menu(ViewContext& context, const std::string& model);
  static void draw_failure(ViewContext& context, const std::string& model);
  void draw_computing(ViewContext& context);
  void draw_host(ViewContext& context);
  static void connect(ViewContext& context, const std::string& host);
  void draw_row(ViewContext& context, const protocol::ModelSummary& model,
                const ModelNames& listed);
  void draw_report(const protocol::LoadReport& report, const std::string& name);
  void draw_reading(ViewContext& context, const std::string& name);
  static void draw_check(ViewContext& context, const std::string& name);

  // What the next reading of the selected model is to be.
  std::string scaling_ = "yarn", amount_ = "2";
  std::string host_;
  bool typing_host_ = false;
  Cached<Listed> listed_;
  widgets::TableArrangement arranged_;
};

}  // namespace phasescope::app
