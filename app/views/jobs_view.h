#pragma once

#include <chrono>
#include <map>
#include <set>

#include "app/views/config_form.h"
#include "app/views/field_form.h"
#include "app/views/output_tables.h"
#include "app/views/view.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/jobs.h"

namespace phasescope::app {

struct JobsState {
  static constexpr const char* kView = "jobs";
  std::string dir;                   // the job shown in full
  std::vector<std::string> beside;   // folders of further ones whose curves are drawn over its own
  std::string curve = "loss";        // which curve of theirs
  bool form = false;                 // the form of a new training is shown in place of a job
  std::string source = "desk/tapa";  // what it began with: a shipped configuration, a file, a job
  nlohmann::json run;                // the configuration in it; null: as the source has it
  EvalChoices evaluation;            // all texts, at the lengths that the worker takes by itself
  ConfigLines::Typed typed = {};     // what of it is being typed
  std::string file;                  // the path of a configuration, as typed
  std::string first, second;         // checkpoints to compare; empty: the first and the last
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("beside", beside), v("curve", curve), v("form", form);
    v("source", source), v("run", run), v("evaluation", evaluation), v("typed", typed);
    v("file", file), v("first", first), v("second", second);
  }
};

inline constexpr Asks<protocol::JobsResult> kJobs{"jobs", protocol::JobsRequest::method,
                                                  "listing jobs", Lane::quick, true};
// What is asked about each job, by its folder.
inline constexpr Asks<protocol::JobStatus> kJob{"jobs", protocol::JobRequest::method,
                                                "reading the job", Lane::quick, true};
inline constexpr Asks<nlohmann::json> kJobLog{"jobs", protocol::LogRequest::method,
                                              "reading the log", Lane::quick, true};
inline constexpr Asks<protocol::ConfigForm> kJobForm{"jobs", protocol::FormRequest::method,
                                                     "reading the configuration"};
inline constexpr Asks<protocol::JobStatus> kStart{"jobs", protocol::StartRequest::method,
                                                  "starting the job"};
inline constexpr Asks<nlohmann::json> kControl{"jobs", protocol::ControlRequest::method,
                                               "telling the job"};

// Trainings and evaluations in the background: start one from a form, watch curves over each other
// and logs, pause, resume, cancel; open what was trained, see what was evaluated.
class JobsView : public View {
 public:
  std::string id() const override { return "jobs"; }
  bool about_models() const override { return false; }
  std::string title() const override { return "Jobs"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::middle_bottom; }
  double seconds_between_polls() const override { return poll_pause_; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  using Names = std::map<std::string, std::string>;  // of the jobs of the list, by folder
  void poll(ViewContext& context);
  void draw_bar(ViewContext& context);
  void draw_form(ViewContext& context);
  bool draw_source(ViewContext& context, JobsState& state);
  void load_source(ViewContext& context, JobsState& state, const std::string& path);
  void draw_removal(ViewContext& context, const protocol::JobStatus& job);
  void draw_list(ViewContext& context);
  static widgets::TableSpec list_of(const protocol::JobsResult& result, const Names& names,
                                    const JobsState& state);
  std::string name_of(const ViewContext& context, const protocol::JobStatus& job) const;
  const Names& names_of_list(const Answer<protocol::JobsResult>& list) const;
  void draw_job(ViewContext& context, const protocol::JobStatus& job);
  void draw_head(ViewContext& context, const protocol::JobStatus& job);
  void draw_buttons(ViewContext& context, const protocol::JobStatus& job);
  void draw_opening(ViewContext& context, const protocol::JobStatus& job);
  void draw_curves(ViewContext& context, const protocol::JobStatus& job);
  void draw_log(ViewContext& context, const protocol::JobStatus& job);
  void draw_result(ViewContext& context, const protocol::JobStatus& job);
  std::vector<protocol::JobStatus> jobs_drawn(const ViewContext& context) const;
  widgets::PlotSpec plot_of(const ViewContext& context) const;
  void start(ViewContext& context, const protocol::StartRequest& request);
  void start_training(ViewContext& context);
  void start_eval(ViewContext& context);

  EvalForm form_;
  ConfigLines lines_;
  Cached<std::vector<std::string>> quantities_;  // that a curve can be of
  Cached<widgets::PlotSpec> plot_;
  Cached<Output> result_;
  OutputTables tables_;
  Cached<widgets::TableSpec> list_;
  mutable Cached<Names> names_;
  widgets::DataTable list_table_;
  std::vector<std::string> configs_;  // names of shipped run configurations
  bool log_seen_ = false;
  std::chrono::steady_clock::time_point polled_at_;
  std::chrono::steady_clock::time_point acted_at_;  // a job was started or told something
  double poll_pause_ = 1;
  std::uint64_t started_serial_ = 0;
};

}  // namespace phasescope::app
