#pragma once
// How CAPE's backward pass is divided. Depends on the shape alone, never on the number of threads,
// so that sums are always added in the same order.

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Panels of queries are dealt out to work items (shares), each with sums of dk and dv of its own.
/// Where sums over all keys would take too much for enough items, keys are gone through a range at
/// a time, and dq waits between ranges as a partial sum.
struct CapePlan {
  std::int64_t batches = 1;  ///< entries at once
  std::int64_t shares = 1;   ///< of the panels of an entry
  std::int64_t keys = 0;     ///< of a range
  std::int64_t panels = 1;   ///< between two additions of what goes by distance; times shares

  std::int64_t items() const { return batches * shares; }
};

/// floats: of dk and dv of one key, all heads. doubles: what goes by distance, of one distance.
/// What the items hold of a range stays within 128 MB, unless 128 keys of eight items take more.
inline CapePlan cape_plan(const AttentionShape& shape, std::int64_t panel, std::int64_t floats,
                          std::int64_t doubles) {
  constexpr std::int64_t kBudget = std::int64_t{128} << 20;
  constexpr std::int64_t kItems = 16, kFewItems = 8;
  constexpr std::int64_t kManyKeys = 512, kFewKeys = 128;  // so that packing is little
  constexpr std::int64_t kRows = 2048;                     // of the queries of `panels`
  const auto up = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
  const std::int64_t keys = std::max<std::int64_t>(1, shape.keys);
  const std::int64_t panels = std::max<std::int64_t>(1, up(shape.queries, panel));
  const std::int64_t key_bytes = 4 * floats + 8 * doubles;
  const std::int64_t whole = kBudget / (keys * key_bytes);  // items that fit with all keys

  CapePlan plan;
  plan.batches = std::clamp<std::int64_t>(whole, 1, shape.batch);
  plan.shares =
      std::clamp<std::int64_t>(std::min(up(kItems, plan.batches), whole / plan.batches), 1, panels);
  plan.keys = keys;
  if (plan.items() < std::min(kFewItems, panels)) {
    plan.batches = 1;
    const bool many = kBudget / (kItems * key_bytes) >= kManyKeys;
    plan.shares = std::min(many ? kItems : kFewItems, panels);
    plan.keys = std::min(keys, std::max(kFewKeys, kBudget / (plan.shares * key_bytes) / 16 * 16));
  }
  plan.panels = std::min(up(kRows, panel * plan.shares), up(panels, plan.shares));
  return plan;
}

}  // namespace phasescope::kernels
