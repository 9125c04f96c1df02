// The part of NCCL's interface that is written out, against the header of NCCL itself.
#include "training/ranks/nccl_interface.h"

#include <gtest/gtest.h>
#ifdef PHASESCOPE_NCCL_HEADER
#include <nccl.h>

#include <cstddef>
#include <type_traits>
#endif

#include "formats/error.h"

namespace phasescope::training {
namespace {

#ifdef PHASESCOPE_NCCL_HEADER
static_assert(nccl::kSuccess == int{ncclSuccess} && nccl::kInProgress == int{ncclInProgress} &&
              nccl::kInvalidUsage == int{ncclInvalidUsage} && nccl::kFloat32 == int{ncclFloat32});
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int));
static_assert(sizeof(cudaStream_t) == sizeof(nccl::Stream));
// What is behind the members that are written out begins there in the library's own structure.
static_assert(sizeof(nccl::Config) == offsetof(ncclConfig_t, splitShare));
static_assert(offsetof(nccl::Config, size) == offsetof(ncclConfig_t, size) &&
              offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(nccl::Config, cluster_size) == offsetof(ncclConfig_t, cgaClusterSize) &&
              offsetof(nccl::Config, fewest_blocks) == offsetof(ncclConfig_t, minCTAs) &&
              offsetof(nccl::Config, most_blocks) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(nccl::Config, network) == offsetof(ncclConfig_t, netName));

// The types of the parameters, with NCCL's own names in place of ours.
template <class T>
struct Ours {
  using Type = T;
};
template <>
struct Ours<ncclResult_t> {
  using Type = int;
};
template <>
struct Ours<ncclResult_t*> {
  using Type = int*;
};
template <>
struct Ours<ncclDataType_t> {
  using Type = int;
};
template <>
struct Ours<ncclComm_t> {
  using Type = nccl::Comm;
};
template <>
struct Ours<ncclComm_t*> {
  using Type = nccl::Comm*;
};
template <>
struct Ours<cudaStream_t> {
  using Type = nccl::Stream;
};
template <>
struct Ours<ncclUniqueId> {
  using Type = nccl::UniqueId;
};
template <>
struct Ours<ncclUniqueId*> {
  using Type = nccl::UniqueId*;
};
template <>
struct Ours<ncclConfig_t*> {
  using Type = nccl::Config*;
};

template <class Result, class... Given>
auto ours(Result (*)(Given...)) -> typename Ours<Result>::Type (*)(typename Ours<Given>::Type...);

#define SAME_AS_NCCL(member, function) \
  static_assert(std::is_same_v<decltype(nccl::Library::member), decltype(ours(&function))>)
SAME_AS_NCCL(get_version, ncclGetVersion);
SAME_AS_NCCL(get_unique_id, ncclGetUniqueId);
SAME_AS_NCCL(comm_init_rank_config, ncclCommInitRankConfig);
SAME_AS_NCCL(comm_get_async_error, ncclCommGetAsyncError);
SAME_AS_NCCL(comm_abort, ncclCommAbort);
SAME_AS_NCCL(get_error_string, ncclGetErrorString);
SAME_AS_NCCL(get_last_error, ncclGetLastError);
SAME_AS_NCCL(group_start, ncclGroupStart);
SAME_AS_NCCL(group_end, ncclGroupEnd);
SAME_AS_NCCL(send, ncclSend);
SAME_AS_NCCL(recv, ncclRecv);
SAME_AS_NCCL(all_gather, ncclAllGather);
#undef SAME_AS_NCCL
#endif

TEST(NcclInterface, IsThatOfTheHeader) {
#ifndef PHASESCOPE_NCCL_HEADER
  GTEST_SKIP() << "no nccl.h, with CUDA's headers, is installed here";
#endif
}

std::string refusal_of(const std::string& name) {
  try {
    nccl::open_library(name);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "device_unavailable");
    return error.full_text();
  }
  return "";
}

TEST(NcclInterface, ALibraryThatIsNotThereIsOneSentence) {
  const std::string missing = refusal_of("libnccl-of-nobody.so.2");
  EXPECT_NE(missing.find("ranks on GPUs add up their gradients by NCCL, and its library cannot be "
                         "opened: libnccl-of-nobody.so.2"),
            std::string::npos)
      << missing;
  EXPECT_EQ(missing.find('\n'), std::string::npos);
  const std::string other = refusal_of("libc.so.6");
  EXPECT_NE(other.find("libc.so.6 has no ncclGetVersion"), std::string::npos) << other;
}

}  // namespace
}  // namespace phasescope::training
