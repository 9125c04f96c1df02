#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

namespace phasescope::model {

// SHA-256 of files, computed by threads of its own while their tensors are read, so that each file
// comes from the disk once. The end of its life stops them.
class Hashing {
 public:
  // Shown every byte of every file, front to back: the file's number, the piece's place, a multiple
  // of 8, and the piece. Called in other threads, for one piece of a file at a time.
  using Look =
      std::function<void(std::size_t file, std::uint64_t begin, std::span<const std::byte> piece)>;

  explicit Hashing(std::vector<std::filesystem::path> files, Look look = {});
  ~Hashing();
  Hashing(const Hashing&) = delete;

  // Waits for the hash of the one file, or of the files' hashes one behind the other. `advance` is
  // told again and again how many bytes were hashed since it was last told, none at times, and may
  // throw. Throws what kept a file from being read.
  std::string finish(const std::function<void(std::uint64_t)>& advance);

 private:
  void run(std::size_t first);
  std::string hash_of(std::size_t number);

  std::vector<std::filesystem::path> files_;
  Look look_;
  std::vector<std::string> hashes_;
  std::size_t threads_ = 1;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> hashed_{0};  // bytes nobody has been told of
  std::vector<std::future<void>> running_;
};

}  // namespace phasescope::model
