#include "worker/devices.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <new>

#include "formats/error.h"
#include "formats/system_memory.h"
#include "kernels/attention.h"
#include "kernels/cuda/cuda_error.h"
#include "model/checkpoints/open_model.h"
#include "model/devices.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/out_of_memory.h"
#include "worker/room.h"

namespace phasescope::worker {

namespace {

namespace code = protocol::error_code;

// CUDA's 700 to 719: illegal access, launch failure, assert and their kind. The context is lost.
constexpr int first_fatal_code = 700;
constexpr int last_fatal_code = 719;

// Where LibTorch was found: the library that holds its CPU half.
std::string torch_library() {
  Dl_info info{};
  const bool found = ::dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &info) != 0;
  return found && info.dli_fname ? info.dli_fname : "";
}

// The first line: c10 appends where in LibTorch it was thrown.
std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

// `wanted` is known of the CPU's allocator; a device's says both numbers in its own sentence. What
// the handler held is given back by now, so that more may be free than was when it failed.
Failure out_of_memory(std::optional<std::int64_t> wanted, const std::string& message) {
  empty_device_cache();
  std::string sentence = message;
  if (wanted) {
    sentence = "not enough memory: " + std::to_string(*wanted) + " bytes were wanted, " +
               std::to_string(formats::available_bytes()) + " are free now";
  }
  return {{std::string(code::out_of_memory), sentence, "", what_would_fit(shortage_of(message))},
          false};
}

Failure describe_torch(const c10::Error& error) {
  const std::string message = first_line(error.what_without_backtrace());
  const auto wanted = training::bytes_wanted(error.what_without_backtrace());
  if (wanted) return out_of_memory(wanted, message);
  return {{std::string(code::internal), "LibTorch refused: " + message, "", ""}, false};
}

Failure device_failure(int number, const std::string& message) {
  const bool fatal = number >= first_fatal_code && number <= last_fatal_code;
  return {{std::string(code::internal), "the device failed: " + message, "", ""}, fatal};
}

}  // namespace

nlohmann::json worker_facts(const WorkerSettings& settings, const std::string& version) {
  nlohmann::json facts = {{"version", version},
                          {"torch", TORCH_VERSION},
                          {"torch_library", torch_library()},
                          {"torch_code", at::get_cpu_capability()},
                          {"attention_code", kernels::attention_target()},
                          {"assets", model::assets_folder().string()},
                          {"jobs", training::default_jobs_root().string()},
                          {"threads", at::get_num_threads()},
                          {"devices", {"cpu"}}};
  for (std::size_t i = 0; i < model::cuda_devices(); ++i) {
    facts["devices"].push_back("cuda:" + std::to_string(i));
  }
  if (facts["devices"].size() == 1) facts["notice"] = notice_without_gpu(model::cuda_fault());
  try {
    model::device_named(settings.device);
  } catch (const formats::Error& error) {
    facts["notice"] = error.full_text();
  }
  return facts;
}

std::string notice_without_gpu(const std::string& fault) {
  if (fault.empty()) {
    return "No CUDA device is there (none, an old driver, or none shown): the CPU is used";
  }
  return "LibTorch's CUDA half cannot be loaded (" + fault + "): the CPU is used";
}

std::int64_t available_bytes(const at::Device& device) {
  if (device.is_cpu()) return formats::available_bytes();
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(device.index()).first);
}

void empty_device_cache() {
  if (at::hasCUDA()) at::accelerator::emptyCache();
}

std::optional<Failure> translate_torch(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return out_of_memory(
        std::nullopt,
        "not enough memory: " + std::to_string(formats::available_bytes()) + " bytes are free now");
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory(std::nullopt, first_line(error.what_without_backtrace()));
  } catch (const c10::AcceleratorError& error) {
    return device_failure(error.get_error_code(), first_line(error.what_without_backtrace()));
  } catch (const kernels::CudaOutOfMemory& error) {
    return out_of_memory(std::nullopt, error.what());
  } catch (const kernels::CudaError& error) {
    return device_failure(error.code(), error.what());
  } catch (const c10::Error& error) {
    return describe_torch(error);
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace phasescope::worker
