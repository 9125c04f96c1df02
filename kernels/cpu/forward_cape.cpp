// CAPE's forward pass: a work item is one panel of queries with all its heads.
//
// Versions, as multiples of plain's processor time (Zen 4, AVX-512, 2 heads, D 64 and D 128, 8192
// tokens; 12 heads, D 64, 2048 tokens):
//   layer by layer through memory, tables read where they lie       2.43, 2.0; 1.9
//   a panel's references raised together (softmax-inl.h)            2.17, 1.78; 1.85
//   both layers in registers up to 12 heads                         2.1, 1.75; 1.9
//   content scores in a function of their own: inlined, the
//     compiler kept query vectors on the stack                      2.1, 1.7; 1.85
//   values fetched ahead during the network                         2.02, 1.68; 1.79
//   the tables' entries of a block copied side by side              1.82, 1.54; 1.80
// Without gain: 128 keys a block, keys fetched ahead, table rows fetched 32 keys ahead.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forward_cape.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/buckets-inl.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/variants/cape-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <bool kProbes>
class CapeForward {
 public:
  CapeForward(const AttentionInputs& inputs, const ForwardOutputs& outputs)
      : inputs_(inputs),
        outputs_(outputs),
        shape_(inputs.shape),
        visibility_(inputs),
        net_(inputs),
        scorer_(net_),
        plan_(outputs.buckets, inputs.shape, {kPanel, kCapeKeys, kLanes, inputs.shape.heads}),
        kept_(outputs.known_lse ? 0 : plan_.kept_blocks(Buckets::kBlock)) {}

  void run() {
    const std::int64_t panels = (shape_.queries + kPanel - 1) / kPanel;
    BucketSums sums(plan_, shape_.batch * shape_.heads, shape_.heads, panels);
    const int threads = threads_with(buffer_size());
    ThreadBuffers buffers(threads, buffer_size());
    parallel_items(
        shape_.batch * sums.slots(),
        [&](std::int64_t item, int thread) {
          const std::int64_t slot = item / shape_.batch, batch = item % shape_.batch;
          // The longest rows first, so that threads end together.
          for (std::int64_t panel = panels - 1 - slot; panel >= 0; panel -= sums.slots()) {
            run_item(batch, panel * kPanel, sums, slot, buffers.of(thread));
          }
        },
        threads);
    sums.write(outputs_.buckets);
    write_pairs(outputs_.buckets, plan_, shape_, visibility_,
                [](std::int64_t, std::int64_t) { return false; });
  }

 private:
  using Buckets = BucketPanel<kCapeKeys>;

  struct Head {
    const float* q;  ///< packed queries
    Panel panel;
    DistanceSums by_distance;
    double* sums;  ///< where those go
  };

  struct Item {
    std::int64_t batch, row, queries;
    std::vector<Head> heads;
    std::vector<Buckets> buckets;  ///< one a head, where sums by distance are wanted
    float* scores;   ///< (heads, kCapeKeys, kPanel), content, then scores, then weights
    float* scratch;  ///< the network's
    float* spare;    ///< keys or values of a head and block, or the queries of a head
  };

  std::int64_t spare_size() const {
    static_assert(kCapeKeys >= kPanel);
    return kCapeKeys * std::max(shape_.head_dim, value_dim(shape_));
  }

  std::int64_t buffer_size() const {
    const std::int64_t rows =
        shape_.head_dim + value_dim(shape_) + 2 + (kProbes ? probe_rows(outputs_.rows) : 0);
    return spare_size() + net_.heads * (rows * kPanel + kCapeRow + bucket_size()) +
           scorer_.scratch_size() + (plan_.wanted() ? kCapeKeys * kPanel : 0);
  }
  /// Of one head.
  std::int64_t bucket_size() const {
    if (!plan_.wanted()) return 0;
    return Buckets::size(plan_, kept_) +
           DistanceSums::size(plan_.stats(), kPanel, shape_.keys, kLanes) +
           (plan_.content() ? kCapeKeys * kPanel : 0);
  }

  void run_item(std::int64_t batch, std::int64_t row, BucketSums& sums, std::int64_t slot,
                float* buffer) const {
    Item item{};
    item.batch = batch;
    item.row = row;
    item.queries = std::min<std::int64_t>(kPanel, shape_.queries - row);
    item.spare = buffer;
    buffer += spare_size();
    for (std::int64_t h = 0; h < net_.heads; ++h) buffer = prepare_head(item, h, buffer);
    item.scores = buffer;
    item.scratch = buffer + net_.heads * kCapeRow;
    const KeyRange keys = visibility_.keys(batch, row, row + item.queries - 1);
    if (plan_.wanted()) {
      prepare_buckets(item, keys, sums, slot, item.scratch + scorer_.scratch_size());
    }
    for (std::int64_t key = keys.begin; key < keys.end; key += kCapeKeys) {
      attend(item, key, std::min<std::int64_t>(kCapeKeys, keys.end - key));
    }
    for (std::int64_t h = 0; h < net_.heads; ++h) write_rows(item, h);
    if (plan_.wanted()) finish_buckets(item);
    for (std::int64_t h = 0; h < net_.heads; ++h) write_head(item, h);
  }

  void prepare_buckets(Item& item, const KeyRange& keys, BucketSums& sums, std::int64_t slot,
                       float* at) const {
    const std::int64_t query = item.row + shape_.query_offset;
    float* scores = at;
    at += kCapeKeys * kPanel;
    for (std::int64_t h = 0; h < net_.heads; ++h, at += Buckets::size(plan_, kept_)) {
      Head& head = item.heads[static_cast<std::size_t>(h)];
      head.by_distance = DistanceSums(plan_.stats(), query, kPanel, keys, kLanes, at);
      at += DistanceSums::size(plan_.stats(), kPanel, shape_.keys, kLanes);
      head.panel.probes.scores = scores;
      if (plan_.content()) {
        head.panel.probes.content = at;
        at += kCapeKeys * kPanel;
      }
      head.sums = sums.at(item.batch * net_.heads + h, slot);
      const std::int64_t first = (item.batch * net_.heads + h) * shape_.queries + item.row;
      item.buckets.emplace_back(plan_, head.by_distance, query, item.queries,
                                visibility_.has_holes(item.batch),
                                outputs_.known_lse ? outputs_.known_lse + first : nullptr,
                                sink_of(inputs_, h), kept_, head.panel.probes, at);
    }
  }

  float* prepare_head(Item& item, std::int64_t h, float* at) const {
    const FloatRows queries =
        float_rows(inputs_.q, item.batch, h, item.row, item.queries, shape_.head_dim, item.spare);
    pack_panel(queries.data, queries.row, item.queries, shape_.head_dim, inputs_.scale, at);
    const float* q = at;
    at += shape_.head_dim * kPanel;
    Panel panel{};
    panel.reference = at;
    panel.normaliser = at + kPanel;
    at += 2 * kPanel;
    fill_panel(panel.reference, kFirstMaximum);
    fill_panel(panel.normaliser, 0);
    if constexpr (kProbes) at = start_probes(panel.probes, outputs_.rows, at);
    panel.out[0] = at;
    panel.out_dim[0] = value_dim(shape_);
    std::fill(at, at + panel.out_dim[0] * kPanel, 0.0f);
    item.heads.push_back({q, panel, {}, nullptr});
    return at + panel.out_dim[0] * kPanel;
  }

  /// Keys key .. key + keys - 1 of the key/value head that head h reads.
  FloatRows rows_of(const Item& item, const InputTensor& tensor, std::int64_t dim, std::int64_t h,
                    std::int64_t key, std::int64_t keys) const {
    return float_rows(tensor, item.batch, kv_head(h), key, keys, dim, item.spare);
  }
  std::int64_t kv_head(std::int64_t h) const { return h / (shape_.heads / shape_.kv_heads); }

  TilePlace place_of(const Item& item, std::int64_t key) const {
    return tile_place(shape_, visibility_, item.batch, item.row, item.queries, key);
  }

  void attend(Item& item, std::int64_t key, std::int64_t keys) const {
    if (!visibility_.may_share_document(item.batch, item.row, item.queries, key, keys)) return;
    score(item, key, keys);
    for (std::int64_t h = 0; h < net_.heads; ++h) average_head(item, key, keys, h);
  }

  /// Scores (natural units) of all heads, not masked.
  void score(const Item& item, std::int64_t key, std::int64_t keys) const {
    const TilePlace place = place_of(item, key);
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      const Head& head = item.heads[static_cast<std::size_t>(h)];
      float* scores = item.scores + h * kCapeRow;
      cape_content(place, keys, head.q, rows_of(item, inputs_.k, shape_.head_dim, h, key, keys),
                   shape_.head_dim, scores);
      if (kProbes && head.panel.probes.content) {
        for (std::int64_t n = 0; n < keys * kPanel; n += kLanes) {
          store(hn::Mul(load(scores + n), set(kLog2e)), head.panel.probes.content + n);
        }
      }
    }
    // The values are needed next; beside the network they arrive for nothing.
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      const std::int64_t bytes = value_dim(shape_) * storage_bytes(inputs_.v.storage);
      for (std::int64_t r = key; r < key + keys; ++r) {
        const auto* row =
            static_cast<const char*>(row_pointer(inputs_.v, item.batch, kv_head(h), r));
        for (std::int64_t n = 0; n < bytes; n += 64) __builtin_prefetch(row + n, 0, 2);
      }
    }
    scorer_.score(place.query, key, keys, item.scores, item.scratch);
  }

  /// Calls use(place, first row, scores in log2 units) for the tiles of one head's block.
  template <class Use>
  HWY_INLINE void for_tiles(const Item& item, std::int64_t key, std::int64_t keys, std::int64_t h,
                            const Use& use) const {
    const float* block = item.scores + h * kCapeRow;
    TilePlace place = place_of(item, key);
    for (std::int64_t n = 0; n < keys; n += kTileKeys) {
      place.key = key + n;
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys - n));
      Vec t[kTileKeys][kVecs];
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          t[r][v] = hn::Mul(load(block + (n + r) * kPanel + v * kLanes), set(kLog2e));
        }
      }
      cap_tile(inputs_.soft_cap * kLog2e, t);
      use(place, n, t);
    }
  }

  /// Scores of one head to weights, and the values they average.
  void average_head(Item& item, std::int64_t key, std::int64_t keys, std::int64_t h) const {
    const auto index = static_cast<std::size_t>(h);
    Panel& panel = item.heads[index].panel;
    Buckets* buckets = kProbes && plan_.wanted() ? &item.buckets[index] : nullptr;
    float* weights = item.scores + h * kCapeRow;
    if (buckets) weights = buckets->open(panel.probes, key, keys, false, weights);
    bool masked = false;
    for_tiles(
        item, key, keys, h,
        [&](const TilePlace& place, std::int64_t row, Vec(&t)[kTileKeys][kVecs])
            __attribute__((always_inline)) {
              if (is_masked(place)) {
                masked = true;
                softmax_tile<kProbes, true>(place, t, weights, row, panel);
              } else {
                softmax_tile<kProbes, false>(place, t, weights, row, panel);
              }
            });
    const FloatRows v = rows_of(item, inputs_.v, panel.out_dim[0], h, key, keys);
    multiply_panel({v.data, 1, v.row, weights, kPanel, panel.out[0], kPanel, keys},
                   panel.out_dim[0]);
    if (buckets) buckets->close(panel, masked, item.heads[index].sums);
  }

  /// Sums by distance, now that all normalisers are final. All heads of a panel skipped the same
  /// blocks.
  void finish_buckets(Item& item) const {
    for (std::size_t h = 0; h < item.heads.size(); ++h) {
      item.buckets[h].finish(item.heads[h].panel, item.heads[h].sums);
    }
    for (const auto& block : item.buckets[0].skipped()) {
      score(item, block.key, block.keys);
      for (std::int64_t h = 0; h < net_.heads; ++h) {
        Head& head = item.heads[static_cast<std::size_t>(h)];
        float* weights = item.scores + h * kCapeRow;
        for_tiles(
            item, block.key, block.keys, h,
            [&](const TilePlace& place, std::int64_t row, Vec(&t)[kTileKeys][kVecs])
                __attribute__((always_inline)) {
                  if (is_masked(place)) mask_tile(place, t);
                  weigh_tile(t, head.panel.reference, weights + row * kPanel);
                });
        item.buckets[static_cast<std::size_t>(h)].add_again(block, weights, head.panel);
      }
    }
    for (const Head& head : item.heads) head.by_distance.drain(plan_, head.sums);
  }

  /// What rows end with but their values; then the head's sink joins the normalisers.
  void write_rows(Item& item, std::int64_t h) const {
    Panel& panel = item.heads[static_cast<std::size_t>(h)].panel;
    const std::int64_t first = (item.batch * shape_.heads + h) * shape_.queries + item.row;
    const float* sink = sink_of(inputs_, h);
    write_lse(panel, item.queries, first, outputs_.lse);
    if constexpr (kProbes) write_probes(panel, item.queries, first, sink, outputs_.rows);
    add_sink(panel, item.queries, sink);
  }

  void write_head(const Item& item, std::int64_t h) const {
    const Panel& panel = item.heads[static_cast<std::size_t>(h)].panel;
    float factor[kPanel];
    for (std::int64_t n = 0; n < item.queries; ++n) {
      factor[n] = panel.normaliser[n] == 0 ? 0 : 1 / panel.normaliser[n];
    }
    if (inputs_.gate.data) {
      unpack_gated(panel.out[0], factor, item.queries, panel.out_dim[0], inputs_, outputs_,
                   item.batch, h, item.row, item.spare);
      return;
    }
    unpack_panel(panel.out[0], factor, item.queries, panel.out_dim[0], outputs_.out, item.batch, h,
                 item.row);
  }

  const AttentionInputs& inputs_;
  const ForwardOutputs& outputs_;
  const AttentionShape& shape_;
  Visibility visibility_;
  CapeNetwork net_;
  CapeScorer scorer_;
  BucketPlan plan_;
  std::int64_t kept_;  ///< blocks of weights a head may keep
};

void forward_cape(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  if (probes || !kCompilesWithoutProbes) {
    CapeForward<true>(inputs, outputs).run();
  } else {
    CapeForward<!kCompilesWithoutProbes>(inputs, outputs).run();
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void forward_cape(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  PHASESCOPE_SELECT_TARGET(forward_cape)(inputs, outputs, probes);
}

}  // namespace phasescope::kernels
#endif
