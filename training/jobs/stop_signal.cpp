#include "training/jobs/stop_signal.h"

#include <signal.h>

#include <atomic>

namespace phasescope::training {
namespace {

std::atomic<int> asked{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may take no lock");

void ask_to_stop(int signal) { asked.store(signal); }

}  // namespace

void heed_stop_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &action, nullptr);
}

int stop_signal() { return asked.load(); }

}  // namespace phasescope::training
