#pragma once

#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// Every theorem check on every open model: verdict, number, bound, noise, and its plot.
class TheoryView : public View {
 public:
  std::string id() const override { return "theory"; }
  std::string title() const override { return "Theory"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::string kernels(const ViewContext& context) const override {
    return kernels_of(context, &ModelQuestions::theory);
  }
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  void draw_list(ViewContext& context, const std::vector<const protocol::CheckResult*>& checks);
  void draw_check(const protocol::CheckResult& check);

  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
