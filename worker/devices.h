// What this machine computes on, and what LibTorch's errors about it mean.
#pragma once

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "worker/failure.h"
#include "worker/handlers.h"

namespace phasescope::worker {

// For worker.info: {"version", "torch", "threads", "devices": ["cpu", "cuda:0", ...], "notice"?};
// the notice says why the device asked for is not used.
nlohmann::json worker_facts(const WorkerSettings& settings, const std::string& version);

// Throws Error "device_unavailable" for a device that models cannot be computed on here,
// "bad_usage" for a name that is none ("cpu", "cuda", "cuda:1").
void check_device(const std::string& name);

// Bytes that programs can still get, caches that would be given up included; 0 when not known.
std::int64_t available_bytes();

// LibTorch's exceptions: out of memory (bytes wanted and free, after its cache was emptied), device
// faults (fatal), and its other errors without their stack traces.
std::optional<Failure> translate_torch(std::exception_ptr exception);

}  // namespace phasescope::worker
