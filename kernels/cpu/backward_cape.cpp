// CAPE's backward pass. A work item is a share of the panels of one batch entry, all heads at once:
// the network's gradient at a pair needs d score of every head. cape_plan() divides a long text.
//
// Where threads outnumber these items, a panel's dq and what is summed over its pairs are an item,
// and dk and dv of a share's part of the keys another (cape_parts()), which computes scores twice.
// A panel's sums then wait until all panels of a tile are done, and are added up in the order that
// shares have: the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/backward_cape.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include <limits>
#include <vector>

#include "hwy/foreach_target.h"
#include "kernels/cpu/cape_plan.h"
#include "kernels/cpu/entries.h"
#include "kernels/variants/cape-inl.h"
#include "kernels/variants/cape_gradient-inl.h"
#include "kernels/variants/cape_sums-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

class CapeBackward {
 public:
  CapeBackward(const AttentionInputs& inputs, const SavedForward& saved, const Gradients& gradients)
      : inputs_(inputs),
        saved_(saved),
        gradients_(gradients),
        shape_(inputs.shape),
        visibility_(inputs),
        net_(inputs),
        heads_(shape_.heads),
        key_width_(padded(shape_.head_dim)),
        value_width_(padded(value_dim(shape_))),
        panels_((shape_.queries + kPanel - 1) / kPanel),
        // Over FIRE little goes by distance.
        plan_(cape_plan(shape_, kPanel, row_floats(), pieces() ? 1 : heads_ + net_.cape.hidden)),
        network_(net_, plan_.keys, sums_scores()) {
    parts_ = cape_parts(parallel_threads(), plan_, panels_, bytes());
    // Over FIRE all that goes by distance waits for the end; the sums of panels do not.
    if (pieces() && !sums_scores() && !in_parts()) {
      plan_.panels = std::max<std::int64_t>(1, panels_);
    }
    threads_ = in_parts() ? parts_.threads : parallel_threads();
    sum_keys_ = in_parts() ? parts_.slice : plan_.keys;
    sums_size_ = sum_keys_ * row_floats();
    place_partial();
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
  /// Arrays of one panel.
  struct Work {
    std::int64_t batch, row, queries;
    std::int64_t first_key;          ///< of dk and dv
    bool wants_queries, wants_keys;  ///< dq; dk and dv
    CapePanelSums* sums;             ///< the other gradients; null: not wanted
    CapeBlock block;
    float* q_lanes;      ///< (heads, dim, kPanel), times scale
    float* dq_lanes;     ///< (heads, dim, kPanel)
    float* d_out_lanes;  ///< (heads, value dim, kPanel)
    float* q_rows;       ///< (heads, kPanel, padded dim), times scale
    float* d_out_rows;   ///< (heads, kPanel, padded value dim)
    float* spare;        ///< keys or values of a head and block, or rows of its queries
    float* lse;          ///< (heads, 2, kPanel), Log2Lse::high and low
    float* row_sum;      ///< (heads, kPanel)
    float* weights;      ///< (heads, kBackwardKeys, kPanel): scores, then weights
    float* panel_sums;   ///< memory for `sums`; null in parts
    float* dk;           ///< (kv_heads, sum_keys_, padded dim)
    float* dv;
  };

  static std::int64_t padded(std::int64_t dim) { return round_up(dim, kLanes); }

  /// Whether the scores' own gradients are wanted by distance.
  bool sums_scores() const { return gradients_.scores.by_distance != nullptr; }
  bool in_parts() const { return parts_.threads > 0; }

  const CapePieces* pieces() const { return net_.pieces ? &*net_.pieces : nullptr; }

  /// Floats of a key's dk and dv.
  std::int64_t row_floats() const { return shape_.kv_heads * (key_width_ + value_width_); }

  std::int64_t spare_size() const {
    return std::max(kPanel, kBackwardKeys) * std::max(key_width_, value_width_);
  }

  /// In parts a panel's dq is wanted, or its rows' share of dk and dv, never both: the arrays that
  /// only one of them needs share memory.
  std::int64_t buffer_size() const {
    const std::int64_t queries = in_parts() ? 0 : shape_.head_dim;
    const std::int64_t rows =
        shape_.head_dim + queries + value_dim(shape_) + 3 + key_width_ + value_width_;
    return spare_size() + heads_ * (rows * kPanel + kBackwardRow) + network_.block_floats() +
           (in_parts() ? 0 : network_.sums_floats());
  }

  /// What cape_parts() goes by; the thread's as if not in parts.
  CapeBytes bytes() const {
    const std::int64_t doubles = pieces() ? 1 : heads_ + net_.cape.hidden;
    const std::int64_t network =
        (plan_.items() * cape_tile_distances(shape_, plan_, {}).size() + net_.range.size()) *
        doubles * 8;
    return {4 * row_floats(), 4 * network_.sums_floats(), 4 * buffer_size(), network};
  }

  Work place_buffers(std::int64_t batch, float* sums, float* at) const {
    FloatParts take{at};
    Work w{};
    w.batch = batch;
    w.spare = take(spare_size());
    w.q_lanes = take(heads_ * shape_.head_dim * kPanel);
    w.d_out_lanes = take(heads_ * value_dim(shape_) * kPanel);
    w.q_rows = take(heads_ * key_width_ * kPanel);
    w.dq_lanes = in_parts() ? w.q_rows : take(heads_ * shape_.head_dim * kPanel);
    w.d_out_rows = take(heads_ * value_width_ * kPanel);
    w.lse = take(2 * heads_ * kPanel);
    w.row_sum = take(heads_ * kPanel);
    w.weights = take(heads_ * kBackwardRow);
    w.block = network_.place_block(take(network_.block_floats()));
    if (!in_parts()) w.panel_sums = take(network_.sums_floats());
    w.dk = sums;
    w.dv = sums + shape_.kv_heads * sum_keys_ * key_width_;
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

  void write_all_keys(const CapeEntries& entries, const KeyRange& keys, float* sums) const {
    const std::int64_t heads = shape_.kv_heads;
    parallel_items(entries.count * heads, [&](std::int64_t n, int) {
      write_keys(entries.first + n / heads, n % heads, keys,
                 sums + n / heads * plan_.shares * sums_size_);
    });
  }

  /// One panel and the keys of a part of a range.
  void run_panel(Work& w, std::int64_t panel, const KeyRange& range, const KeyRange& part) const {
    w.row = panel * kPanel;
    w.queries = std::min<std::int64_t>(kPanel, shape_.queries - w.row);
    const KeyRange all = visibility_.keys(w.batch, w.row, w.row + w.queries - 1);
    const KeyRange keys{std::max(all.begin, part.begin), std::min(all.end, part.end)};
    const bool some = keys.begin < keys.end;
    if (w.sums) w.sums->filled = some;
    // Rows that see no key have a dq of 0.
    const bool none = all.begin >= all.end && range.begin == 0;
    if (!some && !(none && w.wants_queries)) return;
    const bool begins = none || all.begin >= range.begin, ends = none || all.end <= range.end;
    if (some && w.sums) {
      w.sums->row = w.row;
      w.sums->queries = w.queries;
      w.sums->first_distance = shape_.query_offset + w.row - keys.end + 1;
      network_.clear(*w.sums);
    }
    for (std::int64_t h = 0; h < heads_; ++h) pack_head(w, h, begins);
    for (std::int64_t key = keys.begin; key < keys.end; key += kBackwardKeys) {
      const std::int64_t count = std::min<std::int64_t>(kBackwardKeys, keys.end - key);
      if (!visibility_.may_share_document(w.batch, w.row, w.queries, key, count)) continue;
      run_block(w, key, count);
    }
    for (std::int64_t h = 0; h < heads_ && w.wants_queries; ++h) write_queries(w, h, ends);
  }

  /// begins: no sum of its dq waits from an earlier range.
  void pack_head(const Work& w, std::int64_t h, bool begins) const {
    const std::int64_t dim = shape_.head_dim, values = value_dim(shape_);
    const auto load = [&](const InputTensor& tensor, std::int64_t channels) {
      return float_rows(tensor, w.batch, h, w.row, w.queries, channels, w.spare);
    };
    float* dq = w.dq_lanes + h * dim * kPanel;
    if (w.wants_queries && begins) {
      std::fill_n(dq, dim * kPanel, 0.0f);
    } else if (w.wants_queries) {
      const auto* waiting = static_cast<const float*>(row_pointer(partial_, w.batch, h, w.row));
      pack_panel(waiting, partial_.row, w.queries, dim, 1, dq);
    }
    const FloatRows q = load(inputs_.q, dim);
    pack_panel(q.data, q.row, w.queries, dim, inputs_.scale, w.q_lanes + h * dim * kPanel);
    if (w.wants_keys) {
      float* q_rows = w.q_rows + h * key_width_ * kPanel;
      std::fill_n(q_rows, key_width_ * kPanel, 0.0f);
      for (std::int64_t n = 0; n < w.queries; ++n) {
        for (std::int64_t d = 0; d < dim; ++d) {
          q_rows[n * key_width_ + d] = inputs_.scale * q.data[n * q.row + d];
        }
      }
    }
    float* d_out_rows = w.d_out_rows + h * value_width_ * kPanel;
    std::fill_n(d_out_rows, value_width_ * kPanel, 0.0f);
    FloatRows d_out = load(saved_.d_out, values);
    if (inputs_.gate.data) {
      d_out = gated_rows(inputs_, w.batch, h, w.queries, values, d_out, w.spare);
    }
    pack_panel(d_out.data, d_out.row, w.queries, values, 1, w.d_out_lanes + h * values * kPanel);
    for (std::int64_t n = 0; n < w.queries; ++n) {
      std::copy_n(d_out.data + n * d_out.row, values, d_out_rows + n * value_width_);
    }
    const FloatRows out = load(saved_.out, values);
    const float* lse = saved_.lse + (w.batch * heads_ + h) * shape_.queries + w.row;
    const float* sink = sink_of(inputs_, h);
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const Log2Lse split = n < w.queries ? log2_lse(lse[n], sink) : Log2Lse{};
      w.lse[2 * h * kPanel + n] = split.high;
      w.lse[(2 * h + 1) * kPanel + n] = split.low;
      w.row_sum[h * kPanel + n] = 0;
      if (n >= w.queries || lse[n] == -std::numeric_limits<float>::infinity()) continue;
      const float* a = out.data + n * out.row;
      const float* g = d_out_rows + n * value_width_;
      double sum = 0;
      for (std::int64_t d = 0; d < values; ++d) sum += static_cast<double>(a[d]) * g[d];
      w.row_sum[h * kPanel + n] = static_cast<float>(sum);
    }
  }

  /// Keys key .. key + keys - 1 of the key/value head that head h reads.
  FloatRows rows_of(const Work& w, const InputTensor& tensor, std::int64_t dim, std::int64_t h,
                    std::int64_t key, std::int64_t keys) const {
    return float_rows(tensor, w.batch, h / (heads_ / shape_.kv_heads), key, keys, dim, w.spare);
  }

  void run_block(Work& w, std::int64_t key, std::int64_t keys) const {
    const TilePlace place = tile_place(shape_, visibility_, w.batch, w.row, w.queries, key);
    for (std::int64_t h = 0; h < heads_; ++h) {
      cape_content(place, keys, w.q_lanes + h * shape_.head_dim * kPanel,
                   rows_of(w, inputs_.k, shape_.head_dim, h, key, keys), shape_.head_dim,
                   w.block.content + h * kBackwardRow);
    }
    network_.score(w.block, place.query, key, keys, w.weights);
    for (std::int64_t h = 0; h < heads_; ++h) weigh_head(w, place, keys, h);
    network_.back(w.block, w.row, place.query - key, keys, w.sums);
    for (std::int64_t h = 0; h < heads_; ++h) add_head(w, key, keys, h);
  }

  /// Weights and d score of one head.
  void weigh_head(Work& w, TilePlace place, std::int64_t keys, std::int64_t h) const {
    const std::int64_t key = place.key;
    const FloatRows values = rows_of(w, inputs_.v, value_dim(shape_), h, key, keys);
    for (std::int64_t n = 0; n < keys; n += kTileKeys) {
      place.key = key + n;
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys - n));
      float* weights = w.weights + h * kBackwardRow + n * kPanel;
      Vec t[kTileKeys][kVecs];
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          t[r][v] = hn::Mul(load(weights + r * kPanel + v * kLanes), set(kLog2e));
        }
      }
      HWY_ALIGN float slopes[kTileKeys * kPanel];
      const float cap = inputs_.soft_cap * kLog2e;
      if (cap > 0) {
        cap_tile(cap, t);
        cap_slopes(cap, t, slopes);
      }
      if (is_masked(place)) mask_tile(place, t);
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          const Vec weight = weight_of(t[r][v], w.lse + 2 * h * kPanel + v * kLanes);
          store(weight, weights + r * kPanel + v * kLanes);
          t[r][v] = zero();
        }
      }
      const float* rows[kTileKeys];
      tile_rows(place, values, rows);
      dot_tile(rows, w.d_out_lanes + h * value_dim(shape_) * kPanel, value_dim(shape_), t);
      float* d_score = w.block.d_score + h * kBackwardRow + n * kPanel;
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          const std::int64_t at = r * kPanel + v * kLanes;
          const Vec mean = load(w.row_sum + h * kPanel + v * kLanes);
          Vec d = hn::Mul(load(weights + at), hn::Sub(t[r][v], mean));
          if (w.sums && w.sums->scores && r < place.keys) {
            const std::int64_t distance = place.query - place.key - r - w.sums->first_distance;
            add_unaligned(w.sums->scores + h * network_.distances() + distance + v * kLanes, d);
          }
          if (cap > 0) d = hn::Mul(d, load(slopes + at));
          store(d, d_score + at);
        }
      }
    }
  }

  /// dq, dk and dv of one head from d content and the weights.
  void add_head(Work& w, std::int64_t key, std::int64_t keys, std::int64_t h) const {
    const FloatRows k = rows_of(w, inputs_.k, shape_.head_dim, h, key, keys);
    const std::int64_t kv = h / (heads_ / shape_.kv_heads);
    const float* d_content = w.block.d_score + h * kBackwardRow;
    if (w.wants_queries) {
      multiply_panel({k.data, 1, k.row, d_content, kPanel,
                      w.dq_lanes + h * shape_.head_dim * kPanel, kPanel, keys},
                     shape_.head_dim);
    }
    if (!w.wants_keys) return;
    const std::int64_t row = kv * sum_keys_ + (key - w.first_key);
    multiply_wide({d_content, kPanel, 1, w.q_rows + h * key_width_ * kPanel, key_width_,
                   w.dk + row * key_width_, key_width_, w.queries},
                  keys, key_width_ / kLanes);
    multiply_wide(
        {w.weights + h * kBackwardRow, kPanel, 1, w.d_out_rows + h * value_width_ * kPanel,
         value_width_, w.dv + row * value_width_, value_width_, w.queries},
        keys, value_width_ / kLanes);
  }

  /// ends: no later range adds to its dq.
  void write_queries(const Work& w, std::int64_t h, bool ends) const {
    float factor[kPanel];
    std::fill(factor, factor + kPanel, ends ? inputs_.scale : 1.0f);
    unpack_panel(w.dq_lanes + h * shape_.head_dim * kPanel, factor, w.queries, shape_.head_dim,
                 ends ? gradients_.dq : partial_, w.batch, h, w.row);
  }

  /// dk and dv of one key/value head and a range of keys. sums: of the entry's first item.
  void write_keys(std::int64_t batch, std::int64_t head, const KeyRange& keys, float* sums) const {
    const auto write = [&](const OutputTensor& to, std::int64_t dim, float* first) {
      const std::int64_t width = padded(dim), size = (keys.end - keys.begin) * width;
      for (std::int64_t share = 1; share < plan_.shares; ++share) {
        const float* other = first + share * sums_size_;
        for (std::int64_t n = 0; n < size; ++n) first[n] += other[n];
      }
      for (std::int64_t key = keys.begin; key < keys.end; ++key, first += width) {
        store_row(first, dim, to, batch, head, key);
      }
    };
    write(gradients_.dk, shape_.head_dim, sums + head * sum_keys_ * key_width_);
    sums += shape_.kv_heads * sum_keys_ * key_width_;
    write(gradients_.dv, value_dim(shape_), sums + head * sum_keys_ * value_width_);
  }

  const AttentionInputs& inputs_;
  const SavedForward& saved_;
  const Gradients& gradients_;
  const AttentionShape& shape_;
  Visibility visibility_;
  CapeNetwork net_;
  std::int64_t heads_, key_width_, value_width_;
  std::int64_t panels_;
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
