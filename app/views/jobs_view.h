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
  void ask(Desk& desk) override;
  void draw_content(Desk& desk) override;
  Output exported(Desk& desk) override;
  std::string command_line(const Session& session) const override;

 private:
  void poll(Desk& desk);
  void draw_form(Desk& desk);
  void draw_list(Desk& desk);
  void draw_job(Desk& desk, const protocol::JobStatus& job);
  void draw_buttons(Desk& desk, const protocol::JobStatus& job);
  void start_training(Desk& desk);
  void start_eval(Desk& desk);

  Cached<widgets::PlotSpec> plot_;
  std::vector<std::string> configs_;  // names of shipped run configurations
  std::chrono::steady_clock::time_point polled_at_;
  std::uint64_t started_serial_ = 0;
};

}  // namespace phasescope::app
