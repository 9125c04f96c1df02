#pragma once
// The draws of a bootstrap: n units drawn n times with replacement, kDraws times over.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace phasescope::analysis {

inline constexpr int kDraws = 1999;  // so that the ends are order statistics: 50th and 1950th

// Seeded draws, the same for all intervals over one number of units and kept for them. May be used
// from several threads.
class Draws {
 public:
  // Entry draw * n + unit: how often that draw holds the unit.
  using Counts = std::vector<std::uint16_t>;

  explicit Draws(std::uint64_t seed = 0) : seed_(seed) {}
  std::shared_ptr<const Counts> of(std::size_t units) const;

 private:
  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<const Counts>> known_;
};

}  // namespace phasescope::analysis
