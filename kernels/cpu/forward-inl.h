// The forward pass of variants whose heads stand alone. A work item is 192 queries of one head; it
// walks the keys in blocks of 128, each block panel by panel: scores, weights, weighted values.
// 16-bit rows become float32 where they are packed (queries), a block at a time (keys and values,
// once for 192 queries) and where they are written.
//
// Versions that were measured, in the time of the plain variant: references of a panel raised
// together, ALiBi 1.16 to 1.02; distances summed over a work item before they go to buckets, all
// probes 1.24 to 1.15. The plain variant at 512 tokens (AVX-512, D 64 and 128): vectors that
// causality hides left out of the diagonal's tiles, rows transposed four by four with all of a
// panel's cache lines on the way together, 0.92 and 0.95 of the time before. What goes by the
// processor is in tuning.cpp. No difference: the exponentials of two or four vectors in step.
#if defined(PHASESCOPE_CPU_FORWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_FORWARD_INL_H
#undef PHASESCOPE_CPU_FORWARD_INL_H
#else
#define PHASESCOPE_CPU_FORWARD_INL_H
#endif

#include "kernels/cpu/forward_panels-inl.h"
#include "kernels/cpu/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <HeadVariant V, bool kProbes>
class ForwardPass : private ForwardPanels<kProbes, kKeyBlock> {
  using Panels = ForwardPanels<kProbes, kKeyBlock>;
  using Panels::buckets_size;
  using Panels::inputs_;
  using Panels::plan_;
  using Panels::shape_;
  using Panels::visibility_;
  using typename Panels::Run;

 public:
  ForwardPass(const AttentionInputs& inputs, const ForwardOutputs& outputs)
      : Panels(inputs, outputs, kPanels, V::kHeadsInLanes),
        cap_(inputs.soft_cap * kLog2e),
        variant_(inputs) {
    for (int n = 0; n < V::kDots; ++n) dots_[n] = variant_.dot(n);
    for (int n = 0; n < V::kValues; ++n) values_[n] = variant_.value(n);
    // 16-bit values are copied out of their rows as they become float32.
    tuning_ = forward_tuning(inputs.v.storage == Storage::float32 ? 4 * inputs.v.row : 0);
  }

  void run() {
    this->run_items(
        1, kQueryBlock, buffer_size(),
        [&](std::int64_t head, std::int64_t query, BucketSums& sums, std::int64_t slot,
            float* buffer) { run_item(head, query, sums, slot, buffer); },
        [&](std::int64_t head, std::int64_t lambda) { return variant_.masks(head, lambda); });
  }

 private:
  struct Item {
    std::int64_t batch, head, kv_head, query;
    typename V::Head variant_head;
    const float* q[kPanels][2];
    FloatRows k[2], v[2];  ///< of the block of keys
    KeyRange next;         ///< the block of keys after that one
    float* packed;         ///< packed_size(): values of a block, where they are packed
    std::int64_t dim[2];
    float* spare;  ///< a block of keys and values, or the queries of a panel
    Run runs[kPanels];
    DistanceSums by_distance;
    float* weights;
  };

  std::int64_t panel_size() const {
    std::int64_t channels = 0, rows = 0;
    for (int n = 0; n < V::kDots; ++n) rows += dots_[n].dim;
    for (int n = 0; n < V::kValues; ++n) channels += values_[n].dim;
    return rows * kPanel + Panels::panel_size(channels);
  }
  std::int64_t spare_size() const {
    std::int64_t rows = 0;
    for (int n = 0; n < V::kDots; ++n) rows += dots_[n].dim;
    for (int n = 0; n < V::kValues; ++n) rows += values_[n].dim;
    return rows * kKeyBlock;
  }
  std::int64_t packed_size() const {
    std::int64_t floats = 0;
    for (int n = 0; n < V::kValues && tuning_.packs_values; ++n) {
      floats += kPackedKeys * round_up(values_[n].dim, kTileKeys);
    }
    return round_up(floats, kLanes);
  }
  std::int64_t buffer_size() const {
    return spare_size() + packed_size() + kPanels * (panel_size() + buckets_size()) +
           (1 + score_blocks()) * kKeyBlock * kPanel +
           (plan_.wanted() ? DistanceSums::size(plan_.stats(), kQueryBlock, shape_.keys, kLanes)
                           : 0);
  }
  /// Blocks of scores beside the weights: none, the scores, their contents too.
  std::int64_t score_blocks() const { return plan_.wanted() ? 1 + plan_.content() : 0; }

  /// head: batch included.
  void run_item(std::int64_t head, std::int64_t query, BucketSums& sums, std::int64_t slot,
                float* buffer) const {
    Item item{};
    item.batch = head / shape_.heads;
    item.head = head % shape_.heads;
    item.kv_head = item.head / (shape_.heads / shape_.kv_heads);
    item.query = query;
    item.variant_head = variant_.head(item.batch, item.head);
    item.spare = buffer;
    buffer += spare_size();
    item.packed = buffer;
    buffer += packed_size();
    for (int p = 0; p < kPanels; ++p) buffer = prepare_panel(item, p, buffer);
    item.weights = buffer;
    const std::int64_t last = std::min(query + kQueryBlock, shape_.queries) - 1;
    const KeyRange keys = visibility_.keys(item.batch, query, last);
    if (plan_.wanted()) prepare_buckets(item, keys, sums, slot, buffer + kKeyBlock * kPanel);
    for (std::int64_t key = keys.begin / kKeyBlock * kKeyBlock; key < keys.end; key += kKeyBlock) {
      const KeyRange block{std::max(key, keys.begin), std::min(key + kKeyBlock, keys.end)};
      load_keys(item, block);
      item.next = {block.end, std::min(block.end + kKeyBlock, keys.end)};
      for (int p = 0; p < kPanels; ++p) attend(item, p, block);
    }
    item.next = {};
    for (int p = 0; p < kPanels; ++p) write_panel(item, p);
    if (plan_.wanted()) item.by_distance.drain(plan_, item.runs[0].sums);
  }

  /// The keys and values of a block.
  void load_keys(Item& item, const KeyRange& block) const {
    float* spare = item.spare;
    const auto load = [&](const InputTensor& tensor, std::int64_t dim) {
      float* to = spare;
      spare += kKeyBlock * dim;
      return float_rows(tensor, item.batch, item.kv_head, block.begin, block.end - block.begin, dim,
                        to);
    };
    for (int n = 0; n < kKeyDots<V>; ++n) item.k[n] = load(dots_[n].k, dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) item.v[n] = load(values_[n].v, values_[n].dim);
    float* to = item.packed;
    for (int n = 0; n < V::kValues && tuning_.packs_values; ++n) {
      pack_strips(item.v[n], block, values_[n].dim, to);
      item.v[n] = {to, kTileKeys, block.begin};
      to += kPackedKeys * round_up(values_[n].dim, kTileKeys);
    }
  }

  /// Strips of kTileKeys channels: those of a key side by side, of the next key behind them. A few
  /// keys more than a block has lie between strips, so that the strips of a key do not share their
  /// cache sets.
  static constexpr std::int64_t kPackedKeys = kKeyBlock + 4;
  static HWY_NOINLINE void pack_strips(const FloatRows& rows, const KeyRange& block,
                                       std::int64_t dim, float* to) {
    const hn::CappedTag<float, kTileKeys> tag;
    for (std::int64_t r = block.begin; r < block.end; ++r) {
      const float* from = rows.at(r);
      float* at = to + (r - block.begin) * kTileKeys;
      for (std::int64_t d = 0; d + kTileKeys <= dim; d += kTileKeys) {
        hn::StoreU(hn::LoadU(tag, from + d), tag, at + d * kPackedKeys);
      }
      for (std::int64_t d = dim / kTileKeys * kTileKeys; d < dim; ++d) {
        at[dim / kTileKeys * kTileKeys * kPackedKeys + d % kTileKeys] = from[d];
      }
    }
  }

  /// Sends for a share of the next block's keys and values, which the tiles of all panels have
  /// together: rows that lie pages apart, or in a head that the second-level cache does not hold,
  /// are foreseen by no prefetcher.
  HWY_INLINE void fetch_ahead(const Item& item, int p, std::int64_t key) const {
    constexpr std::int64_t kTiles = kKeyBlock / kTileKeys, kShares = kPanels * kTiles;
    const std::int64_t share = p * kTiles + key % kKeyBlock / kTileKeys;
    const std::int64_t begin = item.next.begin + share * kKeyBlock / kShares;
    const std::int64_t end =
        std::min(item.next.begin + (share + 1) * kKeyBlock / kShares, item.next.end);
    for (std::int64_t row = begin; row < end; ++row) {
      for (int n = 0; n < kKeyDots<V>; ++n) fetch_row(item, dots_[n].k, dots_[n].dim, row);
      for (int n = 0; n < V::kValues; ++n) fetch_row(item, values_[n].v, values_[n].dim, row);
    }
  }
  HWY_INLINE void fetch_row(const Item& item, const InputTensor& tensor, std::int64_t dim,
                            std::int64_t row) const {
    const auto* at = static_cast<const char*>(row_pointer(tensor, item.batch, item.kv_head, row));
    const std::int64_t bytes = dim * storage_bytes(tensor.storage);
    for (std::int64_t n = 0; n < bytes; n += 64) __builtin_prefetch(at + n, 0, 2);
  }

  float* prepare_panel(Item& item, int p, float* at) const {
    Run& run = item.runs[p];
    run.batch = item.batch;
    run.head = item.head;
    run.row = item.query + p * kPanel;
    run.queries = std::clamp<std::int64_t>(shape_.queries - run.row, 0, kPanel);
    for (int n = 0; n < V::kDots; ++n) {
      const DotStream& dot = dots_[n];
      const FloatRows q =
          float_rows(dot.q, run.batch, run.head, run.row, run.queries, dot.dim, item.spare);
      pack_panel(q.data, q.row, run.queries, dot.dim, n == 0 ? dot.scale * kLog2e : dot.scale, at);
      item.q[p][n] = at;
      item.dim[n] = dot.dim;
      at += dot.dim * kPanel;
    }
    std::int64_t dims[V::kValues];
    for (int n = 0; n < V::kValues; ++n) dims[n] = values_[n].dim;
    return this->start(run.panel, dims, at);
  }

  void prepare_buckets(Item& item, const KeyRange& keys, BucketSums& sums, std::int64_t slot,
                       float* at) const {
    float* scores = at;
    at += score_blocks() * kKeyBlock * kPanel;
    item.by_distance = DistanceSums(plan_.stats(), item.query + shape_.query_offset, kQueryBlock,
                                    keys, kLanes, at + kPanels * buckets_size());
    for (Run& run : item.runs) {
      run.panel.probes.scores = scores;
      run.panel.probes.content = plan_.content() ? scores + kKeyBlock * kPanel : nullptr;
      this->start_buckets(run, item.by_distance, sums, slot, at);
      at += buckets_size();
    }
  }

  /// One panel against the keys of a block that it sees.
  void attend(Item& item, int p, KeyRange block) const {
    Run& run = item.runs[p];
    if (run.queries == 0) return;
    const KeyRange seen = visibility_.keys(item.batch, run.row, run.row + run.queries - 1);
    const std::int64_t key = std::max(block.begin, seen.begin);
    const std::int64_t end = std::min(block.end, seen.end);
    if (end <= key) return;
    if (!visibility_.may_share_document(item.batch, run.row, run.queries, key, end - key)) return;
    Panels::attend(
        run, key, end - key, variant_.masks_some(), item.weights,
        [&](const auto& use) __attribute__((always_inline)) { for_tiles(item, p, key, end, use); },
        [&](const float* weights) { multiply_values(item, p, key, end, weights); });
  }

  /// The weighted values of the keys key .. end - 1 to those of a panel.
  void multiply_values(const Item& item, int p, std::int64_t key, std::int64_t end,
                       const float* weights) const {
    const std::int64_t query = item.runs[p].row + shape_.query_offset;
    const Panel& panel = item.runs[p].panel;
    for (int n = 0; n < V::kValues; ++n) {
      const Product product{item.v[n].at(key),
                            1,
                            item.v[n].row,
                            weights,
                            kPanel,
                            panel.out[n],
                            kPanel,
                            end - key,
                            tuning_.packs_values ? kPackedKeys : 1};
      if (kTriangles && shape_.causal && end > query + kLanes) {
        multiply_triangle(product, panel.out_dim[n], query + kLanes - key);
      } else {
        multiply_panel(product, panel.out_dim[n]);
      }
    }
  }

  /// Calls use(place, scores, first) for the tiles of keys key .. end - 1 against one panel. Scores
  /// of the vectors before `first` are masked, no others.
  template <class Use>
  HWY_INLINE void for_tiles(const Item& item, int p, std::int64_t key, std::int64_t end,
                            const Use& use) const {
    const Run& run = item.runs[p];
    TilePlace place = tile_place(shape_, visibility_, item.batch, run.row, run.queries, key);
    for (; place.key < end; place.key += kTileKeys) {
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, end - place.key));
      if (tuning_.fetches_ahead) fetch_ahead(item, p, place.key);
      const int first = first_vector(place);
      if (first == 0) use_tile(item, p, place, key, use, FirstVector<0>());
      if constexpr (kTriangles) {
        if (first == 1) use_tile(item, p, place, key, use, FirstVector<1>());
        if (first == 2) use_tile(item, p, place, key, use, FirstVector<2>());
      }
    }
  }

  template <class Use, int kFirst>
  HWY_INLINE void use_tile(const Item& item, int p, const TilePlace& place, std::int64_t key,
                           const Use& use, FirstVector<kFirst> first) const {
    Vec t[kTileKeys][kVecs];
    Vec second[kTileKeys][kVecs];
    dot_tiles<kFirst>(variant_, item.variant_head, place, item.q[p], item.k, item.dim, t, second);
    if constexpr (kProbes) {
      float* content = item.runs[p].panel.probes.content;
      if (content) store_tile(t, content + (place.key - key) * kPanel);
    }
    variant_.score(item.variant_head, place, t, second);
    cap_tile(cap_, t);
    for (int r = 0; r < kTileKeys; ++r) {
      for (int v = 0; v < kFirst; ++v) t[r][v] = set(kMaskedScore);
    }
    use(place, t, first);
  }

  /// Sums by distance of a panel whose normaliser is final.
  void finish_buckets(Item& item, Run& run, int p) const {
    run.buckets->finish(run.panel, run.sums);
    for (const auto& block : run.buckets->skipped()) {
      const std::int64_t end = block.key + block.keys;
      load_keys(item, {block.key, end});
      this->attend_again(
          run, block, item.weights, [&](const auto& use) __attribute__((always_inline)) {
            for_tiles(item, p, block.key, end, use);
          });
    }
  }

  void write_panel(Item& item, int p) const {
    Run& run = item.runs[p];
    this->write_rows(run);
    if (plan_.wanted()) finish_buckets(item, run, p);
    this->write_values(run, V::kValues, item.spare);
  }

  float cap_;  ///< of scores, log2 units; 0: none
  V variant_;
  DotStream dots_[2];
  ValueStream values_[2];
  ForwardTuning tuning_;
};

template <HeadVariant V>
void run_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  if (probes || !kCompilesWithoutProbes) {
    ForwardPass<V, true>(inputs, outputs).run();
  } else {
    ForwardPass<V, !kCompilesWithoutProbes>(inputs, outputs).run();
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
