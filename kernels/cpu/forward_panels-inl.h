// The engine of the forward pass: panels of queries on their way through blocks of keys. Whoever
// gives the scores of a block (of one head, or of all at once) walks the keys and says what values
// are averaged; weights, probes, sums by distance and what is written are the same for all.
#if defined(PHASESCOPE_CPU_FORWARD_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_FORWARD_PANELS_INL_H
#undef PHASESCOPE_CPU_FORWARD_PANELS_INL_H
#else
#define PHASESCOPE_CPU_FORWARD_PANELS_INL_H
#endif

#include <algorithm>
#include <optional>
#include <type_traits>

#include "kernels/cpu/buckets-inl.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// How many vectors of a panel's queries see none of a tile's keys.
template <int kFirst>
using FirstVector = std::integral_constant<int, kFirst>;

/// kKeys: of a block.
template <bool kProbes, int kKeys>
class ForwardPanels {
 protected:
  using Buckets = BucketPanel<kKeys>;

  /// Queries row .. row + queries - 1 of one head.
  struct Run {
    std::int64_t batch, head, row, queries;
    Panel panel;
    std::optional<Buckets> buckets;  ///< where sums by distance are wanted, as the next
    double* sums = nullptr;          ///< where those go
  };

  /// panels: of an item. heads_in_lanes: rows are heads.
  ForwardPanels(const AttentionInputs& inputs, const ForwardOutputs& outputs, std::int64_t panels,
                bool heads_in_lanes = false)
      : inputs_(inputs),
        outputs_(outputs),
        shape_(inputs.shape),
        visibility_(inputs),
        plan_(outputs.buckets, inputs.shape, {kPanel, kKeys, kLanes, panels}),
        kept_(outputs.known_lse ? 0 : plan_.kept_blocks(Buckets::kBlock)),
        heads_in_lanes_(heads_in_lanes) {}

  /// Calls run_item(unit, first row, sums, slot, buffer) for every `rows` queries of every unit,
  /// which is `together` heads of a batch entry. masks(head, lambda): the distances that the
  /// variant masks.
  template <class RunItem, class Masks>
  void run_items(std::int64_t together, std::int64_t rows, std::int64_t floats,
                 const RunItem& run_item, const Masks& masks) const {
    const std::int64_t heads = shape_.batch * shape_.heads, units = heads / together;
    const std::int64_t blocks = (shape_.queries + rows - 1) / rows;
    BucketSums sums(plan_, heads, together, blocks);
    const int threads = threads_with(floats);
    ThreadBuffers buffers(threads, floats);
    parallel_items(
        units * sums.slots(),
        [&](std::int64_t item, int thread) {
          const std::int64_t slot = item / units;
          // The longest rows first, so that threads end together.
          for (std::int64_t block = blocks - 1 - slot; block >= 0; block -= sums.slots()) {
            run_item(item % units, block * rows, sums, slot, buffers.of(thread));
          }
        },
        threads);
    sums.write(outputs_.buckets);
    write_pairs(outputs_.buckets, plan_, shape_, visibility_, masks);
  }

  /// Floats of a panel whose values have `channels` together.
  std::int64_t panel_size(std::int64_t channels) const {
    return (2 + (kProbes ? probe_rows(outputs_.rows) : 0) + channels) * kPanel;
  }
  /// Before its first key. dims: of each of its values. Returns what is behind its memory.
  template <int kValues>
  float* start(Panel& panel, const std::int64_t (&dims)[kValues], float* at) const {
    panel.reference = at;
    panel.normaliser = at + kPanel;
    at += 2 * kPanel;
    if constexpr (kProbes) at = start_probes(panel.probes, outputs_.rows, at);
    fill_panel(panel.reference, kFirstMaximum);
    fill_panel(panel.normaliser, 0);
    for (int n = 0; n < kValues; ++n) {
      panel.out[n] = at;
      panel.out_dim[n] = dims[n];
      std::fill(at, at + dims[n] * kPanel, 0.0f);
      at += dims[n] * kPanel;
    }
    return at;
  }

  std::int64_t buckets_size() const { return Buckets::size(plan_, kept_); }
  /// by_distance: of the run's item. The panel's probes say where scores and contents will be.
  void start_buckets(Run& run, const DistanceSums& by_distance, BucketSums& sums, std::int64_t slot,
                     float* at) const {
    run.sums = sums.at(run.batch * shape_.heads + run.head, slot);
    run.buckets.emplace(plan_, by_distance, run.row + shape_.query_offset, run.queries,
                        visibility_.has_holes(run.batch),
                        outputs_.known_lse ? outputs_.known_lse + first_of(run) : nullptr,
                        sink_of(inputs_, run.head), kept_, run.panel.probes, at);
  }

  /// A panel and a block of keys: their weights, then the values they average. for_tiles(use) calls
  /// use(place, scores in log2 units, FirstVector) for the block's tiles; multiply(weights) adds to
  /// the panel's values. masked: the variant masks some pairs.
  template <class ForTiles, class Multiply>
  HWY_INLINE void attend(Run& run, std::int64_t key, std::int64_t keys, bool masked, float* weights,
                         const ForTiles& for_tiles, const Multiply& multiply) const {
    Panel& panel = run.panel;
    Buckets* buckets = kProbes && run.buckets ? &*run.buckets : nullptr;
    if (buckets) weights = buckets->open(panel.probes, key, keys, masked, weights);
    for_tiles([&]<int kFirst>(const TilePlace& place, Vec(&t)[kTileKeys][kVecs],
                              FirstVector<kFirst>) __attribute__((always_inline)) {
      if (kFirst > 0 || is_masked(place)) {
        masked = true;
        softmax_tile<kProbes, true, kFirst>(place, t, weights, place.key - key, panel);
      } else {
        softmax_tile<kProbes, false>(place, t, weights, place.key - key, panel);
      }
    });
    multiply(weights);
    if (buckets) buckets->close(panel, masked, run.sums);
  }

  /// A block that waited for the final normaliser: its weights again. for_tiles as for attend().
  template <class ForTiles>
  void attend_again(Run& run, const typename Buckets::Block& block, float* weights,
                    const ForTiles& for_tiles) const {
    for_tiles([&](const TilePlace& place, Vec(&t)[kTileKeys][kVecs], auto)
                  __attribute__((always_inline)) {
                    if (is_masked(place)) mask_tile(place, t);
                    weigh_tile(t, run.panel.reference, weights + (place.key - block.key) * kPanel);
                  });
    run.buckets->add_again(block, weights, run.panel);
  }

  /// What rows end with but their values; then sinks join the normalisers.
  void write_rows(Run& run) const {
    const RowSinks sinks = sinks_of(run);
    write_lse(run.panel, run.queries, first_of(run), outputs_.lse);
    if constexpr (kProbes) {
      write_probes(run.panel, run.queries, first_of(run), sinks, outputs_.rows);
    }
    add_sinks(run.panel, run.queries, sinks);
  }

  /// The first `values` of a panel's values. spare: for the rows of one of them.
  void write_values(const Run& run, int values, float* spare) const {
    const Panel& panel = run.panel;
    float factor[kPanel];
    for (std::int64_t n = 0; n < run.queries; ++n) {
      factor[n] = panel.normaliser[n] == 0 ? 0 : 1 / panel.normaliser[n];
    }
    const OutputTensor outs[2] = {outputs_.out, outputs_.out_state};
    for (int n = 0; n < values && run.queries > 0; ++n) {
      if (n == 0 && inputs_.gate.data) {
        unpack_gated(panel.out[0], factor, run.queries, panel.out_dim[0], inputs_, outputs_,
                     run.batch, run.head, run.row, spare);
        continue;
      }
      unpack_panel(panel.out[n], factor, run.queries, panel.out_dim[n], outs[n], run.batch,
                   run.head, run.row);
    }
  }

  /// The first of a run's rows among those of all heads.
  std::int64_t first_of(const Run& run) const {
    return (run.batch * shape_.heads + run.head) * shape_.queries + run.row;
  }

  const AttentionInputs& inputs_;
  const ForwardOutputs& outputs_;
  const AttentionShape& shape_;
  Visibility visibility_;
  BucketPlan plan_;

 private:
  RowSinks sinks_of(const Run& run) const {
    if (!inputs_.sinks) return {};
    if (heads_in_lanes_) return {inputs_.sinks + run.head * shape_.queries + run.row, 1};
    return {inputs_.sinks + run.head};
  }

  std::int64_t kept_;  ///< blocks of weights a panel may keep
  bool heads_in_lanes_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
