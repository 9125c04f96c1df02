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
  void ask(Desk& desk) override;
  void draw_content(Desk& desk) override;
  std::string kernels(const Desk& desk) const override {
    return kernels_of(desk, &ModelQuestions::eval);
  }
  Output exported(Desk& desk) override;
  std::string command_line(const Session& session) const override;

 private:
  void draw_controls(Desk& desk);
  void draw_table(const Desk& desk, const protocol::EvalResult& result);

  std::map<std::string, std::vector<int64_t>> lengths_;  // asked of each model
  Cached<protocol::EvalResult> result_;
  Cached<widgets::PlotSpec> plot_;
};

}  // namespace phasescope::app
