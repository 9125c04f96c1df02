#pragma once
// Several processes that train one model together, as torchrun starts them: each reads its rows of
// a step's batch, and what they found is put together here: by c10d on Gloo, in the host's memory,
// and gradients on GPUs by NCCL, from one to the other.
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace phasescope::training {

class NcclGroup;

// What a launcher tells each of the processes.
struct RankPlace {
  int rank = 0, size = 1;     // RANK below WORLD_SIZE
  std::string master;         // MASTER_ADDR, a host name or an address of rank 0's machine
  std::uint16_t port = 0;     // MASTER_PORT
  bool listens = false;       // whether the launcher itself listens there, as torchrun's agent does
  std::string attempt = "0";  // which start of the group it is
  std::optional<int> local;   // LOCAL_RANK, where it is set: its number among those of its machine
  std::chrono::seconds patience{600};  // with a rank that says nothing: PHASESCOPE_RANK_TIMEOUT
};
// Throws Error "bad_usage" for variables that are missing or no numbers in their range.
RankPlace rank_place();

// Which device a rank computes on: of "cuda" each of a machine's ranks has one of its own, the one
// of its number there; any other name is meant as it stands.
std::string device_of_rank(const std::string& device, const RankPlace& place);

// The group, as one of its ranks sees it. All ranks call the same functions in the same order; what
// one waits for longer than `patience`, or a rank that is gone, throws Error "worker_died".
class Ranks {
 public:
  // Meets the others at the master's port. No port is opened on another address than the one that
  // was given (rank 0) or the one by which this machine reaches it (GLOO_SOCKET_IFNAME names
  // another); but where rank 0's machine has its own name at a loopback address, as Debian's
  // /etc/hosts does, the master's port is open on all. Throws Error "bad_input" when they do not
  // come, or where this program was built without Gloo.
  explicit Ranks(RankPlace place);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  bool first() const { return place_.rank == 0; }
  const RankPlace& place() const { return place_; }
  std::string name() const;  // "rank 1 of 2"

  // Rank 0's text, at every rank; that of the others is not looked at.
  std::string of_first(const std::string& text) const;
  // As many numbers of each rank, (size(), own.size()) row-major, the same at every rank.
  std::vector<double> gathered(std::span<const double> own) const;
  // From now on add_up() is of tensors on this device, of which each rank has one of its own, and
  // goes by NCCL from one to the other. Returns its name and version. Throws Error
  // "device_unavailable" as NcclGroup does.
  std::string meet_on(const at::Device& device);
  // Every tensor becomes the sum of the ranks' tensors of that place in the list, added in the
  // order of the ranks, ((0 + 1) + 2) + ..., so that all ranks have the same bits, and those of one
  // process that adds the same parts one after the other. All are float32, of the same shapes
  // everywhere, and on one device; where the ranks have not met on it they go to the host's memory
  // and back. Each rank sends and receives 2 (size - 1) / size times their bytes, like a ring's
  // all-reduce (NCCL's own too), which adds in an order of its own for each piece.
  void add_up(std::span<const at::Tensor> tensors) const;

 private:
  struct Group;
  void add_up_bucket(std::span<const at::Tensor> tensors) const;
  void swap_pieces(const at::Tensor& from, at::Tensor& to) const;
  void gather_pieces(at::Tensor& piece, at::Tensor& all) const;
  template <class Function>
  void exchange(Function&& start) const;

  RankPlace place_;
  std::unique_ptr<Group> group_;     // null where there is one rank alone
  std::unique_ptr<NcclGroup> nccl_;  // null: gradients are added up in the host's memory
};

}  // namespace phasescope::training
