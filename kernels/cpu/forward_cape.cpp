// CAPE's forward pass: a work item is one panel of queries with all its heads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forward_cape.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/variants/cape-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <bool kProbes>
class CapeForward {
 public:
  CapeForward(const AttentionInputs& inputs, const ForwardOutputs& outputs)
      : inputs_(inputs), outputs_(outputs), shape_(inputs.shape), net_(inputs) {}

  void run() {
    const std::int64_t panels = (shape_.queries + kPanel - 1) / kPanel;
    std::vector<FloatBuffer> buffers(static_cast<std::size_t>(parallel_threads()));
    for (FloatBuffer& buffer : buffers) buffer = FloatBuffer(buffer_size());
    parallel_items(shape_.batch * panels, [&](std::int64_t item, int thread) {
      const std::int64_t panel = panels - 1 - item / shape_.batch;
      run_item(item % shape_.batch, panel * kPanel,
               buffers[static_cast<std::size_t>(thread)].data());
    });
  }

 private:
  struct Item {
    std::int64_t batch, row, queries;
    std::vector<Panel> panels;      ///< one a head
    std::vector<const float*> q;    ///< packed queries, one a head
    float* scores;                  ///< (heads, kCapeKeys, kPanel), content, then scores, then weights
    float* hidden;                  ///< (hidden, kCapeKeys, kPanel)
  };

  std::int64_t buffer_size() const {
    const std::int64_t rows =
        shape_.head_dim + value_dim(shape_) + 2 + (kProbes ? kProbeRows : 0);
    return net_.heads * rows * kPanel + (net_.heads + net_.cape.hidden) * kCapeRow;
  }

  void run_item(std::int64_t batch, std::int64_t row, float* buffer) const {
    Item item{batch, row, std::min<std::int64_t>(kPanel, shape_.queries - row), {}, {}, {}, {}};
    for (std::int64_t h = 0; h < net_.heads; ++h) buffer = prepare_head(item, h, buffer);
    item.scores = buffer;
    item.hidden = buffer + net_.heads * kCapeRow;
    const std::int64_t keys = visible_keys(shape_, row + item.queries - 1);
    for (std::int64_t key = 0; key < keys; key += kCapeKeys) {
      attend(item, key, std::min<std::int64_t>(kCapeKeys, keys - key));
    }
    for (std::int64_t h = 0; h < net_.heads; ++h) write_head(item, h);
  }

  float* prepare_head(Item& item, std::int64_t h, float* at) const {
    pack_panel(row_pointer(inputs_.q, item.batch, h, item.row), inputs_.q.row, item.queries,
               shape_.head_dim, inputs_.scale, at);
    item.q.push_back(at);
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
    item.panels.push_back(panel);
    return at + panel.out_dim[0] * kPanel;
  }

  InputTensor head_of(const InputTensor& tensor, std::int64_t batch, std::int64_t h) const {
    InputTensor one = tensor;
    one.data = row_pointer(tensor, batch, h / (shape_.heads / shape_.kv_heads), 0);
    return one;
  }

  void attend(Item& item, std::int64_t key, std::int64_t keys) const {
    const TilePlace place{item.row + shape_.query_offset, key, 0, static_cast<int>(item.queries),
                          shape_.causal};
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      cape_content(place, keys, item.q[static_cast<std::size_t>(h)],
                   head_of(inputs_.k, item.batch, h), shape_.head_dim,
                   item.scores + h * kCapeRow);
    }
    for (std::int64_t r = 0; r < keys; ++r) {
      float* scores = item.scores + r * kPanel;
      float* hidden = item.hidden + r * kPanel;
      cape_first_layer(net_, place.query - key - r, scores, hidden);
      cape_second_layer(net_, place.query - key - r, scores, hidden, hidden, scores);
    }
    for (std::int64_t h = 0; h < net_.heads; ++h) average_head(item, place, keys, h);
  }

  /// Scores of one head to weights, and the values they average.
  void average_head(Item& item, TilePlace place, std::int64_t keys, std::int64_t h) const {
    Panel& panel = item.panels[static_cast<std::size_t>(h)];
    float* block = item.scores + h * kCapeRow;
    const std::int64_t key = place.key;
    for (std::int64_t n = 0; n < keys; n += kTileKeys) {
      place.key = key + n;
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys - n));
      Vec t[kTileKeys][kVecs];
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          t[r][v] = hn::Mul(load(block + (n + r) * kPanel + v * kLanes), set(kLog2e));
        }
      }
      if (is_masked(place)) {
        softmax_tile<kProbes, true>(place, t, block, n, panel);
      } else {
        softmax_tile<kProbes, false>(place, t, block, n, panel);
      }
    }
    const InputTensor v = head_of(inputs_.v, item.batch, h);
    multiply_panel({v.data + key * v.row, 1, v.row, block, kPanel, panel.out[0], kPanel, keys},
                   panel.out_dim[0]);
  }

  void write_head(const Item& item, std::int64_t h) const {
    const Panel& panel = item.panels[static_cast<std::size_t>(h)];
    float factor[kPanel];
    for (std::int64_t n = 0; n < item.queries; ++n) {
      factor[n] = panel.normaliser[n] == 0 ? 0 : 1 / panel.normaliser[n];
    }
    unpack_panel(panel.out[0], factor, item.queries, panel.out_dim[0],
                 row_pointer(outputs_.out, item.batch, h, item.row), outputs_.out.row);
    const std::int64_t first = (item.batch * shape_.heads + h) * shape_.queries + item.row;
    write_lse(panel, item.queries, first, outputs_.lse);
    if constexpr (kProbes) write_probes(panel, item.queries, first, outputs_.rows);
  }

  const AttentionInputs& inputs_;
  const ForwardOutputs& outputs_;
  const AttentionShape& shape_;
  CapeNetwork net_;
};

void forward_cape(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  if (probes) {
    CapeForward<true>(inputs, outputs).run();
  } else {
    CapeForward<false>(inputs, outputs).run();
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasescope::kernels {

void forward_cape(const AttentionInputs& inputs, const ForwardOutputs& outputs, bool probes) {
  PHASESCOPE_SELECT_TARGET(forward_cape)(inputs, outputs, probes);
}

}  // namespace phasescope::kernels
#endif
