#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "app/cli/worker_run.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"
#include "protocol/client.h"

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
  Output run(Run&) override {
    protocol::WorkerCommand command = protocol::local_worker(worker_arguments(place_));
    std::vector<char*> argv;
    for (std::string& word : command.argv) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    throw formats::bad_input(
        "the worker program could not be started: " + std::string(std::strerror(errno)),
        command.argv[0]);
  }

 private:
  protocol::Place place_;
};

}  // namespace

std::unique_ptr<Verb> worker_verb() { return std::make_unique<WorkerVerb>(); }

}  // namespace phasescope::app
