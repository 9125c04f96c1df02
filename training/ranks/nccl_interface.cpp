#include "training/ranks/nccl_interface.h"

#include <dlfcn.h>

#include "formats/error.h"

namespace phasescope::training::nccl {
namespace {

formats::Error not_usable(const std::string& why) {
  return {"device_unavailable", "ranks on GPUs add up their gradients by NCCL, and " + why,
          "train.device", "install NCCL 2.17 or newer beside LibTorch's CUDA libraries"};
}

}  // namespace

Library open_library(const std::string& name) {
  void* const opened = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* reason = ::dlerror();
    throw not_usable("its library cannot be opened: " + std::string(reason ? reason : name));
  }
  Library library{};
  const auto find = [&]<class Function>(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(::dlsym(opened, symbol));
    if (function == nullptr) throw not_usable(name + " has no " + symbol);
  };
  find(library.get_version, "ncclGetVersion");
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.comm_init_rank_config, "ncclCommInitRankConfig");
  find(library.comm_get_async_error, "ncclCommGetAsyncError");
  find(library.comm_abort, "ncclCommAbort");
  find(library.get_error_string, "ncclGetErrorString");
  find(library.get_last_error, "ncclGetLastError");
  find(library.group_start, "ncclGroupStart");
  find(library.group_end, "ncclGroupEnd");
  find(library.send, "ncclSend");
  find(library.recv, "ncclRecv");
  find(library.all_gather, "ncclAllGather");
  return library;
}

}  // namespace phasescope::training::nccl
