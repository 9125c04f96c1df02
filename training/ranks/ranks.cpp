#include "training/ranks/ranks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "formats/error.h"
#include "formats/unique_fd.h"
#include "training/ranks/nccl_group.h"

namespace phasescope::training {
namespace {

// Floats that are exchanged at once; a larger tensor goes alone.
constexpr std::int64_t kBucket = std::int64_t{1} << 24;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::int64_t number_in(const char* name, std::int64_t low, std::int64_t high) {
  const std::string word = variable(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  if (whole && number >= low && number <= high) return number;
  throw formats::bad_usage("one of several processes needs a number of " + std::to_string(low) +
                               " to " + std::to_string(high) + ", not '" + word + "'",
                           name, "torchrun and docs/training.md set it");
}

#ifdef USE_C10D_GLOO
using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const RankPlace& place, int kind) {
  addrinfo hints{};
  hints.ai_socktype = kind;
  addrinfo* found = nullptr;
  const int fault =
      ::getaddrinfo(place.master.c_str(), std::to_string(place.port).c_str(), &hints, &found);
  if (fault == 0) return {found, ::freeaddrinfo};
  throw formats::bad_input(
      "the host " + place.master + " is not known: " + std::string(::gai_strerror(fault)),
      "MASTER_ADDR");
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
}

// Whether other machines may mean another address by it: Debian's /etc/hosts has a machine's own
// name at 127.0.1.1.
bool own_name_alone(const RankPlace& place, const sockaddr& address) {
  in6_addr number{};
  const bool numeric = ::inet_pton(AF_INET, place.master.c_str(), &number) == 1 ||
                       ::inet_pton(AF_INET6, place.master.c_str(), &number) == 1;
  return is_loopback(address) && !numeric && place.master != "localhost";
}

// A socket at the address that was given, for rank 0 to listen on; nothing where it is not certain
// that the others mean that one, and c10d listens on all.
std::optional<int> bound_socket(const RankPlace& place) {
  const Addresses found = addresses_of(place, SOCK_STREAM);
  if (own_name_alone(place, *found->ai_addr)) return std::nullopt;
  formats::UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0) return socket.release();
  const std::string why = std::strerror(errno);
  throw formats::bad_input("rank 0 cannot listen at " + place.master + ", port " +
                               std::to_string(place.port) + ": " + why,
                           "MASTER_PORT", "name a free port, and an address of rank 0's machine");
}

// The address by which this machine reaches the master; nothing is sent.
std::string own_address(const RankPlace& place) {
  const Addresses found = addresses_of(place, SOCK_DGRAM);
  const formats::UniqueFd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST] = "";
  const bool known =
      ::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket.get(), address, &length) == 0 &&
      ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
  if (known) return text;
  throw formats::bad_input("this machine has no way to " + place.master, "MASTER_ADDR");
}

// The first line of what c10d says, without the place in Gloo's source that it begins with:
// "[/build/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711".
std::string said_in(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t end = line.find("] ");
  const bool place = line.starts_with('[') && end != line.npos && line.find(".cc:") < end;
  return place ? line.substr(end + 2) : line;
}

// Gloo has no kinds of errors, and says in its words alone which of the two it was.
std::string why_lost(const std::exception& error, std::chrono::seconds patience) {
  const std::string said = said_in(error);
  const bool silent = said.find("Timed out") != said.npos || said.find("timeout") != said.npos;
  return silent ? "it said nothing for " + std::to_string(patience.count()) +
                      " s (PHASESCOPE_RANK_TIMEOUT)"
                : "its connection broke (" + said + ")";
}
#endif

}  // namespace

RankPlace rank_place() {
  RankPlace place;
  place.size = static_cast<int>(number_in("WORLD_SIZE", 1, 100'000));
  place.rank = static_cast<int>(number_in("RANK", 0, place.size - 1));
  if (const char* local = "LOCAL_RANK"; !variable(local).empty()) {
    place.local = static_cast<int>(number_in(local, 0, place.size - 1));
  }
  const char* patience = "PHASESCOPE_RANK_TIMEOUT";
  if (!variable(patience).empty()) {
    place.patience = std::chrono::seconds(number_in(patience, 1, 1'000'000));
  }
  if (place.size == 1) return place;
  place.master = variable("MASTER_ADDR");
  if (place.master.empty()) {
    throw formats::bad_usage("several processes need the address of rank 0's machine",
                             "MASTER_ADDR", "127.0.0.1 where all run on one machine");
  }
  place.port = static_cast<std::uint16_t>(number_in("MASTER_PORT", 1, 65'535));
  place.listens = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const std::string again = variable("TORCHELASTIC_RESTART_COUNT"); !again.empty()) {
    place.attempt = again;
  }
  return place;
}

std::string device_of_rank(const std::string& device, const RankPlace& place) {
  const bool own = device == "cuda" && place.size > 1 && place.local;
  return own ? device + ":" + std::to_string(*place.local) : device;
}

std::string Ranks::name() const {
  return "rank " + std::to_string(rank()) + " of " + std::to_string(size());
}

#ifdef USE_C10D_GLOO

struct Ranks::Group {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;  // ends before the store that it may ask
};

Ranks::Ranks(RankPlace place) : place_(std::move(place)) {
  if (place_.size == 1) return;
  // A write to a rank that is gone is an error here, and no signal.
  ::signal(SIGPIPE, SIG_IGN);
  c10d::TCPStoreOptions options;
  options.port = place_.port;
  options.isServer = first() && !place_.listens;
  options.numWorkers = static_cast<std::size_t>(size());
  options.timeout = place_.patience;
  if (options.isServer) options.masterListenFd = bound_socket(place_);
  const std::string interface = variable("GLOO_SOCKET_IFNAME");
  const std::string address = interface.empty() ? own_address(place_) : "";
  group_ = std::make_unique<Group>();
  try {
    group_->store = c10::make_intrusive<c10d::PrefixStore>(
        "phasescope/" + place_.attempt,
        c10::make_intrusive<c10d::TCPStore>(place_.master, options));
    auto of_group = c10d::ProcessGroupGloo::Options::create(place_.patience);
    of_group->devices.push_back(interface.empty()
                                    ? c10d::ProcessGroupGloo::createDeviceForHostname(address)
                                    : c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    group_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(group_->store, rank(), size(),
                                                               std::move(of_group));
  } catch (const std::exception& error) {
    throw formats::bad_input(name() + " did not meet the others at " + place_.master + ", port " +
                                 std::to_string(place_.port) + ": " + said_in(error),
                             "MASTER_ADDR",
                             "start all ranks at the same time, with the same address and port");
  }
}

Ranks::~Ranks() = default;

template <class Function>
void Ranks::exchange(Function&& start) const {
  try {
    start(*group_->gloo)->wait();
  } catch (const std::exception& error) {
    throw formats::Error("worker_died",
                         name() + " has lost another one: " + why_lost(error, place_.patience), {},
                         "start all ranks again: the job goes on from its last checkpoint");
  }
}

std::string Ranks::of_first(const std::string& text) const {
  if (!group_) return text;
  const auto broadcast = [this](const at::Tensor& tensor) {
    std::vector<at::Tensor> one{tensor};
    exchange([&](c10d::ProcessGroupGloo& gloo) { return gloo.broadcast(one); });
  };
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(at::from_blob(&length, {1}, at::kLong));
  std::string whole = first() ? text : std::string(static_cast<std::size_t>(length), ' ');
  if (length > 0) broadcast(at::from_blob(whole.data(), {length}, at::kByte));
  return whole;
}

std::vector<double> Ranks::gathered(std::span<const double> own) const {
  std::vector<double> mine(own.begin(), own.end());
  if (!group_) return mine;
  std::vector<double> all(mine.size() * static_cast<std::size_t>(size()));
  at::Tensor from =
      at::from_blob(mine.data(), {static_cast<std::int64_t>(mine.size())}, at::kDouble);
  at::Tensor to = at::from_blob(all.data(), {static_cast<std::int64_t>(all.size())}, at::kDouble);
  exchange([&](c10d::ProcessGroupGloo& gloo) { return gloo._allgather_base(to, from); });
  return all;
}

// Piece r of `from` goes to rank r.
void Ranks::swap_pieces(const at::Tensor& from, at::Tensor& to) const {
  if (nccl_) return nccl_->swap_pieces(from, to);
  at::Tensor given = from;
  std::vector<std::int64_t> even;
  exchange([&](c10d::ProcessGroupGloo& gloo) { return gloo.alltoall_base(to, given, even, even); });
}

void Ranks::gather_pieces(at::Tensor& piece, at::Tensor& all) const {
  if (nccl_) return nccl_->gather_pieces(piece, all);
  exchange([&](c10d::ProcessGroupGloo& gloo) { return gloo._allgather_base(all, piece); });
}

#else

struct Ranks::Group {};

Ranks::Ranks(RankPlace place) : place_(std::move(place)) {
  if (place_.size == 1) return;
  throw formats::bad_input("this program was built without Gloo, and trains as one process",
                           "WORLD_SIZE", "install libgloo-dev and build again");
}

Ranks::~Ranks() = default;

std::string Ranks::of_first(const std::string& text) const { return text; }

std::vector<double> Ranks::gathered(std::span<const double> own) const {
  return {own.begin(), own.end()};
}

void Ranks::swap_pieces(const at::Tensor&, at::Tensor&) const {}

void Ranks::gather_pieces(at::Tensor&, at::Tensor&) const {}

#endif

std::string Ranks::meet_on(const at::Device& device) {
  if (!group_) return "";
  nccl_ = std::make_unique<NcclGroup>(*this, device, nccl::open_library());
  return nccl_->version();
}

// Piece r of all ranks goes to rank r, which adds them up and gives the sum to all.
void Ranks::add_up_bucket(std::span<const at::Tensor> tensors) const {
  std::vector<at::Tensor> flat;
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    count += tensor.numel();
    flat.push_back(tensor.reshape({-1}));
  }
  const std::int64_t piece = (count + size() - 1) / size();
  flat.push_back(at::zeros({piece * size() - count}, flat[0].options()));
  at::Tensor own = at::cat(flat);
  if (!nccl_) own = own.cpu();
  at::Tensor pieces = at::empty({piece * size()}, own.options());
  swap_pieces(own, pieces);
  at::Tensor sum = pieces.narrow(0, 0, piece).clone();
  for (int r = 1; r < size(); ++r) sum.add_(pieces.narrow(0, r * piece, piece));
  gather_pieces(sum, own);
  own = own.to(flat[0].device());
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(own.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

void Ranks::add_up(std::span<const at::Tensor> tensors) const {
  if (!group_) return;
  std::size_t begin = 0;
  std::int64_t count = 0;
  for (std::size_t n = 0; n < tensors.size(); ++n) {
    if (n > begin && count + tensors[n].numel() > kBucket) {
      add_up_bucket(tensors.subspan(begin, n - begin));
      begin = n, count = 0;
    }
    count += tensors[n].numel();
  }
  if (begin < tensors.size()) add_up_bucket(tensors.subspan(begin));
}

}  // namespace phasescope::training
