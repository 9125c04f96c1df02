#pragma once

#include "app/views/view.h"

namespace phasescope::app {

// What can be opened, what is open, and the load report of the selected model.
class ModelsView : public View {
 public:
  std::string id() const override { return "models"; }
  bool about_models() const override { return false; }
  std::string title() const override { return "Models"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  bool has_figures() const override { return false; }
  std::string command_line(const Session& session) const override;

 private:
  void draw_list(ViewContext& context);
  using Names = std::vector<std::string>;
  void draw_row(ViewContext& context, const protocol::ModelSummary& model, const Names& listed);
  void draw_report(const protocol::LoadReport& report);
  void draw_reading(ViewContext& context, const std::string& name);

  // What the next reading of the selected model is to be.
  std::string scaling_ = "yarn", amount_ = "2";
};

}  // namespace phasescope::app
