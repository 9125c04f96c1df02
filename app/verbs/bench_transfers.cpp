#include "app/verbs/bench_transfers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/tensors/safetensors.h"
#include "formats/unique_fd.h"
#include "protocol/channel.h"
#include "protocol/tensor.h"

namespace phasescope::app {

namespace {

using protocol::BenchRow;
using protocol::Channel;

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(1);

double gigabytes_a_second(std::int64_t bytes, const std::function<void()>& carry) {
  const auto begin = std::chrono::steady_clock::now();
  carry();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(bytes) / took.count() * 1e-9;
}

void require(bool holds, const char* what) {
  if (!holds) throw formats::internal_error(std::string(what) + " failed");
}

struct Ends {
  formats::UniqueFd in, out;
};

std::pair<Ends, Ends> pipes() {
  int there[2], back[2];
  require(::pipe2(there, O_CLOEXEC) == 0 && ::pipe2(back, O_CLOEXEC) == 0, "pipe2");
  return {Ends{formats::UniqueFd(back[0]), formats::UniqueFd(there[1])},
          Ends{formats::UniqueFd(there[0]), formats::UniqueFd(back[1])}};
}

std::pair<Ends, Ends> sockets() {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  const auto both = [](int end) {
    return Ends{formats::UniqueFd(end), formats::UniqueFd(::fcntl(end, F_DUPFD_CLOEXEC, 3))};
  };
  return {both(ends[0]), both(ends[1])};
}

// Two ends of this process that have greeted each other.
class Pair {
 public:
  Pair(std::pair<Ends, Ends> ends, bool memory)
      : near_(std::move(ends.first.in), std::move(ends.first.out), memory),
        far_(std::move(ends.second.in), std::move(ends.second.out), memory) {
    auto other = std::async(std::launch::async, [this] { far_.handshake({}, kPatience); });
    near_.handshake({}, kPatience);
    other.get();
  }
  void carry(const protocol::Frame& frame) {
    auto sent = std::async(std::launch::async, [&] { near_.send(frame); });
    require(far_.receive(kPatience).has_value(), "receiving a frame");
    sent.get();
  }

 private:
  Channel near_, far_;
};

void write_whole(int out, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(out, bytes.data(), std::min(kBlock, bytes.size()));
    require(count > 0, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void read_whole(int in, std::size_t bytes, std::span<std::byte> into) {
  while (bytes > 0) {
    const ssize_t count = ::read(in, into.data(), std::min(into.size(), bytes));
    require(count > 0, "read");
    bytes -= static_cast<std::size_t>(count);
  }
}

// Tensors of the same bytes, so that the file may be larger than what is held.
void write_file(const std::filesystem::path& path, std::int64_t bytes) {
  const std::vector<std::byte> part(static_cast<std::size_t>(bytes) / 16 / 4 * 4);
  std::vector<formats::TensorToWrite> tensors;
  for (int n = 0; n < 16; ++n) {
    tensors.push_back({"part" + std::to_string(n),
                       formats::DType::f32,
                       {static_cast<std::int64_t>(part.size() / 4)},
                       part});
  }
  formats::write_safetensors(formats::real_file_system(), path, tensors, {});
}

// Pages that the system holds of the file are given back, as far as it does that.
void forget(const std::filesystem::path& path) {
  const formats::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

void read_tensors(const std::filesystem::path& path) {
  const formats::SafetensorsFile file = formats::SafetensorsFile::open(path);
  for (const formats::TensorEntry& entry : file.tensors()) {
    file.visit(entry, [](std::span<const std::byte>) {});
  }
}

class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (std::filesystem::temp_directory_path() / "phasescope-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    folder_ = name;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::filesystem::path path() const { return folder_ / "bench.safetensors"; }

 private:
  std::filesystem::path folder_;
};

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

BenchRow transfer_row(const std::string& name, const std::string& rival, std::int64_t bytes,
                      std::int64_t runs, const std::function<void()>& ours,
                      const std::function<void()>& theirs) {
  std::vector<double> here, there;
  for (std::int64_t run = -1; run < runs; ++run) {
    const double one = gigabytes_a_second(bytes, ours);
    const double other = gigabytes_a_second(bytes, theirs);
    if (run >= 0) here.push_back(one), there.push_back(other);
  }
  BenchRow row{.name = name, .unit = "GB/s", .value = median(here), .runs = runs};
  row.min = here.front(), row.max = here.back();
  row.rival = rival, row.rival_value = median(there);
  row.over_rival = row.value / row.rival_value;
  return row;
}

std::vector<BenchRow> frame_rows(std::int64_t bytes, std::int64_t runs) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float), 1.0F);
  protocol::Frame frame{.type = protocol::FrameType::request, .id = 1};
  frame.tensors = {
      protocol::TensorRef::own<float>("x", {static_cast<std::int64_t>(values.size())}, values)};
  std::pair<Ends, Ends> bare = pipes();
  std::vector<std::byte> block(kBlock);
  const auto write_and_read = [&] {
    const auto content = std::as_bytes(std::span(values));
    auto sent = std::async(std::launch::async, [&] { write_whole(bare.first.out.get(), content); });
    read_whole(bare.second.in.get(), content.size(), block);
    sent.get();
  };
  Pair streams(pipes(), false), memory(sockets(), true);
  const std::string rival = "write and read on a pipe";
  return {transfer_row(
              "frame over standard streams", rival, bytes, runs, [&] { streams.carry(frame); },
              write_and_read),
          transfer_row(
              "frame as a memory file", rival, bytes, runs, [&] { memory.carry(frame); },
              write_and_read)};
}

std::vector<BenchRow> file_rows(std::int64_t bytes, std::int64_t runs) {
  std::error_code none;
  const auto room = std::filesystem::space(std::filesystem::temp_directory_path(), none);
  if (none || room.available / 2 < static_cast<std::uintmax_t>(bytes)) return {};
  const TemporaryFile file;
  write_file(file.path(), bytes);
  std::vector<std::byte> block(kBlock);
  const auto read_bare = [&] {
    const formats::UniqueFd in(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
    read_whole(in.get(), std::filesystem::file_size(file.path()), block);
  };
  const auto cold = [&](const std::function<void()>& read) {
    return [&file, read] {
      forget(file.path());
      read();
    };
  };
  const auto tensors = [&] { read_tensors(file.path()); };
  const std::string rival = "read of the same file";
  return {transfer_row("large file of tensors from the disk", rival, bytes, runs, cold(tensors),
                       cold(read_bare)),
          transfer_row("large file of tensors from the system's cache", rival, bytes, runs, tensors,
                       read_bare)};
}

}  // namespace phasescope::app
