#include "worker/devices.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <fstream>
#include <regex>

#include "formats/error.h"
#include "kernels/cuda/cuda_error.h"
#include "training/jobs/out_of_memory.h"

namespace phasescope::worker {

namespace {

namespace code = protocol::error_code;

// CUDA's 700 to 719: illegal access, launch failure, assert and their kind. The context is lost.
constexpr int first_fatal_code = 700;
constexpr int last_fatal_code = 719;

// The first line: c10 appends where in LibTorch it was thrown.
std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

void empty_device_cache() {
  if (at::hasCUDA()) at::accelerator::emptyCache();
}

// `wanted` is known of the CPU's allocator; a device's says both numbers in its own sentence.
Failure out_of_memory(std::optional<std::int64_t> wanted, const std::string& message) {
  empty_device_cache();
  std::string sentence = message;
  if (wanted)
    sentence = "not enough memory: " + std::to_string(*wanted) + " bytes were wanted, " +
               std::to_string(available_bytes()) + " are free";
  return {{std::string(code::out_of_memory), sentence, "",
           "ask for fewer rows, columns or layers, or a shorter text"},
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

// LibTorch's CUDA half registers itself when it is loaded. That takes a third of a worker's start
// and 350 MB, so it is done only where there is a driver, and before LibTorch is first asked for
// devices. Returns why a driver that is there cannot be used; empty otherwise.
const std::string& load_cuda() {
  static const std::string fault = []() -> std::string {
    if (!::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return "";
    if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return "";
    const char* reason = ::dlerror();
    return reason ? reason : "libtorch_cuda.so cannot be loaded";
  }();
  return fault;
}

std::size_t cuda_devices() {
  load_cuda();
  return at::hasCUDA() ? at::getNumGPUs() : 0;
}

}  // namespace

nlohmann::json worker_facts(const WorkerSettings& settings, const std::string& version) {
  nlohmann::json facts = {{"version", version},
                          {"torch", TORCH_VERSION},
                          {"threads", at::get_num_threads()},
                          {"devices", {"cpu"}}};
  for (std::size_t i = 0; i < cuda_devices(); ++i)
    facts["devices"].push_back("cuda:" + std::to_string(i));
  if (facts["devices"].size() == 1)
    facts["notice"] =
        load_cuda().empty()
            ? "No CUDA device is there (none, an old driver, or none shown): the CPU is used"
            : "LibTorch's CUDA half cannot be loaded (" + load_cuda() + "): the CPU is used";
  try {
    check_device(settings.device);
  } catch (const formats::Error& error) {
    facts["notice"] = error.full_text();
  }
  return facts;
}

void check_device(const std::string& name) {
  static const std::regex form("cpu|cuda(:[0-9]{1,3})?");
  if (!std::regex_match(name, form))
    throw formats::bad_usage("'" + name + "' is no device", "device", "write cpu, cuda or cuda:1");
  if (name == "cpu") return;
  const std::size_t index = name == "cuda" ? 0 : std::stoul(name.substr(5));
  const std::size_t there = cuda_devices();
  if (index >= there)
    throw formats::Error(std::string(code::device_unavailable),
                         "the device " + name + " is not there: this machine shows " +
                             std::to_string(there) + " CUDA devices",
                         "device", "use cpu, or look at the driver and CUDA_VISIBLE_DEVICES");
  throw formats::Error(std::string(code::device_unavailable),
                       "models are computed on the CPU in this version", "device", "use cpu");
}

std::int64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  return 0;
}

std::optional<Failure> translate_torch(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory(std::nullopt, first_line(error.what_without_backtrace()));
  } catch (const c10::AcceleratorError& error) {
    return device_failure(error.get_error_code(), first_line(error.what_without_backtrace()));
  } catch (const kernels::CudaError& error) {
    return device_failure(error.code(), error.what());
  } catch (const c10::Error& error) {
    return describe_torch(error);
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace phasescope::worker
