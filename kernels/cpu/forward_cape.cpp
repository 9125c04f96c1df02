// CAPE's forward pass: a work item is one panel of queries with all its heads, whose scores come
// out of the network together; the rest is the engine's (forward_panels-inl.h).
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
#include <vector>

#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/forward_panels-inl.h"
#include "kernels/variants/cape-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <bool kProbes>
class CapeForward : private ForwardPanels<kProbes, kCapeKeys> {
  using Panels = ForwardPanels<kProbes, kCapeKeys>;
  using Panels::buckets_size;
  using Panels::inputs_;
  using Panels::plan_;
  using Panels::shape_;
  using Panels::visibility_;
  using typename Panels::Run;

 public:
  CapeForward(const AttentionInputs& inputs, const ForwardOutputs& outputs)
      : Panels(inputs, outputs, inputs.shape.heads), net_(inputs), scorer_(net_) {}

  void run() {
    this->run_items(
        net_.heads, kPanel, buffer_size(),
        [&](std::int64_t batch, std::int64_t row, BucketSums& sums, std::int64_t slot,
            float* buffer) { run_item(batch, row, sums, slot, buffer); },
        [](std::int64_t, std::int64_t) { return false; });
  }

 private:
  struct Head {
    Run run;
    const float* q;  ///< packed queries
    DistanceSums by_distance;
  };

  struct Item {
    std::int64_t batch, row, queries;
    std::vector<Head> heads;
    float* scores;   ///< (heads, kCapeKeys, kPanel), content, then scores, then weights
    float* scratch;  ///< the network's
    float* spare;    ///< keys or values of a head and block, or the queries of a head
  };

  std::int64_t spare_size() const {
    static_assert(kCapeKeys >= kPanel);
    return kCapeKeys * std::max(shape_.head_dim, value_dim(shape_));
  }

  std::int64_t buffer_size() const {
    return spare_size() +
           net_.heads * (shape_.head_dim * kPanel + this->panel_size(value_dim(shape_)) + kCapeRow +
                         bucket_size()) +
           scorer_.scratch_size() + (plan_.wanted() ? kCapeKeys * kPanel : 0);
  }
  /// Of one head.
  std::int64_t bucket_size() const {
    if (!plan_.wanted()) return 0;
    return buckets_size() + DistanceSums::size(plan_.stats(), kPanel, shape_.keys, kLanes) +
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
    item.heads.resize(static_cast<std::size_t>(net_.heads));
    for (Head& head : item.heads) buffer = prepare_head(item, head, buffer);
    item.scores = buffer;
    item.scratch = buffer + net_.heads * kCapeRow;
    const KeyRange keys = visibility_.keys(batch, row, row + item.queries - 1);
    if (plan_.wanted()) {
      prepare_buckets(item, keys, sums, slot, item.scratch + scorer_.scratch_size());
    }
    for (std::int64_t key = keys.begin; key < keys.end; key += kCapeKeys) {
      attend(item, key, std::min<std::int64_t>(kCapeKeys, keys.end - key));
    }
    for (Head& head : item.heads) this->write_rows(head.run);
    if (plan_.wanted()) finish_buckets(item);
    for (const Head& head : item.heads) this->write_values(head.run, 1, item.spare);
  }

  void prepare_buckets(Item& item, const KeyRange& keys, BucketSums& sums, std::int64_t slot,
                       float* at) const {
    float* scores = at;
    at += kCapeKeys * kPanel;
    for (Head& head : item.heads) {
      head.by_distance =
          DistanceSums(plan_.stats(), item.row + shape_.query_offset, kPanel, keys, kLanes, at);
      at += DistanceSums::size(plan_.stats(), kPanel, shape_.keys, kLanes);
      head.run.panel.probes.scores = scores;
      if (plan_.content()) {
        head.run.panel.probes.content = at;
        at += kCapeKeys * kPanel;
      }
      this->start_buckets(head.run, head.by_distance, sums, slot, at);
      at += buckets_size();
    }
  }

  float* prepare_head(const Item& item, Head& head, float* at) const {
    Run& run = head.run;
    run.batch = item.batch;
    run.head = &head - item.heads.data();
    run.row = item.row;
    run.queries = item.queries;
    const FloatRows queries = float_rows(inputs_.q, run.batch, run.head, run.row, run.queries,
                                         shape_.head_dim, item.spare);
    pack_panel(queries.data, queries.row, run.queries, shape_.head_dim, inputs_.scale, at);
    head.q = at;
    const std::int64_t dims[] = {value_dim(shape_)};
    return this->start(run.panel, dims, at + shape_.head_dim * kPanel);
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
    for (Head& head : item.heads) {
      const std::int64_t h = head.run.head;
      Panels::attend(
          head.run, key, keys, false, item.scores + h * kCapeRow,
          [&](const auto& use)
              __attribute__((always_inline)) { for_tiles(item, key, keys, h, use); },
          [&](const float* weights) { multiply_values(item, head.run, key, keys, weights); });
    }
  }

  /// Scores (natural units) of all heads, not masked.
  void score(const Item& item, std::int64_t key, std::int64_t keys) const {
    const TilePlace place = place_of(item, key);
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      const Head& head = item.heads[static_cast<std::size_t>(h)];
      float* scores = item.scores + h * kCapeRow;
      cape_content(place, keys, head.q, rows_of(item, inputs_.k, shape_.head_dim, h, key, keys),
                   shape_.head_dim, scores);
      if (kProbes && head.run.panel.probes.content) {
        for (std::int64_t n = 0; n < keys * kPanel; n += kLanes) {
          store(hn::Mul(load(scores + n), set(kLog2e)), head.run.panel.probes.content + n);
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

  /// Calls use(place, scores in log2 units, first) for the tiles of one head's block.
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
      use(place, t, FirstVector<0>());
    }
  }

  void multiply_values(const Item& item, const Run& run, std::int64_t key, std::int64_t keys,
                       const float* weights) const {
    const Panel& panel = run.panel;
    const FloatRows v = rows_of(item, inputs_.v, panel.out_dim[0], run.head, key, keys);
    multiply_panel({v.data, 1, v.row, weights, kPanel, panel.out[0], kPanel, keys},
                   panel.out_dim[0]);
  }

  /// Sums by distance, now that all normalisers are final. All heads of a panel skipped the same
  /// blocks.
  void finish_buckets(Item& item) const {
    for (Head& head : item.heads) head.run.buckets->finish(head.run.panel, head.run.sums);
    for (const auto& block : item.heads[0].run.buckets->skipped()) {
      score(item, block.key, block.keys);
      for (Head& head : item.heads) {
        const std::int64_t h = head.run.head;
        this->attend_again(
            head.run, block,
            item.scores + h * kCapeRow, [&](const auto& use) __attribute__((always_inline)) {
              for_tiles(item, block.key, block.keys, h, use);
            });
      }
    }
    for (const Head& head : item.heads) head.by_distance.drain(plan_, head.run.sums);
  }

  CapeNetwork net_;
  CapeScorer scorer_;
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
