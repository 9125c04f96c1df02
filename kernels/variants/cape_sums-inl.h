// What CAPE's backward pass sums over pairs, but dq, dk and dv: each item's float64 sums, and those
// of all, added up in one order whoever made them.
#if defined(PHASESCOPE_VARIANTS_CAPE_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_SUMS_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_SUMS_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_SUMS_INL_H
#endif

#include <algorithm>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cape_plan.h"
#include "kernels/variants/cape_gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// What is gone through between two additions of sums by distance: panels x keys.
struct CapeTile {
  std::int64_t panel_begin = 0, panel_end = 0;
  KeyRange keys;
  std::int64_t panels() const { return panel_end - panel_begin; }
};

/// Batch entries at work together.
struct CapeEntries {
  std::int64_t first, count;
};

/// Distances of a tile, as many for each of them.
inline DistanceRange cape_tile_distances(const AttentionShape& shape, const CapePlan& plan,
                                         const CapeTile& tile) {
  const std::int64_t first = shape.query_offset + tile.panel_begin * kPanel - tile.keys.end + 1;
  return {first, first + plan.panels * plan.shares * kPanel + plan.keys + kPanel - 1};
}

/// An item is a share of the panels of one of the entries at work.
class CapeItemSums {
 public:
  /// panels: of the entries at work and a tile, where their sums wait for each other; else 0.
  CapeItemSums(const AttentionInputs& inputs, const Gradients& gradients, const CapeNetwork& net,
               const CapeNetworkGradient& network, const CapePlan& plan, std::int64_t panels)
      : inputs_(inputs),
        gradients_(gradients),
        net_(net),
        network_(network),
        plan_(plan),
        pieces_(net.pieces ? &*net.pieces : nullptr),
        total_(inputs, net.range, pieces_),
        items_(static_cast<std::size_t>(plan.items()),
               CapeSums(inputs, pieces_ ? net.range : distances({}), pieces_)),
        panel_memory_(panels * network.sums_floats()) {
    if (gradients.scores.by_distance) {
      scores_ = DiagonalSums(net.range, net.heads, inputs.shape.batch);
      item_scores_.assign(items_.size(), DiagonalSums(distances({}), net.heads, 1));
    }
    for (std::int64_t n = 0; n < panels; ++n) {
      panels_.push_back(network.place_sums(panel_memory_.data() + n * network.sums_floats()));
    }
  }

  /// An item's sums by distance move to those of a tile.
  void begin(std::int64_t item, const CapeTile& tile) {
    const auto n = static_cast<std::size_t>(item);
    if (!pieces_) items_[n].range = distances(tile);
    if (scores_.wanted()) item_scores_[n].move_to(distances(tile).first);
  }

  /// A panel's float sums into an item's float64 ones.
  void add(const CapePanelSums& sums, std::int64_t item) {
    const auto n = static_cast<std::size_t>(item);
    if (!sums.filled) return;
    network_.flush(sums, items_[n]);
    if (sums.scores) take_scores(sums, item_scores_[n]);
  }

  /// Where the sums of one panel of a tile wait. entry: of those at work.
  CapePanelSums& of_panel(const CapeTile& tile, std::int64_t entry, std::int64_t panel) {
    return panels_[static_cast<std::size_t>(entry * tile.panels() + panel - tile.panel_begin)];
  }

  /// The sums that wait, in the order in which an item goes through its panels.
  void add_panels(const CapeEntries& entries, const CapeTile& tile) {
    parallel_items(entries.count * plan_.shares, [&](std::int64_t item, int) {
      begin(item, tile);
      for (std::int64_t n = tile.panel_begin + item % plan_.shares; n < tile.panel_end;
           n += plan_.shares) {
        add(of_panel(tile, item / plan_.shares, n), item);
      }
    });
    gather(entries);
  }

  /// What the items have of a tile by distance, in their order, to the sums of all.
  void gather(const CapeEntries& entries) {
    const std::int64_t items = entries.count * plan_.shares;
    if (scores_.wanted()) {
      parallel_items(net_.heads, [&](std::int64_t head, int) {
        for (std::int64_t n = 0; n < items; ++n) {
          scores_.take_all(head, entries.first + n / plan_.shares,
                           item_scores_[static_cast<std::size_t>(n)]);
        }
      });
    }
    if (pieces_) return;
    parallel_items(net_.cape.hidden + net_.heads, [&](std::int64_t row, int) {
      for (std::int64_t n = 0; n < items; ++n) {
        total_.take_row(items_[static_cast<std::size_t>(n)], row);
      }
    });
  }

  /// The gradients of the network and of what gives its biases, and of the scores by distance.
  void write() {
    for (const CapeSums& item : items_) total_.add_rest(item);
    if (scores_.wanted()) {
      scores_.write_texts(gradients_.scores.by_distance, inputs_.shape.batch,
                          gradients_.scores.length);
    }
    if (const auto* wanted = std::get_if<CapeGradients>(&gradients_.variant)) {
      write_cape_gradients(inputs_, net_.range, total_, *wanted);
    }
  }

 private:
  DistanceRange distances(const CapeTile& tile) const {
    return cape_tile_distances(inputs_.shape, plan_, tile);
  }

  /// A panel's sums of the scores' own gradients to those of an item.
  void take_scores(const CapePanelSums& sums, DiagonalSums& item) const {
    const DistanceRange& range = item.range();
    const std::int64_t count = network_.distances();
    const DistanceRange part{sums.first_distance,
                             std::min(sums.first_distance + count - 1, range.last)};
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      item.take(h, 0, part, sums.scores + h * count - (sums.first_distance - range.first));
    }
  }

  const AttentionInputs& inputs_;
  const Gradients& gradients_;
  const CapeNetwork& net_;
  const CapeNetworkGradient& network_;
  const CapePlan& plan_;
  const CapePieces* pieces_;  ///< of CAPE over FIRE, null over a table
  CapeSums total_;
  std::vector<CapeSums> items_;
  DiagonalSums scores_;                    ///< a slot an entry
  std::vector<DiagonalSums> item_scores_;  ///< of the items at work; both empty where not wanted
  KeptBuffer panel_memory_;
  std::vector<CapePanelSums> panels_;  ///< of the entries at work, (entries, panels of a tile)
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
