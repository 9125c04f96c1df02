#pragma once
// What ranks exchange from GPU to GPU, by NCCL.
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "training/ranks/nccl_interface.h"

namespace phasescope::training {

class Ranks;

// NCCL's communicator of all ranks, each on a device of its own. All ranks call the same functions
// in the same order. A kernel of NCCL waits for a rank that is gone for ever; so nothing is waited
// for without asking the others, by `ranks` on the host, ten times a second. Where one of them is
// gone or has failed, or nothing ends within the ranks' patience, what runs on the device is ended
// (ncclCommAbort), so that weights can be read from it and saved, and an Error is thrown.
class NcclGroup {
 public:
  // `ranks` outlives it. Throws Error "device_unavailable" where there is no library of NCCL, where
  // two ranks have one device, or where NCCL cannot begin for another reason that it names.
  NcclGroup(const Ranks& ranks, const at::Device& device, const nccl::Library& library);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  std::string version() const;  // "NCCL 2.28.9"

  // (size * n) float32 on the device: piece r of `from` becomes piece rank() of rank r's `to`.
  void swap_pieces(const at::Tensor& from, const at::Tensor& to);
  // (n) and (size * n): every rank's `piece`, in the order of the ranks.
  void gather_pieces(const at::Tensor& piece, const at::Tensor& all);

 private:
  int state() const;
  int state_in_a_while(int begun) const;
  // Until all ranks are done with what `begin` began, whose result it returns.
  void run(const std::string& error_code, const std::function<int()>& begin);
  void wait_for_all(const std::string& error_code, int begun);
  std::string words_of(int result) const;
  void end();

  const Ranks& ranks_;
  const at::Device device_;
  const nccl::Library library_;
  nccl::Comm comm_ = nullptr;  // null: ended
};

}  // namespace phasescope::training
