#pragma once

#include <cstdint>

namespace phasescope::formats {

// Random numbers as a function of (seed, stream, index), with no state to save: draw n of a run is
// the same however often the run was stopped before it. SplitMix64's finaliser (Steele, Lea, Flood
// 2014) over a combination of the three.
class CounterRandom {
 public:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t kFirst = 0xbf58476d1ce4e5b9, kSecond = 0x94d049bb133111eb;

  CounterRandom(std::uint64_t seed, std::uint64_t stream)
      : key_(mixed(mixed(seed + kStep) ^ (stream * kStep + 1))) {}

  std::uint64_t bits(std::uint64_t index) const { return mixed(key_ + (index + 1) * kStep); }

  // Uniform in [0, count), by the high half of a product; the bias is below count / 2^64.
  std::uint64_t below(std::uint64_t count, std::uint64_t index) const {
    return static_cast<std::uint64_t>((static_cast<Wide>(bits(index)) * count) >> 64);
  }

  // Uniform in (0, 1).
  double unit(std::uint64_t index) const {
    return (static_cast<double>(bits(index) >> 11) + 0.5) * 0x1p-53;
  }

  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * kFirst;
    x = (x ^ (x >> 27)) * kSecond;
    return x ^ (x >> 31);
  }

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t key_;
};

}  // namespace phasescope::formats
