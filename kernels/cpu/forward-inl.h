// The forward pass of variants whose heads stand alone. A work item is 192 queries of one head; it
// walks the keys in blocks of 128, each block panel by panel: scores, weights, weighted values.
#if defined(PHASESCOPE_CPU_FORWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_FORWARD_INL_H
#undef PHASESCOPE_CPU_FORWARD_INL_H
#else
#define PHASESCOPE_CPU_FORWARD_INL_H
#endif

#include <cmath>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <HeadVariant V, bool kProbes>
class ForwardPass {
 public:
  ForwardPass(const AttentionInputs& inputs, const ForwardOutputs& outputs)
      : inputs_(inputs), outputs_(outputs), shape_(inputs.shape), variant_(inputs) {
    for (int n = 0; n < V::kDots; ++n) dots_[n] = variant_.dot(n);
    for (int n = 0; n < V::kValues; ++n) values_[n] = variant_.value(n);
  }

  void run() {
    const std::int64_t blocks = (shape_.queries + kQueryBlock - 1) / kQueryBlock;
    std::vector<FloatBuffer> buffers(static_cast<std::size_t>(parallel_threads()));
    for (FloatBuffer& buffer : buffers) buffer = FloatBuffer(buffer_size());
    parallel_items(shape_.batch * shape_.heads * blocks, [&](std::int64_t item, int thread) {
      // The longest rows first, so that threads end together.
      const std::int64_t block = blocks - 1 - item / (shape_.batch * shape_.heads);
      const std::int64_t rest = item % (shape_.batch * shape_.heads);
      run_item(rest / shape_.heads, rest % shape_.heads, block * kQueryBlock,
               buffers[static_cast<std::size_t>(thread)].data());
    });
  }

 private:
  struct Item {
    std::int64_t batch, head, kv_head, query;
    typename V::Head variant_head;
    const float* q[kPanels][2];
    InputTensor k[2];
    InputTensor v[2];
    std::int64_t dim[2];
    Panel panels[kPanels];
    float* weights;
  };

  std::int64_t panel_size() const {
    std::int64_t rows = 2 + (kProbes ? kProbeRows : 0);
    for (int n = 0; n < V::kDots; ++n) rows += dots_[n].dim;
    for (int n = 0; n < V::kValues; ++n) rows += values_[n].dim;
    return rows * kPanel;
  }
  std::int64_t buffer_size() const { return kPanels * panel_size() + kKeyBlock * kPanel; }

  void run_item(std::int64_t batch, std::int64_t head, std::int64_t query, float* buffer) const {
    Item item{};
    item.batch = batch;
    item.head = head;
    item.kv_head = head / (shape_.heads / shape_.kv_heads);
    item.query = query;
    item.variant_head = variant_.head(batch, head);
    prepare_streams(item);
    for (int p = 0; p < kPanels; ++p) buffer = prepare_panel(item, p, buffer);
    item.weights = buffer;
    const std::int64_t last = std::min(query + kQueryBlock, shape_.queries) - 1;
    const std::int64_t keys = visible_keys(shape_, last);
    for (std::int64_t key = 0; key < keys; key += kKeyBlock) {
      for (int p = 0; p < kPanels; ++p) attend(item, p, key);
    }
    for (int p = 0; p < kPanels; ++p) write_panel(item, p);
  }

  void prepare_streams(Item& item) const {
    for (int n = 0; n < V::kDots; ++n) {
      item.k[n] = dots_[n].k;
      item.k[n].data = row_pointer(dots_[n].k, item.batch, item.kv_head, 0);
      item.dim[n] = dots_[n].dim;
    }
    for (int n = 0; n < V::kValues; ++n) {
      item.v[n] = values_[n].v;
      item.v[n].data = row_pointer(values_[n].v, item.batch, item.kv_head, 0);
    }
  }

  std::int64_t rows_of(const Item& item, int p) const {
    return std::clamp<std::int64_t>(shape_.queries - item.query - p * kPanel, 0, kPanel);
  }

  float* prepare_panel(Item& item, int p, float* at) const {
    const std::int64_t row = item.query + p * kPanel;
    for (int n = 0; n < V::kDots; ++n) {
      const DotStream& dot = dots_[n];
      pack_panel(row_pointer(dot.q, item.batch, item.head, row), dot.q.row, rows_of(item, p),
                 dot.dim, n == 0 ? dot.scale * kLog2e : dot.scale, at);
      item.q[p][n] = at;
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

  /// One panel against keys key .. key + 127: weights of the block, then the values they average.
  void attend(Item& item, int p, std::int64_t key) const {
    const std::int64_t queries = rows_of(item, p);
    if (queries == 0) return;
    const std::int64_t row = item.query + p * kPanel;
    const std::int64_t end =
        std::min(key + kKeyBlock, visible_keys(shape_, row + queries - 1));
    TilePlace place{row + shape_.query_offset, key, 0, static_cast<int>(queries), shape_.causal};
    for (; place.key < end; place.key += kTileKeys) {
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, end - place.key));
      weigh_tile(item, p, place, place.key - key);
    }
    for (int n = 0; n < V::kValues && end > key; ++n) {
      const Panel& panel = item.panels[p];
      multiply_panel({item.v[n].data + key * item.v[n].row, 1, item.v[n].row, item.weights, kPanel,
                      panel.out[n], kPanel, end - key},
                     panel.out_dim[n]);
    }
  }

  HWY_INLINE void weigh_tile(Item& item, int p, const TilePlace& place, std::int64_t row) const {
    Vec t[kTileKeys][kVecs];
    Vec second[kTileKeys][kVecs];
    dot_tiles<V>(place, item.q[p], item.k, item.dim, t, second);
    variant_.score(item.variant_head, place, t, second);
    if (is_masked(place)) {
      softmax_tile<kProbes, true>(place, t, item.weights, row, item.panels[p]);
    } else {
      softmax_tile<kProbes, false>(place, t, item.weights, row, item.panels[p]);
    }
  }

  void write_panel(const Item& item, int p) const {
    const std::int64_t queries = rows_of(item, p);
    const std::int64_t row = item.query + p * kPanel;
    const Panel& panel = item.panels[p];
    float factor[kPanel];
    for (std::int64_t n = 0; n < queries; ++n) {
      const float l = panel.normaliser[n];
      factor[n] = l == 0 ? 0 : 1 / l;
    }
    const OutputTensor outs[2] = {outputs_.out, outputs_.out_state};
    for (int n = 0; n < V::kValues && queries > 0; ++n) {
      unpack_panel(panel.out[n], factor, queries, panel.out_dim[n],
                   row_pointer(outs[n], item.batch, item.head, row), outs[n].row);
    }
    const std::int64_t first = (item.batch * shape_.heads + item.head) * shape_.queries + row;
    write_lse(panel, queries, first, outputs_.lse);
    if constexpr (kProbes) write_probes(panel, queries, first, outputs_.rows);
  }

  const AttentionInputs& inputs_;
  const ForwardOutputs& outputs_;
  const AttentionShape& shape_;
  V variant_;
  DotStream dots_[2];
  ValueStream values_[2];
};

template <HeadVariant V>
void run_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  if (probes) {
    ForwardPass<V, true>(inputs, outputs).run();
  } else {
    ForwardPass<V, false>(inputs, outputs).run();
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
