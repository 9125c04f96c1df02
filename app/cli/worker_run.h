#pragma once
// Run over a real worker: the command line as a client.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/cli/progress_lines.h"
#include "app/cli/run.h"
#include "protocol/client.h"
#include "protocol/messages/common.h"

namespace phasescope::app {

// The options of phasescope-worker that start one there.
std::vector<std::string> worker_arguments(const protocol::Place& place);

// Turns this process into phasescope-worker. Throws Error "bad_input" where that cannot be
// started.
[[noreturn]] void become_worker(std::vector<std::string> arguments);

class WorkerRun : public Run {
 public:
  WorkerRun(CommonOptions common, std::string command);

  const CommonOptions& common() const override { return common_; }
  protocol::Reply call(const std::string& method, nlohmann::json params) override;
  void tell_fallback(const protocol::Provenance& provenance) override;
  void say(const std::string& line) override;
  void show_progress(double fraction, const std::string& text) override;
  bool interrupted() const override;
  const std::string& command() const override { return command_; }

 private:
  protocol::ErrorInfo as_unreachable(protocol::ErrorInfo error) const;
  void tell_hidden_folders(const nlohmann::json& params);
  // By Ctrl-C or SIGTERM, which is said once.
  bool asked_to_stop();

  CommonOptions common_;
  std::string command_;
  bool bar_shown_ = false;
  ProgressLines progress_;
  std::set<std::string> told_;  // lines that are said once
  std::unique_ptr<protocol::WorkerClient> client_;
};

}  // namespace phasescope::app
