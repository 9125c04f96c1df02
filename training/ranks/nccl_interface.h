#pragma once
// As much of NCCL's C interface as ranks use, written out: programs are built where there is no GPU
// and no nccl.h, and libtorch_cuda brings the library. tests/training/nccl_interface_test.cpp holds
// it against the header where that is installed.
#include <cstddef>
#include <limits>
#include <string>

namespace phasescope::training::nccl {

// ncclResult_t; what is not named here is an error too.
enum Result : int { kSuccess = 0, kInvalidUsage = 5, kInProgress = 7 };

constexpr int kFloat32 = 7;  // ncclDataType_t

struct UniqueId {
  char bytes[128];
};

// The first members of ncclConfig_t, as of version 2.17: a library takes what is behind `size` as
// its default.
struct Config {
  static constexpr int kUnset = std::numeric_limits<int>::min();
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21'700;
  int blocking = 0;  // calls return at once, and tell by comm_get_async_error() when they are done
  int cluster_size = kUnset, fewest_blocks = kUnset, most_blocks = kUnset;
  const char* network = nullptr;
};

struct CommOfNccl;
using Comm = CommOfNccl*;  // ncclComm_t
using Stream = void*;      // cudaStream_t

// Functions of the library, by their names there: ncclGetVersion is get_version. Counts are of
// elements, not of bytes.
struct Library {
  int (*get_version)(int* version);
  int (*get_unique_id)(UniqueId* id);
  int (*comm_init_rank_config)(Comm* comm, int size, UniqueId id, int rank, Config* config);
  int (*comm_get_async_error)(Comm comm, int* result);
  int (*comm_abort)(Comm comm);
  const char* (*get_error_string)(int result);
  const char* (*get_last_error)(Comm comm);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void* from, std::size_t count, int type, int peer, Comm comm, Stream stream);
  int (*recv)(void* to, std::size_t count, int type, int peer, Comm comm, Stream stream);
  int (*all_gather)(const void* from, void* to, std::size_t count, int type, Comm comm,
                    Stream stream);
};

// The library of a file's name, which the loader looks for where libtorch_cuda has loaded it from
// before anywhere else. It stays open. Throws Error "device_unavailable" where it cannot be opened
// or is too old.
Library open_library(const std::string& name = "libnccl.so.2");

}  // namespace phasescope::training::nccl
