#include "training/ranks/nccl_group.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "formats/error.h"
#include "training/ranks/ranks.h"

namespace phasescope::training {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskOthersEvery{100};
constexpr std::chrono::microseconds kLookEvery{20};

// The one that LibTorch computes on, so that exchanges stand in line with its operators.
c10::Stream stream_of(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

nccl::Stream handle_of(const at::Device& device) {
  return device.is_cuda() ? stream_of(device).native_handle() : nullptr;
}

// Rank 0's, at every rank.
nccl::UniqueId shared_id(const Ranks& ranks, const nccl::Library& library) {
  nccl::UniqueId id{};
  if (ranks.first()) {
    const int result = library.get_unique_id(&id);
    if (result != nccl::kSuccess) {
      throw formats::Error("device_unavailable",
                           "NCCL cannot begin: " + std::string(library.get_error_string(result)),
                           "train.device");
    }
  }
  const std::string bytes = ranks.of_first({id.bytes, sizeof id.bytes});
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  return id;
}

bool is_fault(int result) { return result != nccl::kSuccess && result != nccl::kInProgress; }

formats::Error fault(const std::string& code, int rank, int result, const std::string& why) {
  return {code, "rank " + std::to_string(rank) + " cannot go on by NCCL: " + why, "train.device",
          result == nccl::kInvalidUsage
              ? "each rank needs a GPU of its own, that of its LOCAL_RANK"
              : "start all ranks again: the job goes on from its last checkpoint"};
}

}  // namespace

NcclGroup::NcclGroup(const Ranks& ranks, const at::Device& device, const nccl::Library& library)
    : ranks_(ranks), device_(device), library_(library) {
  const nccl::UniqueId id = shared_id(ranks_, library_);
  run("device_unavailable", [&] {
    nccl::Config config;
    return library_.comm_init_rank_config(&comm_, ranks_.size(), id, ranks_.rank(), &config);
  });
}

NcclGroup::~NcclGroup() { end(); }

std::string NcclGroup::version() const {
  int number = 0;
  library_.get_version(&number);
  return "NCCL " + std::to_string(number / 10'000) + "." + std::to_string(number / 100 % 100) +
         "." + std::to_string(number % 100);
}

void NcclGroup::swap_pieces(const at::Tensor& from, const at::Tensor& to) {
  const std::int64_t piece = from.numel() / ranks_.size();
  const auto count = static_cast<std::size_t>(piece);
  run("worker_died", [&] {
    const nccl::Stream stream = handle_of(device_);
    int result = library_.group_start();
    for (int r = 0; r < ranks_.size() && result == nccl::kSuccess; ++r) {
      result = library_.send(from.data_ptr<float>() + r * piece, count, nccl::kFloat32, r, comm_,
                             stream);
      if (result != nccl::kSuccess) break;
      result =
          library_.recv(to.data_ptr<float>() + r * piece, count, nccl::kFloat32, r, comm_, stream);
    }
    const int ended = library_.group_end();
    return result == nccl::kSuccess ? ended : result;
  });
}

void NcclGroup::gather_pieces(const at::Tensor& piece, const at::Tensor& all) {
  run("worker_died", [&] {
    return library_.all_gather(piece.data_ptr<float>(), all.data_ptr<float>(),
                               static_cast<std::size_t>(piece.numel()), nccl::kFloat32, comm_,
                               handle_of(device_));
  });
}

void NcclGroup::run(const std::string& error_code, const std::function<int()>& begin) {
  const c10::DeviceGuard guard(device_);
  try {
    wait_for_all(error_code, begin());
  } catch (...) {
    end();
    throw;
  }
}

// NCCL's own, and then the device's.
int NcclGroup::state() const {
  int result = nccl::kSuccess;
  const int asked = library_.comm_get_async_error(comm_, &result);
  if (asked != nccl::kSuccess) return asked;
  if (result != nccl::kSuccess) return result;
  return stream_of(device_).query() ? nccl::kSuccess : nccl::kInProgress;
}

// The first that is not "in progress", or that after a tenth of a second.
int NcclGroup::state_in_a_while(int begun) const {
  if (is_fault(begun)) return begun;
  const auto limit = Clock::now() + kAskOthersEvery;
  for (int now = state();; now = state()) {
    if (now != nccl::kInProgress || Clock::now() > limit) return now;
    std::this_thread::sleep_for(kLookEvery);
  }
}

void NcclGroup::wait_for_all(const std::string& error_code, int begun) {
  const auto limit = Clock::now() + ranks_.place().patience;
  for (bool done = false; !done;) {
    const int own = state_in_a_while(begun);
    const bool late = own == nccl::kInProgress && Clock::now() > limit;
    const double said[] = {static_cast<double>(own), late ? 1.0 : 0.0};
    const std::vector<double> all = ranks_.gathered(said);
    // Of its own failure a rank knows more than of another's.
    if (is_fault(own)) throw fault(error_code, ranks_.rank(), own, words_of(own));
    done = true;
    for (std::size_t n = 0; n < all.size(); n += std::size(said)) {
      const int result = static_cast<int>(all[n]), rank = static_cast<int>(n / std::size(said));
      if (is_fault(result)) {
        throw fault(error_code, rank, result, library_.get_error_string(result));
      }
      if (all[n + 1] > 0) throw fault(error_code, rank, result, "it takes longer than ranks wait");
      done = done && result == nccl::kSuccess;
    }
  }
}

// In the library's own words, of which the last error's are those that name ranks and devices.
std::string NcclGroup::words_of(int result) const {
  const char* last = library_.get_last_error(comm_);
  const std::string general = library_.get_error_string(result);
  return last == nullptr || *last == '\0' ? general : general + ": " + last;
}

void NcclGroup::end() {
  if (comm_ == nullptr) return;
  library_.comm_abort(comm_);
  comm_ = nullptr;
}

}  // namespace phasescope::training
