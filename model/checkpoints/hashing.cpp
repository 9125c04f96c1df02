#include "model/checkpoints/hashing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "formats/error.h"
#include "formats/sha256.h"

namespace phasescope::model {
namespace {

constexpr std::size_t kMostHashers = 4;  // more of them wait for the disk

}  // namespace

Hashing::Hashing(std::vector<std::filesystem::path> files)
    : files_(std::move(files)),
      hashes_(files_.size()),
      threads_(std::clamp<std::size_t>(files_.size(), 1, kMostHashers)) {
  for (std::size_t first = 0; first < threads_; ++first) {
    running_.push_back(std::async(std::launch::async, [this, first] { run(first); }));
  }
}

Hashing::~Hashing() {
  stop_ = true;
  for (std::future<void>& one : running_) {
    if (one.valid()) one.wait();
  }
}

void Hashing::run(std::size_t first) {
  for (std::size_t n = first; n < files_.size(); n += threads_) {
    hashes_[n] = formats::sha256_of_file(files_[n], [this](std::uint64_t bytes) {
      if (stop_) throw formats::cancelled();
      hashed_ += bytes;
    });
  }
}

std::string Hashing::finish(const std::function<void(std::uint64_t)>& advance) {
  constexpr std::chrono::milliseconds kBetween{50};
  for (std::future<void>& one : running_) {
    while (one.wait_for(kBetween) != std::future_status::ready) advance(hashed_.exchange(0));
    one.get();
  }
  advance(hashed_.exchange(0));
  if (files_.size() == 1) return hashes_.front();
  std::string all;
  for (const std::string& hash : hashes_) all += hash;
  return formats::sha256_hex(std::string_view(all));
}

}  // namespace phasescope::model
