#include "app/cli/worker_run.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

// `ssh HOST phasescope worker` reaches this; it becomes phasescope-worker.
class WorkerVerb : public Verb {
 public:
  std::string name() const override { return "worker"; }
  std::string help() const override { return "serve the protocol on standard input and output"; }
  std::string example() const override { return "phasescope worker < /dev/null | wc --bytes"; }
  Takes takes() const override {
    return {.out = false, .json = false, .quiet = false, .remote = false};
  }
  void declare(Options& options) override { options.request(place_); }
  Output run(Run&) override { become_worker(worker_arguments(place_)); }

 private:
  protocol::Place place_;
};

}  // namespace

std::unique_ptr<Verb> worker_verb() { return std::make_unique<WorkerVerb>(); }

}  // namespace phasescope::app
