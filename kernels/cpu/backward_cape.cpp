// CAPE's backward pass. A work item is a share of the panels of one batch entry, all heads at once:
// the network's gradient at a pair needs d score of every head. cape_plan() divides a long text.
//
// Where threads outnumber these items, a panel's dq and what is summed over its pairs are an item,
// and dk and dv of a share's part of the keys another (cape_parts()), which computes scores twice.
// A panel's sums then wait until all panels of a tile are done, and are added up in the order that
// shares have: the same bits. Where dq comes from a pass of its own, shares stay whole: no score
// is computed a third time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward_cape.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include <vector>

#include "hwy/foreach_target.h"
#include "kernels/cpu/backward_panels-inl.h"
#include "kernels/cpu/cape_plan.h"
#include "kernels/cpu/entries.h"
#include "kernels/variants/cape-inl.h"
#include "kernels/variants/cape_gradient-inl.h"
#include "kernels/variants/cape_sums-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

class CapeBackward : private BackwardPanels<VariantDefaults> {
 public:
  CapeBackward(const AttentionInputs& inputs, const SavedForward& saved, const Gradients& gradients)
      : BackwardPanels(inputs, saved, gradients),
        net_(inputs),
        heads_(shape_.heads),
        panels_((shape_.queries + kPanel - 1) / kPanel),
        // Over FIRE little goes by distance.
        plan_(cape_plan(shape_, kPanel, key_floats(), pieces() ? 1 : heads_ + net_.cape.hidden)),
        network_(net_, plan_.keys, sums_scores()) {
    find_gradients();
    place_partial();
    parts_ = cape_parts(parallel_threads(), plan_, panels_, bytes(), dq_apart_);
    // Over FIRE all that goes by distance waits for the end; the sums of panels do not.
    if (pieces() && !sums_scores() && !in_parts()) {
      plan_.panels = std::max<std::int64_t>(1, panels_);
    }
    threads_ = in_parts() ? parts_.threads : parallel_threads();
    sum_keys_ = in_parts() ? parts_.slice : plan_.keys;
    sums_size_ = sum_keys_ * key_floats();
  }

  void run() {
    CapeItemSums all(inputs_, gradients_, net_, network_, plan_,
                     in_parts() ? plan_.batches * plan_.tile_panels(panels_) : 0);
    KeptBuffer sums(plan_.items() * sums_size_);
    ThreadBuffers buffers(threads_, buffer_size());
    for (std::int64_t batch = 0; batch < shape_.batch; batch += plan_.batches) {
      const CapeEntries entries{batch, std::min(plan_.batches, shape_.batch - batch)};
      for (std::int64_t key = 0; key == 0 || key < shape_.keys; key += plan_.keys) {
        const KeyRange keys{key, std::min(key + plan_.keys, shape_.keys)};
        if (in_parts()) {
          run_parts(entries, keys, sums.data(), all, buffers);
        } else {
          run_shares(entries, keys, sums.data(), all, buffers);
        }
      }
      if (dq_apart_) run_queries(entries, sums.data(), buffers);
    }
    all.write();
  }

 private:
  /// One panel of queries, all heads.
  struct Work {
    std::vector<Run> heads;
    std::int64_t first_key;          ///< of dk and dv
    bool wants_queries, wants_keys;  ///< dq; dk and dv
    CapePanelSums* sums;             ///< the other gradients; null: not wanted
    CapeBlock block;
    float* spare;       ///< keys or values of a head and block, or rows of its queries
    float* weights;     ///< (heads, kBackwardKeys, kPanel): scores, then weights
    float* panel_sums;  ///< memory for `sums`; null in parts
    float* key_sums;    ///< (kv_heads), KeySums of sum_keys_ keys
  };

  bool in_parts() const { return parts_.threads > 0; }

  const CapePieces* pieces() const { return net_.pieces ? &*net_.pieces : nullptr; }

  /// Floats of a key's dk and dv, all heads.
  std::int64_t key_floats() const { return shape_.kv_heads * row_floats(); }

  std::int64_t spare_size() const {
    return std::max(kPanel, kBackwardKeys) * std::max(dots_[0].dim, values_[0].dim);
  }

  /// In parts a panel's dq is wanted, or its rows' share of dk and dv, never both.
  std::int64_t buffer_size() const {
    return spare_size() + heads_ * (run_floats(in_parts()) + kBackwardRow) +
           network_.block_floats() + (in_parts() ? 0 : network_.sums_floats());
  }

  /// What cape_parts() goes by; the thread's as if not in parts.
  CapeBytes bytes() const {
    const std::int64_t doubles = pieces() ? 1 : heads_ + net_.cape.hidden;
    const std::int64_t network =
        (plan_.items() * cape_tile_distances(shape_, plan_, {}).size() + net_.range.size()) *
        doubles * 8;
    return {4 * key_floats(), 4 * network_.sums_floats(), 4 * buffer_size(), network};
  }

  Work place_buffers(std::int64_t batch, float* sums, float* buffer) const {
    FloatParts take{buffer};
    Work w{};
    w.spare = take(spare_size());
    w.heads.resize(static_cast<std::size_t>(heads_));
    for (std::int64_t h = 0; h < heads_; ++h) {
      w.heads[static_cast<std::size_t>(h)].batch = batch;
      w.heads[static_cast<std::size_t>(h)].head = h;
    }
    place_runs(w.heads, in_parts(), take);
    w.weights = take(heads_ * kBackwardRow);
    w.block = network_.place_block(take(network_.block_floats()));
    if (!in_parts()) w.panel_sums = take(network_.sums_floats());
    w.key_sums = sums;
    return w;
  }

  /// Where dq waits between ranges of keys: in its own tensor, or, of 16 bits, in memory of its
  /// own. What would take more than 64 MB is not kept: dq comes from a pass of its own.
  void place_partial() {
    if (plan_.keys >= shape_.keys) return;
    partial_ = gradients_.dq;
    if (partial_.storage == Storage::float32) return;
    constexpr std::int64_t kMost = std::int64_t{16} << 20;
    const std::int64_t head = shape_.queries * shape_.head_dim;
    dq_apart_ = heads_ * head > kMost;
    if (dq_apart_) return;
    partial_memory_ = FloatBuffer(heads_ * head);
    partial_ = {partial_memory_.data(), 0, head, shape_.head_dim, Storage::float32};
  }

  /// The tiles of a range of keys. Those that causality keeps from all of its keys are left out,
  /// but in the first range, which writes dq of rows without keys.
  std::vector<CapeTile> tiles_of(const KeyRange& keys) const {
    const std::int64_t step = plan_.panels * plan_.shares;
    std::vector<CapeTile> tiles;
    for (std::int64_t panel = 0; panel < panels_; panel += step) {
      const CapeTile tile{panel, std::min(panel + step, panels_), keys};
      const std::int64_t end = shape_.query_offset + tile.panel_end * kPanel;
      if (keys.begin == 0 || !shape_.causal || end > keys.begin) tiles.push_back(tile);
    }
    return tiles;
  }

  /// An item a share: all gradients of its panels.
  void run_shares(const CapeEntries& entries, const KeyRange& keys, float* sums, CapeItemSums& all,
                  ThreadBuffers& buffers) const {
    const std::int64_t items = entries.count * plan_.shares;
    clear_keys(items, sums);
    for (const CapeTile& tile : tiles_of(keys)) {
      parallel_items(
          items,
          [&](std::int64_t item, int thread) {
            all.begin(item, tile);
            Work w = place_buffers(entries.first + item / plan_.shares, sums + item * sums_size_,
                                   buffers.of(thread));
            CapePanelSums own = network_.place_sums(w.panel_sums);
            w.sums = &own;
            w.wants_queries = !dq_apart_;
            w.wants_keys = true;
            w.first_key = keys.begin;
            for (std::int64_t n = tile.panel_begin + item % plan_.shares; n < tile.panel_end;
                 n += plan_.shares) {
              run_panel(w, n, keys, keys);
              all.add(own, item);
            }
          },
          threads_);
      all.gather(entries);
    }
    write_all_keys(entries, keys, sums);
  }

  /// An item a panel: its dq and sums; and one a share's part of the keys: dk and dv there. A tile
  /// of panels goes with a slice of the range's keys, as long as there are both.
  void run_parts(const CapeEntries& entries, const KeyRange& keys, float* sums, CapeItemSums& all,
                 ThreadBuffers& buffers) const {
    const std::vector<CapeTile> tiles = tiles_of(keys);
    KeyRange slice{keys.begin, keys.begin};
    for (std::size_t t = 0; t < tiles.size() || slice.end < keys.end; ++t) {
      slice = {slice.end, std::min(slice.end + parts_.slice, keys.end)};
      const CapeTile tile = t < tiles.size() ? tiles[t] : CapeTile{};
      const std::int64_t queries = entries.count * tile.panels();
      const std::int64_t items = entries.count * plan_.shares;
      const std::int64_t parts = (slice.end - slice.begin + parts_.keys - 1) / parts_.keys;
      if (parts > 0) clear_keys(items, sums);
      parallel_items(
          queries + items * parts,
          [&](std::int64_t item, int thread) {
            if (item < queries) {
              // The longest rows first, so that threads end together.
              run_panel_sums(entries, tile, item % entries.count,
                             tile.panel_end - 1 - item / entries.count, sums, all,
                             buffers.of(thread));
              return;
            }
            const std::int64_t share = (item - queries) % items;
            const std::int64_t begin = slice.begin + (item - queries) / items * parts_.keys;
            run_part(entries, share, keys, slice, {begin, std::min(begin + parts_.keys, slice.end)},
                     sums + share * sums_size_, buffers.of(thread));
          },
          threads_);
      if (t < tiles.size()) all.add_panels(entries, tile);
      if (parts > 0) write_all_keys(entries, slice, sums);
    }
  }

  /// dq and sums of one panel of an entry at work.
  void run_panel_sums(const CapeEntries& entries, const CapeTile& tile, std::int64_t entry,
                      std::int64_t panel, float* sums, CapeItemSums& all, float* buffer) const {
    Work w = place_buffers(entries.first + entry, sums, buffer);
    w.sums = &all.of_panel(tile, entry, panel);
    w.wants_queries = !dq_apart_;
    run_panel(w, panel, tile.keys, tile.keys);
  }

  /// dk and dv of a part of a slice's keys, from all panels of a share.
  void run_part(const CapeEntries& entries, std::int64_t share, const KeyRange& range,
                const KeyRange& slice, const KeyRange& part, float* sums, float* buffer) const {
    Work w = place_buffers(entries.first + share / plan_.shares, sums, buffer);
    w.wants_keys = true;
    w.first_key = slice.begin;
    for (std::int64_t n = share % plan_.shares; n < panels_; n += plan_.shares) {
      run_panel(w, n, range, part);
    }
  }

  /// dq alone.
  void run_queries(const CapeEntries& entries, float* sums, ThreadBuffers& buffers) const {
    parallel_items(
        entries.count * panels_,
        [&](std::int64_t n, int thread) {
          Work w = place_buffers(entries.first + n / panels_, sums, buffers.of(thread));
          w.wants_queries = true;
          run_panel(w, n % panels_, {0, shape_.keys}, {0, shape_.keys});
        },
        threads_);
  }

  void clear_keys(std::int64_t items, float* sums) const {
    parallel_items(items, [&](std::int64_t item, int) {
      std::fill_n(sums + item * sums_size_, sums_size_, 0.0f);
    });
  }

  /// dk and dv of a range of keys. sums: of the entries' items.
  void write_all_keys(const CapeEntries& entries, const KeyRange& keys, float* sums) const {
    const std::int64_t heads = shape_.kv_heads, size = sum_keys_ * row_floats();
    parallel_items(entries.count * heads, [&](std::int64_t n, int) {
      float* first = sums + n / heads * plan_.shares * sums_size_ + n % heads * size;
      add_shares(first, plan_.shares, sums_size_, size);
      write_keys(entries.first + n / heads, n % heads, keys, key_sums(first, sum_keys_));
    });
  }

  /// One panel and the keys of a part of a range.
  void run_panel(Work& w, std::int64_t panel, const KeyRange& range, const KeyRange& part) const {
    const std::int64_t row = panel * kPanel;
    const std::int64_t queries = std::min<std::int64_t>(kPanel, shape_.queries - row);
    const std::int64_t batch = w.heads[0].batch;
    const KeyRange all = visibility_.keys(batch, row, row + queries - 1);
    const KeyRange keys{std::max(all.begin, part.begin), std::min(all.end, part.end)};
    const bool some = keys.begin < keys.end;
    if (w.sums) w.sums->filled = some;
    // Rows that see no key have a dq of 0.
    const bool none = all.begin >= all.end && range.begin == 0;
    if (!some && !(none && w.wants_queries)) return;
    if (some && w.sums) {
      w.sums->row = row;
      w.sums->queries = queries;
      w.sums->first_distance = shape_.query_offset + row - keys.end + 1;
      network_.clear(*w.sums);
    }
    const bool resumes = !none && all.begin < range.begin, waits = !none && all.end > range.end;
    for (Run& run : w.heads) {
      run.row = row;
      run.queries = queries;
      pack(run, 1, w.wants_keys, w.spare);
      const Waiting left = waiting(run);
      if (w.wants_queries) start_queries(run, 0, resumes ? &left : nullptr);
    }
    for (std::int64_t key = keys.begin; key < keys.end; key += kBackwardKeys) {
      const std::int64_t count = std::min<std::int64_t>(kBackwardKeys, keys.end - key);
      if (visibility_.may_share_document(batch, row, queries, key, count)) run_block(w, key, count);
    }
    for (const Run& run : w.heads) {
      const Waiting to = waiting(run);
      if (w.wants_queries) write_queries(run, 0, waits ? &to : nullptr);
    }
  }

  Waiting waiting(const Run& run) const { return {partial_, run.batch, run.head}; }

  /// Keys key .. key + keys - 1 of the key/value head that a head reads.
  FloatRows rows_of(const Work& w, const Run& run, const InputTensor& tensor, std::int64_t dim,
                    std::int64_t key, std::int64_t keys) const {
    return float_rows(tensor, run.batch, run.head / group_, key, keys, dim, w.spare);
  }

  void run_block(Work& w, std::int64_t key, std::int64_t keys) const {
    const Run& first = w.heads[0];
    const TilePlace place =
        tile_place(shape_, visibility_, first.batch, first.row, first.queries, key);
    for (const Run& run : w.heads) {
      cape_content(place, keys, run.q_lanes[0],
                   rows_of(w, run, dots_[0].k, dots_[0].dim, key, keys), dots_[0].dim,
                   w.block.content + run.head * kBackwardRow);
    }
    network_.score(w.block, place.query, key, keys, w.weights);
    for (const Run& run : w.heads) weigh_head(w, run, place, keys);
    network_.back(w.block, first.row, place.query - key, keys, w.sums);
    for (const Run& run : w.heads) add_head(w, run, key, keys);
  }

  /// Weights and d score of one head.
  void weigh_head(Work& w, const Run& run, TilePlace place, std::int64_t keys) const {
    const std::int64_t key = place.key;
    const FloatRows values[2] = {rows_of(w, run, values_[0].v, values_[0].dim, key, keys), {}};
    for (std::int64_t n = 0; n < keys; n += kTileKeys) {
      place.key = key + n;
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys - n));
      float* weights = w.weights + run.head * kBackwardRow + n * kPanel;
      Vec t[kTileKeys][kVecs];
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          t[r][v] = hn::Mul(load(weights + r * kPanel + v * kLanes), set(kLog2e));
        }
      }
      HWY_ALIGN float slopes[kTileKeys * kPanel];
      weigh(run, place, values, t, weights, kPanel, slopes);
      float* sums = nullptr;
      if (w.sums && w.sums->scores) {
        sums = w.sums->scores + run.head * network_.distances() +
               (place.query - place.key - w.sums->first_distance);
      }
      float* d_score = w.block.d_score + run.head * kBackwardRow + n * kPanel;
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          const std::int64_t at = r * kPanel + v * kLanes;
          Vec d = hn::Mul(load(weights + at), hn::Sub(t[r][v], load(run.row_sum + v * kLanes)));
          if (sums && r < place.keys) add_unaligned(sums - r + v * kLanes, d);
          if (cap_ > 0) d = hn::Mul(d, load(slopes + at));
          store(d, d_score + at);
        }
      }
    }
  }

  /// dq, dk and dv of one head from d content and the weights.
  void add_head(Work& w, const Run& run, std::int64_t key, std::int64_t keys) const {
    const std::int64_t dim = dots_[0].dim, values = values_[0].dim;
    const float* d_content = w.block.d_score + run.head * kBackwardRow;
    if (w.wants_queries) {
      const FloatRows k = rows_of(w, run, dots_[0].k, dim, key, keys);
      add_to_queries(run, 0, k.data, k.row, d_content, kPanel, keys);
    }
    if (!w.wants_keys) return;
    const KeySums sums =
        key_sums(w.key_sums + run.head / group_ * sum_keys_ * row_floats(), sum_keys_);
    const std::int64_t at = key - w.first_key;
    add_to_keys(d_content, kPanel, run.q_rows[0], run.queries, dim, sums.dk[0] + at * padded(dim),
                keys);
    add_to_keys(w.weights + run.head * kBackwardRow, kPanel, run.d_out_rows[0], run.queries, values,
                sums.dv[0] + at * padded(values), keys);
  }

  CapeNetwork net_;
  std::int64_t heads_, panels_;
  CapePlan plan_;
  CapeNetworkGradient network_;
  CapeParts parts_;
  int threads_ = 1;
  std::int64_t sum_keys_ = 0;   ///< keys whose dk and dv an item holds: of a range, or of a slice
  std::int64_t sums_size_ = 0;  ///< floats of these
  OutputTensor partial_;        ///< sums of dq between ranges of keys, without its scale
  FloatBuffer partial_memory_;
  bool dq_apart_ = false;  ///< dq comes from a pass of its own
};

void backward_cape(const AttentionInputs& inputs, const SavedForward& saved,
                   const Gradients& gradients) {
  CapeBackward(inputs, saved, gradients).run();
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void backward_cape(const AttentionInputs& inputs, const SavedForward& saved,
                   const Gradients& gradients) {
  PHASESCOPE_SELECT_TARGET(backward_cape)(inputs, saved, gradients);
}

}  // namespace phasescope::kernels
#endif
