#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

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
  void declare(Options&) override {}
  Output run(Run& run) override {
    std::vector<std::string> arguments;
    if (!run.common().device.empty()) arguments = {"--device", run.common().device};
    if (run.common().threads > 0) {
      arguments.insert(arguments.end(), {"--threads", std::to_string(run.common().threads)});
    }
    protocol::WorkerCommand command = protocol::local_worker(std::move(arguments));
    std::vector<char*> argv;
    for (std::string& word : command.argv) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    throw formats::bad_input(
        "the worker program could not be started: " + std::string(std::strerror(errno)),
        command.argv[0]);
  }
};

}  // namespace

std::unique_ptr<Verb> worker_verb() { return std::make_unique<WorkerVerb>(); }

}  // namespace phasescope::app
