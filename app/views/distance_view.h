#pragma once

#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// How scores and weights depend on distance, for all open models over each other.
class DistanceView : public View {
 public:
  std::string id() const override { return "distance"; }
  std::string title() const override { return "Distance bias"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::string kernels(const ViewContext& context) const override {
    return kernels_of(context, &ModelQuestions::distance);
  }
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  void draw_controls(ViewContext& context);
  void draw_table(const std::vector<protocol::DistanceModel>& models);

  Cached<std::vector<protocol::DistanceModel>> models_;
  Cached<std::vector<widgets::PlotSpec>> plots_;
};

}  // namespace phasescope::app
