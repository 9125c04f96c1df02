#include "model/checkpoints/hashing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "formats/error.h"
#include "formats/read_only_file.h"
#include "formats/sha256.h"

namespace phasescope::model {
namespace {

constexpr std::size_t kMostHashers = 4;  // more of them wait for the disk
// A multiple of 8; large enough that handing a piece to another thread costs nothing.
constexpr std::size_t kHashedPiece = std::size_t{4} << 20;

// A file's next bytes, read while those before are looked at.
class PiecesOfFile {
 public:
  explicit PiecesOfFile(const std::filesystem::path& path) : file_(path) { read_next(); }

  // Empty behind the last one; alive until the next call.
  std::span<const std::byte> next() {
    next_.get();
    piece_.swap(being_read_);
    const std::span<const std::byte> piece = piece_;
    if (!piece.empty()) read_next();
    return piece;
  }

 private:
  void read_next() {
    next_ = std::async(std::launch::async, [this] {
      being_read_.resize(std::min<std::uint64_t>(kHashedPiece, file_.size() - at_));
      file_.read(at_, being_read_);
      at_ += being_read_.size();
      if (being_read_.empty()) file_.check_unchanged();
    });
  }

  formats::ReadOnlyFile file_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> piece_, being_read_;
  std::future<void> next_;  // last: its thread uses the others
};

}  // namespace

Hashing::Hashing(std::vector<std::filesystem::path> files, Look look)
    : files_(std::move(files)),
      look_(std::move(look)),
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
  for (std::size_t n = first; n < files_.size(); n += threads_) hashes_[n] = hash_of(n);
}

std::string Hashing::hash_of(std::size_t number) {
  PiecesOfFile pieces(files_[number]);
  formats::Sha256 sha;
  std::uint64_t begin = 0;
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    if (stop_) throw formats::cancelled();
    std::future<void> looked;
    if (look_) {
      looked = std::async(std::launch::async, [&] { look_(number, begin, piece); });
    }
    sha.update(piece);
    if (looked.valid()) looked.get();
    begin += piece.size();
    hashed_ += piece.size();
  }
  return sha.finish();
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
