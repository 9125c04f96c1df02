#include "protocol/messages/jobs.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class JobsVerb : public Verb {
 public:
  std::string name() const override { return "jobs"; }
  std::string help() const override {
    return "jobs: list, show, pause, resume, cancel, log, remove";
  }
  std::string example() const override { return "phasescope jobs list"; }
  void declare(Options& options) override {
    options.argument("ACTION", action_, "list, show, pause, resume, cancel, log or remove", false);
    options.argument("JOB", dir_, "the job's name as `jobs list` prints it, or its folder", false);
  }
  std::string missing_forms() const override {
    if (action_ == "list") return kTablesAlone;
    return action_ == "show" ? kNoArrays : kDocumentAlone;
  }
  Output run(Run& run) override {
    if (action_ == "list") return list(run);
    if (std::ranges::find(kActions, action_) == std::end(kActions)) {
      throw formats::bad_usage("jobs does not know \"" + action_ + "\"", "ACTION",
                               "list, show, pause, resume, cancel, log or remove");
    }
    if (dir_.empty()) {
      throw formats::bad_usage("jobs " + action_ + " needs a job's name or folder", "JOB");
    }
    const std::string job = named();
    if (action_ == "show") return show(run, job);
    if (action_ == "log") {
      Output output{.result = run.call(protocol::LogRequest{.dir = job}).result};
      output.text = output.result.value("log", "");
      return output;
    }
    Output output{.result =
                      run.call(protocol::ControlRequest{.dir = job, .action = action_}).result};
    output.text = action_ + ": " + output.result.value("dir", job) + "\n";
    if (action_ == "remove") output.text += output.result.value("message", "") + "\n";
    return output;
  }

 private:
  static constexpr const char* kActions[] = {"show", "pause", "resume", "cancel", "log", "remove"};

  // A folder from here; any other word is a name, which the worker looks up.
  std::string named() const {
    std::error_code error;
    const bool folder = dir_.find('/') != dir_.npos || std::filesystem::is_directory(dir_, error);
    return folder ? std::filesystem::absolute(dir_).lexically_normal().string() : dir_;
  }

  Output list(Run& run) {
    Output output{.result = run.call(protocol::JobsRequest{.root = dir_}).result};
    output.tables = {table_of<protocol::JobStatus>(
        "", output.result["jobs"], {"name", "kind", "state", "step", "steps", "dir"})};
    if (output.result["jobs"].empty()) output.tables[0].notes.push_back("no jobs");
    return output;
  }

  static Output show(Run& run, const std::string& dir) {
    protocol::Reply reply = run.call(protocol::JobRequest{.dir = dir});
    const auto job = result_of<protocol::JobStatus>(reply);
    Output output{.result = std::move(reply.result)};
    output.tables = {facts_table("", output.result,
                                 {"dir", "name", "kind", "state", "message", "pid", "step", "steps",
                                  "tokens", "seconds", "seconds_left", "kernel", "checkpoints"})};
    output.figures = {job_curve_figure(job)};
    return output;
  }

  std::string action_ = "list", dir_;
};

}  // namespace

std::unique_ptr<Verb> jobs_verb() { return std::make_unique<JobsVerb>(); }

}  // namespace phasescope::app
