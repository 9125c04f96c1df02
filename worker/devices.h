// What this machine computes on, and what LibTorch's errors about it mean.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "worker/failure.h"
#include "worker/handlers.h"

namespace phasescope::worker {

// For worker.info: {"version", "torch", "torch_library" (where LibTorch was found), "torch_code"
// and "attention_code" (the instruction sets that LibTorch and the kernels run), "assets", "jobs"
// (their folders), "threads", "devices": ["cpu", "cuda:0", ...], "notice"?}; the notice says why
// the device asked for is not used.
nlohmann::json worker_facts(const WorkerSettings& settings, const std::string& version);

// What is said where no device can be used but the CPU: `fault` is why a driver that is there
// cannot be; empty where there is none, or where it shows no device.
std::string notice_without_gpu(const std::string& fault);

// Bytes of a device's memory that can still be had; of the CPU's formats::available_bytes().
std::int64_t available_bytes(const at::Device& device);

// Gives back what LibTorch's allocators keep for later on all devices.
void empty_device_cache();

// LibTorch's exceptions, and those of the CUDA kernels: out of memory (bytes wanted and free, after
// its cache was emptied), device faults (fatal), and its other errors without their stack traces.
std::optional<Failure> translate_torch(std::exception_ptr exception);

}  // namespace phasescope::worker
