#include "model/devices.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <regex>

#include "formats/error.h"
#include "protocol/error_info.h"

namespace phasescope::model {
namespace {

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

formats::Error unavailable(const std::string& sentence) {
  return {std::string(protocol::error_code::device_unavailable), sentence, "device",
          "compute on cpu, or look at the driver (nvidia-smi) and at CUDA_VISIBLE_DEVICES"};
}

}  // namespace

const std::string& cuda_fault() { return load_cuda(); }

std::size_t cuda_devices() {
  load_cuda();
  return at::hasCUDA() ? at::getNumGPUs() : 0;
}

at::Device device_named(const std::string& name) {
  static const std::regex form("cpu|cuda(:[0-9]{1,3})?");
  if (name.empty()) return at::kCPU;
  if (!std::regex_match(name, form)) {
    throw formats::bad_usage("'" + name + "' is no device", "device", "write cpu, cuda or cuda:1");
  }
  if (name == "cpu") return at::kCPU;
  const std::size_t index = name == "cuda" ? 0 : std::stoul(name.substr(5));
  const std::size_t there = cuda_devices();
  if (index < there) return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
  if (!at::hasCUDA()) {
    throw unavailable("the device " + name + " is not there: " +
                      (cuda_fault().empty()
                           ? "no NVIDIA GPU with a driver is found"
                           : "LibTorch's CUDA half cannot be loaded (" + cuda_fault() + ")"));
  }
  throw unavailable("the device " + name + " is not there: this machine shows " +
                    std::to_string(there) + (there == 1 ? " CUDA device" : " CUDA devices"));
}

}  // namespace phasescope::model
