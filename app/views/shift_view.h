#pragma once

#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// What moving a text does to a model: its position ids shifted, or tokens put before it.
class ShiftView : public View {
 public:
  std::string id() const override { return "shift"; }
  std::string title() const override { return "Shift stability"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::string kernels(const ViewContext& context) const override {
    return kernels_of(context, &ModelQuestions::shift);
  }
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  void draw_controls(ViewContext& context);
  widgets::PlotSpec plot_of(const ViewContext& context, protocol::ShiftResult result) const;
  void draw_table(const ViewContext& context, const protocol::ShiftResult& result);

  Cached<protocol::ShiftResult> result_;
  Cached<widgets::PlotSpec> plot_;
};

}  // namespace phasescope::app
