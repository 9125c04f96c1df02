#include "analysis/intervals/draws.h"

#include "analysis/random.h"

namespace phasescope::analysis {

std::shared_ptr<const Draws::Counts> Draws::of(std::size_t units) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Counts>& known = known_[units];
  if (known) return known;
  Random random(seed_);
  auto counts = std::make_shared<Counts>(kDraws * units);
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (std::size_t n = 0; n < units; ++n) {
      ++(*counts)[draw * units +
                  static_cast<std::size_t>(random.below(static_cast<std::int64_t>(units)))];
    }
  }
  known = std::move(counts);
  return known;
}

}  // namespace phasescope::analysis
