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

#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/cpu/buckets-inl.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/softmax-inl.h"
#include "kernels/cpu/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <HeadVariant V, bool kProbes>
class ForwardPass {
 public:
  ForwardPass(const AttentionInputs& inputs, const ForwardOutputs& outputs)
      : inputs_(inputs),
        outputs_(outputs),
        shape_(inputs.shape),
        visibility_(inputs),
        cap_(inputs.soft_cap * kLog2e),
        variant_(inputs),
        plan_(outputs.buckets, inputs.shape, {kPanel, kKeyBlock, kLanes, kPanels}),
        kept_(outputs.known_lse ? 0 : plan_.kept_blocks(Buckets::kBlock)) {
    for (int n = 0; n < V::kDots; ++n) dots_[n] = variant_.dot(n);
    for (int n = 0; n < V::kValues; ++n) values_[n] = variant_.value(n);
    // 16-bit values are copied out of their rows as they become float32.
    tuning_ = forward_tuning(inputs.v.storage == Storage::float32 ? 4 * inputs.v.row : 0);
  }

  void run() {
    const std::int64_t blocks = (shape_.queries + kQueryBlock - 1) / kQueryBlock;
    const std::int64_t heads = shape_.batch * shape_.heads;
    BucketSums sums(plan_, heads, 1, blocks);
    const int threads = threads_with(buffer_size());
    ThreadBuffers buffers(threads, buffer_size());
    parallel_items(
        heads * sums.slots(),
        [&](std::int64_t item, int thread) {
          const std::int64_t slot = item / heads, head = item % heads;
          // The longest rows first, so that threads end together.
          for (std::int64_t block = blocks - 1 - slot; block >= 0; block -= sums.slots()) {
            run_item(head, block * kQueryBlock, plan_.wanted() ? sums.at(head, slot) : nullptr,
                     buffers.of(thread));
          }
        },
        threads);
    sums.write(outputs_.buckets);
    write_pairs(
        outputs_.buckets, plan_, shape_, visibility_,
        [&](std::int64_t head, std::int64_t lambda) { return variant_.masks(head, lambda); });
  }

 private:
  using Buckets = BucketPanel<kKeyBlock>;

  struct Item {
    std::int64_t batch, head, kv_head, query;
    typename V::Head variant_head;
    const float* q[kPanels][2];
    FloatRows k[2], v[2];  ///< of the block of keys
    KeyRange next;         ///< the block of keys after that one
    float* packed;         ///< packed_size(): values of a block, where they are packed
    std::int64_t dim[2];
    float* spare;  ///< a block of keys and values, or the queries of a panel
    Panel panels[kPanels];
    std::vector<Buckets> buckets;  ///< one a panel, where sums by distance are wanted
    DistanceSums by_distance;
    double* sums;  ///< theirs
    float* weights;
  };

  std::int64_t panel_size() const {
    std::int64_t rows = 2 + (kProbes ? probe_rows(outputs_.rows) : 0);
    for (int n = 0; n < V::kDots; ++n) rows += dots_[n].dim;
    for (int n = 0; n < V::kValues; ++n) rows += values_[n].dim;
    return rows * kPanel;
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
    return spare_size() + packed_size() + kPanels * (panel_size() + Buckets::size(plan_, kept_)) +
           (1 + score_blocks()) * kKeyBlock * kPanel +
           (plan_.wanted() ? DistanceSums::size(plan_.stats(), kQueryBlock, shape_.keys, kLanes)
                           : 0);
  }
  /// Blocks of scores beside the weights: none, the scores, their contents too.
  std::int64_t score_blocks() const { return plan_.wanted() ? 1 + plan_.content() : 0; }

  /// head: batch included.
  void run_item(std::int64_t head, std::int64_t query, double* sums, float* buffer) const {
    Item item{};
    item.batch = head / shape_.heads;
    item.head = head % shape_.heads;
    item.kv_head = item.head / (shape_.heads / shape_.kv_heads);
    item.query = query;
    item.variant_head = variant_.head(item.batch, item.head);
    item.sums = sums;
    item.spare = buffer;
    buffer += spare_size();
    item.packed = buffer;
    buffer += packed_size();
    for (int p = 0; p < kPanels; ++p) buffer = prepare_panel(item, p, buffer);
    item.weights = buffer;
    const std::int64_t last = std::min(query + kQueryBlock, shape_.queries) - 1;
    const KeyRange keys = visibility_.keys(item.batch, query, last);
    if (plan_.wanted()) prepare_buckets(item, keys, buffer + kKeyBlock * kPanel);
    for (std::int64_t key = keys.begin / kKeyBlock * kKeyBlock; key < keys.end; key += kKeyBlock) {
      const KeyRange block{std::max(key, keys.begin), std::min(key + kKeyBlock, keys.end)};
      load_keys(item, block);
      item.next = {block.end, std::min(block.end + kKeyBlock, keys.end)};
      for (int p = 0; p < kPanels; ++p) attend(item, p, block);
    }
    item.next = {};
    for (int p = 0; p < kPanels; ++p) write_panel(item, p);
    if (plan_.wanted()) item.by_distance.drain(plan_, item.sums);
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
    for (int n = 0; n < V::kDots; ++n) item.k[n] = load(dots_[n].k, dots_[n].dim);
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
      for (int n = 0; n < V::kDots; ++n) fetch_row(item, dots_[n].k, dots_[n].dim, row);
      for (int n = 0; n < V::kValues; ++n) fetch_row(item, values_[n].v, values_[n].dim, row);
    }
  }
  HWY_INLINE void fetch_row(const Item& item, const InputTensor& tensor, std::int64_t dim,
                            std::int64_t row) const {
    const auto* at = static_cast<const char*>(row_pointer(tensor, item.batch, item.kv_head, row));
    const std::int64_t bytes = dim * storage_bytes(tensor.storage);
    for (std::int64_t n = 0; n < bytes; n += 64) __builtin_prefetch(at + n, 0, 2);
  }

  std::int64_t rows_of(const Item& item, int p) const {
    return std::clamp<std::int64_t>(shape_.queries - item.query - p * kPanel, 0, kPanel);
  }

  float* prepare_panel(Item& item, int p, float* at) const {
    const std::int64_t row = item.query + p * kPanel;
    for (int n = 0; n < V::kDots; ++n) {
      const DotStream& dot = dots_[n];
      const FloatRows q =
          float_rows(dot.q, item.batch, item.head, row, rows_of(item, p), dot.dim, item.spare);
      pack_panel(q.data, q.row, rows_of(item, p), dot.dim, n == 0 ? dot.scale * kLog2e : dot.scale,
                 at);
      item.q[p][n] = at;
      item.dim[n] = dot.dim;
      at += dot.dim * kPanel;
    }
    Panel& panel = item.panels[p];
    panel.reference = at;
    panel.normaliser = at + kPanel;
    at += 2 * kPanel;
    if constexpr (kProbes) at = start_probes(panel.probes, outputs_.rows, at);
    fill_panel(panel.reference, kFirstMaximum);
    fill_panel(panel.normaliser, 0);
    for (int n = 0; n < V::kValues; ++n) {
      panel.out[n] = at;
      panel.out_dim[n] = values_[n].dim;
      std::fill(at, at + values_[n].dim * kPanel, 0.0f);
      at += values_[n].dim * kPanel;
    }
    return at;
  }

  void prepare_buckets(Item& item, const KeyRange& keys, float* at) const {
    float* scores = at;
    at += score_blocks() * kKeyBlock * kPanel;
    float* by_distance = at + kPanels * Buckets::size(plan_, kept_);
    item.by_distance = DistanceSums(plan_.stats(), item.query + shape_.query_offset, kQueryBlock,
                                    keys, kLanes, by_distance);
    for (int p = 0; p < kPanels; ++p, at += Buckets::size(plan_, kept_)) {
      PanelProbes& probes = item.panels[p].probes;
      probes.scores = scores;
      probes.content = plan_.content() ? scores + kKeyBlock * kPanel : nullptr;
      const std::int64_t row = item.query + p * kPanel;
      const std::int64_t first = (item.batch * shape_.heads + item.head) * shape_.queries + row;
      item.buckets.emplace_back(plan_, item.by_distance, row + shape_.query_offset,
                                rows_of(item, p), visibility_.has_holes(item.batch),
                                outputs_.known_lse ? outputs_.known_lse + first : nullptr,
                                sink_of(inputs_, item.head), kept_, probes, at);
    }
  }

  /// One panel against the keys of a block that it sees: their weights, then the values they
  /// average.
  void attend(Item& item, int p, KeyRange block) const {
    const std::int64_t queries = rows_of(item, p);
    if (queries == 0) return;
    const std::int64_t row = item.query + p * kPanel;
    const KeyRange seen = visibility_.keys(item.batch, row, row + queries - 1);
    const std::int64_t key = std::max(block.begin, seen.begin);
    const std::int64_t end = std::min(block.end, seen.end);
    if (end <= key) return;
    if (!visibility_.may_share_document(item.batch, row, queries, key, end - key)) return;
    Panel& panel = item.panels[p];
    Buckets* buckets =
        kProbes && plan_.wanted() ? &item.buckets[static_cast<std::size_t>(p)] : nullptr;
    bool masked = variant_.masks_some();
    float* weights = item.weights;
    if (buckets) weights = buckets->open(panel.probes, key, end - key, masked, weights);
    for_tiles(
        item, p, key, end,
        [&]<int kFirst>(const TilePlace& place, Vec(&t)[kTileKeys][kVecs], First<kFirst>)
            __attribute__((always_inline)) {
              if (kFirst > 0 || is_masked(place)) {
                masked = true;
                softmax_tile<kProbes, true, kFirst>(place, t, weights, place.key - key, panel);
              } else {
                softmax_tile<kProbes, false>(place, t, weights, place.key - key, panel);
              }
            });
    multiply_values(item, p, key, end, weights);
    if (buckets) buckets->close(panel, masked, item.sums);
  }

  /// The weighted values of the keys key .. end - 1 to those of a panel.
  void multiply_values(const Item& item, int p, std::int64_t key, std::int64_t end,
                       const float* weights) const {
    const std::int64_t query = item.query + p * kPanel + shape_.query_offset;
    const Panel& panel = item.panels[p];
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

  /// How many vectors of a panel's queries see none of a tile's keys.
  template <int kFirst>
  using First = std::integral_constant<int, kFirst>;

  /// Calls use(place, scores, first) for the tiles of keys key .. end - 1 against one panel. Scores
  /// of the vectors before `first` are masked, no others.
  template <class Use>
  HWY_INLINE void for_tiles(const Item& item, int p, std::int64_t key, std::int64_t end,
                            const Use& use) const {
    TilePlace place =
        tile_place(shape_, visibility_, item.batch, item.query + p * kPanel, rows_of(item, p), key);
    for (; place.key < end; place.key += kTileKeys) {
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, end - place.key));
      if (tuning_.fetches_ahead) fetch_ahead(item, p, place.key);
      const int first = first_vector(place);
      if (first == 0) use_tile(item, p, place, key, use, First<0>());
      if constexpr (kTriangles) {
        if (first == 1) use_tile(item, p, place, key, use, First<1>());
        if (first == 2) use_tile(item, p, place, key, use, First<2>());
      }
    }
  }

  template <class Use, int kFirst>
  HWY_INLINE void use_tile(const Item& item, int p, const TilePlace& place, std::int64_t key,
                           const Use& use, First<kFirst> first) const {
    Vec t[kTileKeys][kVecs];
    Vec second[kTileKeys][kVecs];
    dot_tiles<V, kFirst>(place, item.q[p], item.k, item.dim, t, second);
    if constexpr (kProbes) {
      float* content = item.panels[p].probes.content;
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
  void finish_buckets(Item& item, int p) const {
    Buckets& buckets = item.buckets[static_cast<std::size_t>(p)];
    const Panel& panel = item.panels[p];
    buckets.finish(panel, item.sums);
    for (const auto& block : buckets.skipped()) {
      load_keys(item, {block.key, block.key + block.keys});
      for_tiles(
          item, p, block.key, block.key + block.keys,
          [&](const TilePlace& place, Vec(&t)[kTileKeys][kVecs], auto)
              __attribute__((always_inline)) {
                if (is_masked(place)) mask_tile(place, t);
                weigh_tile(t, panel.reference, item.weights + (place.key - block.key) * kPanel);
              });
      buckets.add_again(block, item.weights, panel);
    }
  }

  void write_panel(Item& item, int p) const {
    const std::int64_t queries = rows_of(item, p);
    const std::int64_t row = item.query + p * kPanel;
    const std::int64_t first = (item.batch * shape_.heads + item.head) * shape_.queries + row;
    const float* sink = sink_of(inputs_, item.head);
    Panel& panel = item.panels[p];
    write_lse(panel, queries, first, outputs_.lse);
    if constexpr (kProbes) write_probes(panel, queries, first, sink, outputs_.rows);
    add_sink(panel, queries, sink);
    if (plan_.wanted()) finish_buckets(item, p);
    float factor[kPanel];
    for (std::int64_t n = 0; n < queries; ++n) {
      const float l = panel.normaliser[n];
      factor[n] = l == 0 ? 0 : 1 / l;
    }
    const OutputTensor outs[2] = {outputs_.out, outputs_.out_state};
    for (int n = 0; n < V::kValues && queries > 0; ++n) {
      if (n == 0 && inputs_.gate.data) {
        unpack_gated(panel.out[0], factor, queries, panel.out_dim[0], inputs_, outputs_, item.batch,
                     item.head, row, item.spare);
        continue;
      }
      unpack_panel(panel.out[n], factor, queries, panel.out_dim[n], outs[n], item.batch, item.head,
                   row);
    }
  }

  const AttentionInputs& inputs_;
  const ForwardOutputs& outputs_;
  const AttentionShape& shape_;
  Visibility visibility_;
  float cap_;  ///< of scores, log2 units; 0: none
  V variant_;
  BucketPlan plan_;
  std::int64_t kept_;  ///< blocks of weights a panel may keep
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
