#pragma once

#include <map>

#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// Loss past the trained length: against position, and perplexity against length.
class ExtrapolationView : public View {
 public:
  std::string id() const override { return "extrapolation"; }
  std::string title() const override { return "Extrapolation"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::string kernels(const ViewContext& context) const override {
    return kernels_of(context, &ModelQuestions::eval);
  }
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  void draw_controls(ViewContext& context);
  void draw_table(const ViewContext& context, const protocol::EvalResult& result);

  std::map<std::string, std::vector<int64_t>> lengths_;  // asked of each model
  Cached<protocol::EvalResult> result_;
  Cached<widgets::PlotSpec> plot_;
};

}  // namespace phasescope::app
