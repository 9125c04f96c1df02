// The backward pass of variants whose heads stand alone. Weights are computed again from the saved
// log-sum-exp. A work item is a share (chunk) of the queries of one key/value head and its group;
// it walks 192 queries x 128 keys at a time: p and d s of the block, then dq (lanes are queries),
// dk and dv (lanes are channels). Sums start at 0 for every block and are added to memory once.
#if defined(PHASESCOPE_CPU_BACKWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_BACKWARD_INL_H
#undef PHASESCOPE_CPU_BACKWARD_INL_H
#else
#define PHASESCOPE_CPU_BACKWARD_INL_H
#endif

#include <limits>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <HeadVariant V>
class BackwardPass {
 public:
  BackwardPass(const AttentionInputs& inputs, const SavedForward& saved, const Gradients& gradients)
      : inputs_(inputs),
        saved_(saved),
        gradients_(gradients),
        shape_(inputs.shape),
        visibility_(inputs),
        cap_(inputs.soft_cap * kLog2e),
        variant_(inputs) {
    for (int n = 0; n < V::kDots; ++n) dots_[n] = variant_.dot(n);
    for (int n = 0; n < V::kValues; ++n) values_[n] = variant_.value(n);
    blocks_ = (shape_.queries + kQueryBlock - 1) / kQueryBlock;
    chunks_ = backward_chunks(shape_, blocks_, row_floats());
  }

  void run() {
    variant_.begin_gradients(gradients_, shape_.batch * chunks_);
    for (int n = 0; n < V::kDots; ++n) {
      dq_[n] = variant_.dot_gradient_q(gradients_, n);
      dk_[n] = variant_.dot_gradient_k(gradients_, n);
    }
    const std::int64_t threads = parallel_threads();
    std::vector<FloatBuffer> buffers(static_cast<std::size_t>(threads));
    for (FloatBuffer& buffer : buffers) buffer = FloatBuffer(buffer_size());
    const std::int64_t heads = shape_.batch * shape_.kv_heads;
    const std::int64_t sums_size = shape_.keys * row_floats();
    KeptBuffer sums((chunks_ == 1 ? threads : heads * chunks_) * sums_size);
    parallel_items(heads * chunks_, [&](std::int64_t item, int thread) {
      float* own = sums.data() + (chunks_ == 1 ? thread : item) * sums_size;
      run_item(item / chunks_, item % chunks_, own,
               buffers[static_cast<std::size_t>(thread)].data());
      if (chunks_ == 1) write_keys(item, own);
    });
    if (chunks_ > 1) {
      parallel_items(heads, [&](std::int64_t head, int) {
        float* first = sums.data() + head * chunks_ * sums_size;
        for (std::int64_t c = 1; c < chunks_; ++c) {
          for (std::int64_t i = 0; i < sums_size; ++i) first[i] += first[c * sums_size + i];
        }
        write_keys(head, first);
      });
    }
    variant_.finish_gradients(gradients_);
  }

 private:
  /// What one block of 192 queries of one head needs; rows that do not exist are 0.
  struct Block {
    std::int64_t batch, head, kv_head, query;
    typename V::Head variant_head;
    InputTensor k[2], v[2];
    std::int64_t dim[2];
    float* q_lanes[kPanels][2];   ///< (dim, kPanel), scaled like the forward pass has them
    float* dq_lanes[kPanels][2];  ///< (dim, kPanel)
    float* d_out_lanes[kPanels][2];
    float* q_rows[2];      ///< (kQueryBlock, padded dim), times the dot's scale
    float* d_out_rows[2];  ///< (kQueryBlock, padded dim)
    float* lse;            ///< (kQueryBlock), log2 units
    float* row_sum;        ///< (kQueryBlock), sum d_out . out
    float* weights;        ///< (kKeyBlock, kQueryBlock)
    float* d_dots[2];      ///< (kKeyBlock, kQueryBlock)
    float* scratch;        ///< of the variant
    float* dk[2];          ///< sums over the item, (keys, padded dim)
    float* dv[2];
  };

  static std::int64_t padded(std::int64_t dim) { return round_up(dim, kLanes); }

  /// Floats of one key's gradients.
  std::int64_t row_floats() const {
    std::int64_t floats = 0;
    for (int n = 0; n < V::kDots; ++n) floats += padded(dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) floats += padded(values_[n].dim);
    return floats;
  }

  std::int64_t buffer_size() const {
    std::int64_t floats = 2;  // lse, row_sum
    for (int n = 0; n < V::kDots; ++n) floats += 2 * dots_[n].dim + padded(dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) floats += values_[n].dim + padded(values_[n].dim);
    floats += kKeyBlock * (1 + V::kDots);
    return floats * kQueryBlock + variant_.scratch_size();
  }

  void run_item(std::int64_t kv, std::int64_t chunk, float* sums, float* buffer) {
    std::fill(sums, sums + shape_.keys * row_floats(), 0.0f);
    Block block{};
    block.batch = kv / shape_.kv_heads;
    block.kv_head = kv % shape_.kv_heads;
    place_buffers(block, sums, buffer);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t g = 0; g < group; ++g) {
      block.head = block.kv_head * group + g;
      block.variant_head = variant_.head(block.batch, block.head);
      for (std::int64_t b = chunk; b < blocks_; b += chunks_) {
        block.query = b * kQueryBlock;
        run_block(block);
        variant_.flush(block.head, block.batch * chunks_ + chunk, block.query, block.scratch);
      }
    }
  }

  void place_buffers(Block& block, float* sums, float* at) const {
    const auto take = [&at](std::int64_t size) {
      float* p = at;
      at += size;
      return p;
    };
    for (int n = 0; n < V::kDots; ++n) {
      block.dim[n] = dots_[n].dim;
      block.k[n] = dots_[n].k;
      block.k[n].data = row_pointer(dots_[n].k, block.batch, block.kv_head, 0);
      for (int p = 0; p < kPanels; ++p) {
        block.q_lanes[p][n] = take(dots_[n].dim * kPanel);
        block.dq_lanes[p][n] = take(dots_[n].dim * kPanel);
      }
      block.q_rows[n] = take(kQueryBlock * padded(dots_[n].dim));
      block.d_dots[n] = take(kQueryBlock * kKeyBlock);
      block.dk[n] = sums;
      sums += shape_.keys * padded(dots_[n].dim);
    }
    for (int n = 0; n < V::kValues; ++n) {
      block.v[n] = values_[n].v;
      block.v[n].data = row_pointer(values_[n].v, block.batch, block.kv_head, 0);
      for (int p = 0; p < kPanels; ++p) block.d_out_lanes[p][n] = take(values_[n].dim * kPanel);
      block.d_out_rows[n] = take(kQueryBlock * padded(values_[n].dim));
      block.dv[n] = sums;
      sums += shape_.keys * padded(values_[n].dim);
    }
    block.lse = take(kQueryBlock);
    block.row_sum = take(kQueryBlock);
    block.weights = take(kQueryBlock * kKeyBlock);
    block.scratch = take(variant_.scratch_size());
  }

  std::int64_t rows_of(const Block& block, int p) const {
    return std::clamp<std::int64_t>(shape_.queries - block.query - p * kPanel, 0, kPanel);
  }

  void run_block(Block& block) const {
    std::fill(block.scratch, block.scratch + variant_.scratch_size(), 0.0f);
    pack_block(block);
    const std::int64_t last = std::min(block.query + kQueryBlock, shape_.queries) - 1;
    const KeyRange keys = visibility_.keys(block.batch, block.query, last);
    for (std::int64_t key = keys.begin; key < keys.end; key += kKeyBlock) {
      const std::int64_t count = std::min<std::int64_t>(kKeyBlock, keys.end - key);
      // Panels first .. end - 1 see keys of the block.
      int first = 0;
      while (first < kPanels && keys_of(block, first).end <= key) ++first;
      int end = first;
      while (end < kPanels && rows_of(block, end) > 0 && keys_of(block, end).begin < key + count) {
        run_panel(block, end++, key, count);
      }
      add_keys(block, first, end, key, count);
    }
    for (int p = 0; p < kPanels; ++p) write_queries(block, p);
  }

  /// Keys that some query of panel p sees.
  KeyRange keys_of(const Block& block, int p) const {
    const std::int64_t rows = rows_of(block, p), first = block.query + p * kPanel;
    return rows == 0 ? KeyRange{} : visibility_.keys(block.batch, first, first + rows - 1);
  }

  void pack_block(Block& block) const {
    const std::int64_t rows = std::min<std::int64_t>(kQueryBlock, shape_.queries - block.query);
    const auto pack_rows = [rows](const float* from, std::int64_t stride, std::int64_t dim,
                                  float scale, float* to) {
      std::fill(to, to + kQueryBlock * padded(dim), 0.0f);
      for (std::int64_t n = 0; n < rows; ++n) {
        for (std::int64_t d = 0; d < dim; ++d)
          to[n * padded(dim) + d] = scale * from[n * stride + d];
      }
    };
    for (int n = 0; n < V::kDots; ++n) {
      const DotStream& dot = dots_[n];
      const float* q = row_pointer(dot.q, block.batch, block.head, block.query);
      pack_rows(q, dot.q.row, dot.dim, dot.scale, block.q_rows[n]);
      for (int p = 0; p < kPanels; ++p) {
        pack_panel(q + p * kPanel * dot.q.row, dot.q.row, rows_of(block, p), dot.dim,
                   n == 0 ? dot.scale * kLog2e : dot.scale, block.q_lanes[p][n]);
        std::fill(block.dq_lanes[p][n], block.dq_lanes[p][n] + dot.dim * kPanel, 0.0f);
      }
    }
    const InputTensor d_outs[2] = {saved_.d_out, d_out_state()};
    for (int n = 0; n < V::kValues; ++n) {
      const bool given = d_outs[n].data != nullptr;
      const float* d_out =
          given ? row_pointer(d_outs[n], block.batch, block.head, block.query) : nullptr;
      const std::int64_t dim = values_[n].dim;
      if (given) {
        pack_rows(d_out, d_outs[n].row, dim, 1, block.d_out_rows[n]);
      } else {
        std::fill(block.d_out_rows[n], block.d_out_rows[n] + kQueryBlock * padded(dim), 0.0f);
      }
      for (int p = 0; p < kPanels; ++p) {
        pack_panel(given ? d_out + p * kPanel * d_outs[n].row : nullptr, d_outs[n].row,
                   given ? rows_of(block, p) : 0, dim, 1, block.d_out_lanes[p][n]);
      }
    }
    pack_row_numbers(block, rows, d_outs);
  }

  InputTensor d_out_state() const {
    const auto* tape = std::get_if<TapeGradients>(&gradients_.variant);
    return tape ? tape->d_out_state : InputTensor{};
  }

  /// lse in log2 units (so large that every weight is 0 for rows that see no key or do not exist),
  /// and sum d_out . out.
  void pack_row_numbers(Block& block, std::int64_t rows, const InputTensor (&d_outs)[2]) const {
    std::fill(block.lse, block.lse + kQueryBlock, -kMaskedScore);
    std::fill(block.row_sum, block.row_sum + kQueryBlock, 0.0f);
    const InputTensor outs[2] = {saved_.out, saved_.out_state};
    const std::int64_t first =
        (block.batch * shape_.heads + block.head) * shape_.queries + block.query;
    for (std::int64_t n = 0; n < rows; ++n) {
      const float lse = saved_.lse[first + n];
      if (lse == -std::numeric_limits<float>::infinity()) continue;
      block.lse[n] = static_cast<float>(static_cast<double>(lse) * 1.4426950408889634);
      double sum = 0;
      for (int s = 0; s < V::kValues; ++s) {
        if (!d_outs[s].data) continue;
        const float* a = row_pointer(outs[s], block.batch, block.head, block.query + n);
        const float* b = row_pointer(d_outs[s], block.batch, block.head, block.query + n);
        for (std::int64_t d = 0; d < values_[s].dim; ++d) sum += static_cast<double>(a[d]) * b[d];
      }
      block.row_sum[n] = static_cast<float>(sum);
    }
  }

  /// Weights and d dots of one panel x keys key .. key + count - 1, and its dq.
  void run_panel(Block& block, int p, std::int64_t key, std::int64_t count) const {
    const KeyRange seen = keys_of(block, p);
    const std::int64_t skip = std::max<std::int64_t>(0, seen.begin - key) / kTileKeys * kTileKeys;
    const std::int64_t end = std::min(key + count, seen.end);
    const std::int64_t row = block.query + p * kPanel, queries = rows_of(block, p);
    if (!visibility_.may_share_document(block.batch, row, queries, key, count)) {
      clear_rows(block, p, 0, count);
      return;
    }
    TilePlace place = tile_place(shape_, visibility_, block.batch, row, queries, key + skip);
    for (; place.key < end; place.key += kTileKeys) {
      place.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, end - place.key));
      run_tile(block, p, place, place.key - key);
    }
    clear_rows(block, p, 0, skip);
    clear_rows(block, p, round_up(end - key, kTileKeys), count);
    for (int n = 0; n < V::kDots; ++n) {
      multiply_panel({block.k[n].data + (key + skip) * block.k[n].row, 1, block.k[n].row,
                      block.d_dots[n] + skip * kQueryBlock + p * kPanel, kQueryBlock,
                      block.dq_lanes[p][n], kPanel, end - key - skip},
                     block.dim[n]);
    }
  }

  /// Rows of the block that the panel did not visit hold 0.
  void clear_rows(Block& block, int p, std::int64_t from, std::int64_t to) const {
    for (std::int64_t r = from; r < to; ++r) {
      fill_panel(block.weights + r * kQueryBlock + p * kPanel, 0);
      for (int n = 0; n < V::kDots; ++n) {
        fill_panel(block.d_dots[n] + r * kQueryBlock + p * kPanel, 0);
      }
    }
  }

  HWY_INLINE void run_tile(Block& block, int p, const TilePlace& place, std::int64_t row) const {
    Vec t[kTileKeys][kVecs];
    Vec second[kTileKeys][kVecs];
    HWY_ALIGN float first_dot[V::kReadsDots ? kTileKeys * kPanel : 1];
    HWY_ALIGN float slopes[kTileKeys * kPanel];
    const float* q[2] = {block.q_lanes[p][0], block.q_lanes[p][1]};
    dot_tiles<V>(place, q, block.k, block.dim, t, second);
    if constexpr (V::kReadsDots) {
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) store(t[r][v], first_dot + r * kPanel + v * kLanes);
      }
    }
    variant_.score(block.variant_head, place, t, second);
    if (cap_ > 0) {
      cap_tile(cap_, t);
      cap_slopes(cap_, t, slopes);
    }
    if (is_masked(place)) mask_tile(place, t);
    float* weights = block.weights + row * kQueryBlock + p * kPanel;
    const float* lse = block.lse + p * kPanel;
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        store(exp2_any(hn::Sub(t[r][v], load(lse + v * kLanes))),
              weights + r * kQueryBlock + v * kLanes);
        t[r][v] = zero();
      }
    }
    const float* rows[kTileKeys];
    for (int n = 0; n < V::kValues; ++n) {
      tile_rows(place, block.v[n], rows);
      dot_tile(rows, block.d_out_lanes[p][n], values_[n].dim, t);
    }
    if (cap_ > 0) scale_by(weights, slopes);
    finish_tile(block, p, place, row, t, second, first_dot, cap_ > 0 ? slopes : weights,
                cap_ > 0 ? kPanel : kQueryBlock);
  }

  /// Slopes of the cap times the tile's weights.
  static void scale_by(const float* weights, float* slopes) {
    for (int r = 0; r < kTileKeys; ++r) {
      for (int v = 0; v < kVecs; ++v) {
        float* at = slopes + r * kPanel + v * kLanes;
        store(hn::Mul(load(at), load(weights + r * kQueryBlock + v * kLanes)), at);
      }
    }
  }

  /// d s = p (d p - sum d_out . out), then the variant's way from scores to dots. `pulled`: p times
  /// the slope of the cap, rows `pulled_row` apart.
  HWY_INLINE void finish_tile(Block& block, int p, const TilePlace& place, std::int64_t row,
                              const Vec (&d_weight)[kTileKeys][kVecs],
                              const Vec (&second)[kTileKeys][kVecs], const float* first_dot,
                              const float* pulled, std::int64_t pulled_row) const {
    const std::int64_t at = row * kQueryBlock + p * kPanel;
    const float* row_sum = block.row_sum + p * kPanel;
    const typename V::Tile tile = variant_.tile(place);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const std::int64_t here = at + r * kQueryBlock + v * kLanes;
        const Vec d_score = hn::Mul(load(pulled + r * pulled_row + v * kLanes),
                                    hn::Sub(d_weight[r][v], load(row_sum + v * kLanes)));
        Vec a = zero(), b = zero();
        if constexpr (V::kReadsDots) a = load(first_dot + r * kPanel + v * kLanes);
        if constexpr (V::kReadsDots && V::kDots == 2) b = second[r][v];
        const DotGradients d =
            variant_.gradient(block.variant_head, tile, place, r, v, d_score, a, b, block.scratch);
        store(d.first, block.d_dots[0] + here);
        if constexpr (V::kDots == 2) store(d.second, block.d_dots[1] + here);
      }
    }
  }

  /// dk and dv of the block's keys, from the queries of panels first .. end - 1.
  void add_keys(Block& block, int first, int end, std::int64_t key, std::int64_t count) const {
    const std::int64_t skip = first * kPanel;
    const std::int64_t depth =
        std::min<std::int64_t>(end * kPanel, shape_.queries - block.query) - skip;
    const auto add = [&](const float* pairs, const float* rows, std::int64_t dim, float* sums) {
      const std::int64_t width = padded(dim);
      multiply_wide({pairs + skip, kQueryBlock, 1, rows + skip * width, width, sums + key * width,
                     width, depth},
                    count, width / kLanes);
    };
    for (int n = 0; n < V::kDots; ++n) {
      add(block.d_dots[n], block.q_rows[n], block.dim[n], block.dk[n]);
    }
    for (int n = 0; n < V::kValues; ++n) {
      add(block.weights, block.d_out_rows[n], values_[n].dim, block.dv[n]);
    }
  }

  void write_queries(const Block& block, int p) const {
    const std::int64_t rows = rows_of(block, p);
    float factor[kPanel];
    for (int n = 0; n < V::kDots && rows > 0; ++n) {
      std::fill(factor, factor + kPanel, dots_[n].scale);
      unpack_panel(block.dq_lanes[p][n], factor, rows, block.dim[n],
                   row_pointer(dq_[n], block.batch, block.head, block.query + p * kPanel),
                   dq_[n].row);
    }
  }

  /// The sums of one key/value head to its gradients.
  void write_keys(std::int64_t kv, const float* sums) const {
    const std::int64_t batch = kv / shape_.kv_heads, head = kv % shape_.kv_heads;
    const auto write = [&](const OutputTensor& to, std::int64_t dim) {
      for (std::int64_t n = 0; n < shape_.keys && to.data; ++n) {
        std::copy_n(sums + n * padded(dim), dim, row_pointer(to, batch, head, n));
      }
      sums += shape_.keys * padded(dim);
    };
    const auto* tape = std::get_if<TapeGradients>(&gradients_.variant);
    const OutputTensor d_values[2] = {gradients_.dv, tape ? tape->d_state : OutputTensor{}};
    for (int n = 0; n < V::kDots; ++n) write(dk_[n], dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) write(d_values[n], values_[n].dim);
  }

  const AttentionInputs& inputs_;
  const SavedForward& saved_;
  const Gradients& gradients_;
  const AttentionShape& shape_;
  Visibility visibility_;
  float cap_;  ///< of scores, log2 units; 0: none
  V variant_;
  DotStream dots_[2];
  ValueStream values_[2];
  OutputTensor dq_[2], dk_[2];
  std::int64_t blocks_ = 0;
  std::int64_t chunks_ = 1;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
