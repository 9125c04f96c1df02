// As much of NCCL as ranks use, without a GPU: a libnccl.so.2 that works on pointers to the host's
// memory and sends by files of a folder. As between the GPUs of one machine, one that is gone is
// not noticed: who waits for it waits until it is told to abort. Every operation has a thread of
// its own, and is in progress until that has ended.
//
//   STAND_IN_NCCL_FOLDER    where a communicator makes its folder
//   STAND_IN_NCCL_GPU       this process's GPU, by name; two of one name are refused
//   STAND_IN_NCCL_STOPS_AT  the operation (1: the first behind the beginning) that this process
//                           begins, which the file "stopped" tells, and sends nothing of
//   STAND_IN_NCCL_FAILS_AT  the operation that fails here
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "training/ranks/nccl_interface.h"

namespace nccl = phasescope::training::nccl;
namespace fs = std::filesystem;

namespace {

constexpr int kUnhandledCudaError = 1, kInvalidArgument = 4;
constexpr const char* kTwoOfOneGpu = "Duplicate GPU detected : two ranks on ";

struct Transfer {
  int peer = 0;
  const char* from = nullptr;  // of what is sent
  char* to = nullptr;          // of what is received
  std::size_t bytes = 0;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void write_at_once(const fs::path& path, const std::string& bytes) {
  const fs::path half = path.string() + ".half";
  std::ofstream(half, std::ios::binary) << bytes;
  fs::rename(half, path);
}

thread_local std::string last_error;
thread_local int group_depth = 0;
thread_local nccl::Comm of_group = nullptr;

}  // namespace

struct phasescope::training::nccl::CommOfNccl {
  fs::path folder;
  int rank = 0, size = 1, operations = 0;
  std::thread work;
  std::atomic<int> result = kSuccess;
  std::atomic<bool> aborted = false;
  std::vector<Transfer> pending;

  fs::path message(int from, int to) const {
    return folder /
           (std::to_string(operations) + "-" + std::to_string(from) + "-" + std::to_string(to));
  }

  // Empty where it was aborted before it came.
  std::string received(int from) const {
    const fs::path path = message(from, rank);
    while (!fs::exists(path)) {
      if (aborted) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void stop() const {
    write_at_once(folder / "stopped", "");
    while (!aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void transfer(const std::vector<Transfer>& all) {
    if (variable("STAND_IN_NCCL_STOPS_AT") == std::to_string(operations)) return stop();
    if (variable("STAND_IN_NCCL_FAILS_AT") == std::to_string(operations)) {
      result = kUnhandledCudaError;
      return;
    }
    for (const Transfer& one : all) {
      if (one.from) write_at_once(message(rank, one.peer), {one.from, one.bytes});
    }
    for (const Transfer& one : all) {
      if (!one.to) continue;
      const std::string bytes = received(one.peer);
      if (aborted) return;
      std::memcpy(one.to, bytes.data(), one.bytes);
    }
    result = kSuccess;
  }

  void meet() {
    const std::string own = variable("STAND_IN_NCCL_GPU");
    for (int r = 0; r < size; ++r) write_at_once(message(rank, r), own + "\n");
    bool twice = false;
    for (int r = 0; r < size; ++r) {
      const std::string name = received(r);
      if (aborted) return;
      twice = twice || (r != rank && !own.empty() && name == own + "\n");
    }
    result = twice ? kInvalidUsage : kSuccess;
  }

  int begin(const std::vector<Transfer>& all) {
    if (result == kInProgress) return kInvalidArgument;  // the last one was not waited for
    if (result != kSuccess) return result;
    if (work.joinable()) work.join();
    ++operations;
    result = kInProgress;
    work = std::thread([this, all] { transfer(all); });
    return kInProgress;
  }
};

extern "C" {

int ncclGetVersion(int* version) {
  *version = 21'700;
  return nccl::kSuccess;
}

int ncclGetUniqueId(nccl::UniqueId* id) {
  std::string name = variable("STAND_IN_NCCL_FOLDER") + "/nccl.XXXXXX";
  if (name.size() >= sizeof id->bytes || ::mkdtemp(name.data()) == nullptr) return 2;
  std::memcpy(id->bytes, name.c_str(), name.size() + 1);
  return nccl::kSuccess;
}

int ncclCommInitRankConfig(nccl::Comm* comm, int size, nccl::UniqueId id, int rank,
                           nccl::Config* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return kInvalidArgument;
  *comm = new nccl::CommOfNccl{.folder = id.bytes, .rank = rank, .size = size};
  (*comm)->result = nccl::kInProgress;
  (*comm)->work = std::thread([made = *comm] { made->meet(); });
  return nccl::kInProgress;
}

int ncclCommGetAsyncError(nccl::Comm comm, int* result) {
  *result = comm->result;
  if (*result == nccl::kInvalidUsage) last_error = kTwoOfOneGpu + variable("STAND_IN_NCCL_GPU");
  if (*result == kUnhandledCudaError) last_error = "Cuda failure 'planted'";
  return nccl::kSuccess;
}

int ncclCommAbort(nccl::Comm comm) {
  if (comm->result == nccl::kInProgress) {
    write_at_once(comm->folder / ("aborted-" + std::to_string(comm->rank)), "");
  }
  comm->aborted = true;
  comm->work.join();
  delete comm;
  return nccl::kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == nccl::kInvalidUsage ? "invalid usage" : "unhandled cuda error";
}

const char* ncclGetLastError(nccl::Comm) { return last_error.c_str(); }

int ncclGroupStart() {
  ++group_depth;
  return nccl::kSuccess;
}

int ncclGroupEnd() {
  if (--group_depth > 0 || of_group == nullptr) return nccl::kSuccess;
  const int result = of_group->begin(of_group->pending);
  of_group->pending.clear();
  of_group = nullptr;
  return result;
}

int ncclSend(const void* from, std::size_t count, int type, int peer, nccl::Comm comm,
             nccl::Stream) {
  if (type != nccl::kFloat32 || group_depth == 0) return kInvalidArgument;
  of_group = comm;
  comm->pending.push_back(
      {.peer = peer, .from = static_cast<const char*>(from), .bytes = count * sizeof(float)});
  return nccl::kSuccess;
}

int ncclRecv(void* to, std::size_t count, int type, int peer, nccl::Comm comm, nccl::Stream) {
  if (type != nccl::kFloat32 || group_depth == 0) return kInvalidArgument;
  of_group = comm;
  comm->pending.push_back(
      {.peer = peer, .to = static_cast<char*>(to), .bytes = count * sizeof(float)});
  return nccl::kSuccess;
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type, nccl::Comm comm,
                  nccl::Stream) {
  if (type != nccl::kFloat32) return kInvalidArgument;
  const std::size_t bytes = count * sizeof(float);
  std::vector<Transfer> all;
  for (int r = 0; r < comm->size; ++r) {
    all.push_back({.peer = r,
                   .from = static_cast<const char*>(from),
                   .to = static_cast<char*>(to) + static_cast<std::size_t>(r) * bytes,
                   .bytes = bytes});
  }
  return comm->begin(all);
}
}
