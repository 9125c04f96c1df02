#pragma once

#include <chrono>

#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// Trainings and evaluations in the background: start one, watch its curve, pause, resume, cancel.
class JobsView : public View {
 public:
  std::string id() const override { return "jobs"; }
  bool about_models() const override { return false; }
  std::string title() const override { return "Jobs"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  void poll(ViewContext& context);
  void draw_form(ViewContext& context);
  void draw_list(ViewContext& context);
  void draw_job(ViewContext& context, const protocol::JobStatus& job);
  void draw_buttons(ViewContext& context, const protocol::JobStatus& job);
  void start_training(ViewContext& context);
  void start_eval(ViewContext& context);

  Cached<widgets::PlotSpec> plot_;
  std::vector<std::string> configs_;  // names of shipped run configurations
  std::chrono::steady_clock::time_point polled_at_;
  std::uint64_t started_serial_ = 0;
};

}  // namespace phasescope::app
