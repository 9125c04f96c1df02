#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>

#include "formats/counter_random.h"

namespace phasescope::tasks {

// The draws of one sample, a function of (seed, length, index) alone: a cell of a grid can be drawn
// again without the others.
class Random {
 public:
  Random(std::uint64_t seed, std::span<const std::int64_t> length, std::uint64_t index)
      : draws_(seed, stream_of(length, index)) {}

  // Uniform in 0..count - 1; count at least 1.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(draws_.below(static_cast<std::uint64_t>(count), next_++));
  }
  // Uniform in low..high, both ends drawn.
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool coin() { return below(2) == 1; }
  // N(0, 1), by Box and Muller.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(draws_.unit(next_++)));
    return radius * std::cos(2 * std::numbers::pi * draws_.unit(next_++));
  }

 private:
  // FNV-1a over the numbers.
  static std::uint64_t stream_of(std::span<const std::int64_t> length, std::uint64_t index) {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto mix = [&hash](std::uint64_t value) {
      for (int shift = 0; shift < 64; shift += 8) {
        hash = (hash ^ ((value >> shift) & 0xff)) * 0x100000001b3;
      }
    };
    for (const std::int64_t part : length) mix(static_cast<std::uint64_t>(part));
    mix(index);
    return hash;
  }

  formats::CounterRandom draws_;
  std::uint64_t next_ = 0;
};

}  // namespace phasescope::tasks
