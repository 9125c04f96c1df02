#pragma once
// How CAPE's backward pass is divided. The plan depends on the shape alone, never on the number of
// threads, so that sums are always added in the same order; parts change no such order, and depend
// on the number of threads.

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/chunks.h"

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
  /// Panels of an entry, which has `count`, between two such additions.
  std::int64_t tile_panels(std::int64_t count) const { return std::min(panels * shares, count); }
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

/// How threads that outnumber a plan's items find work: a panel's dq and all that is summed over
/// its pairs is an item, and dk and dv of a share's part of the keys another. Parts are gone
/// through a slice of the range's keys at a time, so that sums of dk and dv leave memory for the
/// threads.
struct CapeParts {
  int threads = 0;         ///< 0: shares stay whole
  std::int64_t slice = 0;  ///< keys of a slice
  std::int64_t keys = 0;   ///< of a part
};

/// Of a key's dk and dv, of a panel's other sums, of what else a thread needs, and of what there is
/// for all.
struct CapeBytes {
  std::int64_t key, panel, thread, all;
};

/// panels: of an entry. Scores, and the network forth and back, are computed twice then: about 3
/// operations instead of 2, so that it takes more than 3 threads for 2 items, and as many have to
/// fit within backward_bytes() with all else. dq_apart: dq comes from a pass of its own anyway,
/// which makes two of scores; shares stay whole then, for in parts there would be a third.
inline CapeParts cape_parts(int threads, const CapePlan& plan, std::int64_t panels,
                            const CapeBytes& bytes, bool dq_apart) {
  constexpr std::int64_t kItems = 64;  // parts of a slice, where it is long enough
  constexpr std::int64_t kSlices = std::int64_t{64} << 20;
  const auto up = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
  const std::int64_t items = plan.items();
  const std::int64_t most =
      std::max(kPartKeys, kSlices / (items * bytes.key) / kPartKeys * kPartKeys);
  CapeParts parts;
  parts.slice = std::min(plan.keys, most);
  parts.keys = up(up(parts.slice, up(kItems, items)), kPartKeys) * kPartKeys;
  const std::int64_t queries = plan.batches * plan.tile_panels(panels);
  const std::int64_t work = queries + items * up(parts.slice, parts.keys);
  const std::int64_t left = backward_bytes().load(std::memory_order_relaxed) - bytes.all -
                            queries * bytes.panel - items * parts.slice * bytes.key;
  const std::int64_t fit =
      std::clamp<std::int64_t>(left / bytes.thread, 0, std::min<std::int64_t>(threads, work));
  if (!dq_apart && 2 * fit > 3 * items) parts.threads = static_cast<int>(fit);
  return parts;
}

}  // namespace phasescope::kernels
