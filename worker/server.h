// Serves requests over a channel: one thread receives, one computes, one sends.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/channel.h"
#include "worker/failure.h"
#include "worker/handlers.h"

namespace phasescope::worker {

struct ServerOptions {
  std::vector<Handler> handlers;
  WorkerSettings settings;
  nlohmann::json facts = nlohmann::json::object();  // what worker.info reports
  ModelCache* models = nullptr;
  std::vector<Translator> translators;
  std::string version = "0.1.0";
  protocol::TimeLimits times;
  // How long a computation that was told to stop is waited for.
  std::chrono::milliseconds leave_limit{5'000};
};

// Status a worker leaves with after an error of the device that it cannot survive.
inline constexpr int fatal_status = 70;

// Serves until the other side is gone. Returns the exit status: 0 when the input ended, 1 when the
// other side broke the protocol (the reason is on standard error), 70 after a fatal error. A
// computation that did not stop in time is left running in its thread: end the process with _exit.
int serve(std::unique_ptr<protocol::Channel> channel, ServerOptions options);

}  // namespace phasescope::worker
