// The worker's core alone as a program: serves the methods about the worker itself, needs no
// LibTorch.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "worker/handle_worker.h"
#include "worker/server.h"
#include "worker/stdio_guard.h"

int main(int argc, char** argv) {
  using namespace phasescope;
  auto fds = worker::take_standard_streams();
  ::signal(SIGPIPE, SIG_IGN);
  worker::ServerOptions options;
  options.handlers = worker::worker_handlers();
  for (auto& handler : worker::test_handlers()) options.handlers.push_back(std::move(handler));
  options.facts = {{"version", "0.1.0"}};
  if (argc > 1) options.times.heartbeat = std::chrono::milliseconds(std::atoi(argv[1]));
  options.leave_limit = std::chrono::milliseconds(1'000);
  auto channel = std::make_unique<protocol::Channel>(std::move(fds.in), std::move(fds.out), true);
  ::_exit(worker::serve(std::move(channel), std::move(options)));
}
