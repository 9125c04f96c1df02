#pragma once

#include <chrono>

#include "app/views/field_form.h"
#include "app/views/view.h"
#include "protocol/messages/jobs.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

struct JobsState {
  static constexpr const char* kView = "jobs";
  std::string dir;              // the job shown in full
  std::string config = "tapa";  // of the training form
  int64_t steps = 200;
  EvalChoices evaluation;  // all texts, at the lengths that the worker takes by itself
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("config", config), v("steps", steps), v("evaluation", evaluation);
  }
};

inline constexpr Asks<protocol::JobsResult> kJobs{"jobs", protocol::JobsRequest::method,
                                                  "listing jobs", Lane::quick, true};
inline constexpr Asks<protocol::JobStatus> kJob{"jobs", protocol::JobRequest::method,
                                                "reading the job", Lane::quick, true};
inline constexpr Asks<protocol::JobStatus> kStart{"jobs", protocol::StartRequest::method,
                                                  "starting the job"};
inline constexpr Asks<nlohmann::json> kControl{"jobs", protocol::ControlRequest::method,
                                               "telling the job"};

// Trainings and evaluations in the background: start one, watch its curve, pause, resume, cancel.
class JobsView : public View {
 public:
  std::string id() const override { return "jobs"; }
  bool about_models() const override { return false; }
  std::string title() const override { return "Jobs"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle_bottom; }
  bool polls() const override { return true; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  void poll(ViewContext& context);
  void draw_form(ViewContext& context);
  void draw_list(ViewContext& context);
  void draw_job(ViewContext& context, const protocol::JobStatus& job);
  void draw_buttons(ViewContext& context, const protocol::JobStatus& job);
  void start_training(ViewContext& context);
  void start_eval(ViewContext& context);

  EvalForm form_;
  Cached<widgets::PlotSpec> plot_;
  std::vector<std::string> configs_;  // names of shipped run configurations
  std::chrono::steady_clock::time_point polled_at_;
  std::uint64_t started_serial_ = 0;
};

}  // namespace phasescope::app
