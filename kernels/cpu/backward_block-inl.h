// A block of 192 queries in the backward pass of variants whose heads stand alone: its memory, and
// its way past the keys of a range. backward-inl.h says what becomes of blocks.
#if defined(PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H
#undef PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H
#else
#define PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H
#endif

#include <limits>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/diagonals-inl.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// A call's blocks, with what they share; BackwardPass deals them out.
template <HeadVariant V>
class BackwardBlocks {
 public:
  BackwardBlocks(const AttentionInputs& inputs, const SavedForward& saved,
                 const Gradients& gradients)
      : inputs_(inputs),
        saved_(saved),
        gradients_(gradients),
        shape_(inputs.shape),
        visibility_(inputs),
        cap_(inputs.soft_cap * kLog2e),
        variant_(inputs),
        score_range_(distance_range(inputs.shape, kPanel)) {
    for (int n = 0; n < V::kDots; ++n) dots_[n] = variant_.dot(n);
    for (int n = 0; n < V::kValues; ++n) values_[n] = variant_.value(n);
    blocks_ = (shape_.queries + kQueryBlock - 1) / kQueryBlock;
    group_ = shape_.heads / shape_.kv_heads;
    chunks_ = backward_chunks(shape_, blocks_, row_floats());
  }

 protected:
  /// Whether the scores' own gradients are wanted by distance.
  bool sums_scores() const { return gradients_.scores.by_distance != nullptr; }
  std::int64_t score_floats() const { return sums_scores() ? score_range_.size() : 0; }

  /// What one block of 192 queries of one head needs; rows that do not exist are 0.
  struct Block {
    std::int64_t batch, head, kv_head, query;
    KeyRange range;                  ///< of the keys that are gone through
    std::int64_t first_key;          ///< whose dk and dv are the first sums
    bool wants_queries, wants_keys;  ///< dq; dk and dv
    bool wants_sums;                 ///< the variant's gradients and the scores'
    typename V::Head variant_head;
    FloatRows k[2], v[2];  ///< of the block of keys
    std::int64_t dim[2];
    float* spare;                 ///< a block of keys and values, or rows of queries
    float* q_lanes[kPanels][2];   ///< (dim, kPanel), scaled like the forward pass has them
    float* dq_lanes[kPanels][2];  ///< (dim, kPanel)
    float* d_out_lanes[kPanels][2];
    float* q_rows[2];      ///< (kQueryBlock, padded dim), times the dot's scale
    float* d_out_rows[2];  ///< (kQueryBlock, padded dim)
    float* lse;            ///< (kPanels, 2, kPanel), Log2Lse::high and low
    float* row_sum;        ///< (kQueryBlock), sum d_out . out
    float* weights;        ///< (kKeyBlock, kQueryBlock)
    float* d_dots[2];      ///< (kKeyBlock, kQueryBlock)
    float* scratch;        ///< of the variant
    float* score_sums;     ///< of d score by distance; null: not wanted
    float* dk[2];          ///< sums over the item, (keys from first_key on, padded dim)
    float* dv[2];
    float* waiting_dq[2];  ///< (group, queries, dim), where dq has no memory of its own
  };

  static std::int64_t padded(std::int64_t dim) { return round_up(dim, kLanes); }

  /// Floats of one key's gradients.
  std::int64_t row_floats() const {
    std::int64_t floats = 0;
    for (int n = 0; n < V::kDots; ++n) floats += padded(dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) floats += padded(values_[n].dim);
    return floats;
  }

  /// Whether dq's own tensor can hold partial sums.
  bool holds_sums(int n) const { return dq_[n].storage == Storage::float32; }
  /// Floats of an item's partial sums of dq that have no such tensor.
  std::int64_t waiting_floats() const {
    std::int64_t floats = 0;
    for (int n = 0; n < V::kDots; ++n) floats += holds_sums(n) ? 0 : dots_[n].dim;
    return group_ * shape_.queries * floats;
  }

  std::int64_t buffer_size() const {
    std::int64_t floats = 3;  // lse, row_sum
    std::int64_t spare = 0;
    for (int n = 0; n < V::kDots; ++n) {
      floats += 2 * dots_[n].dim + padded(dots_[n].dim);
      spare += dots_[n].dim;
    }
    for (int n = 0; n < V::kValues; ++n) {
      floats += values_[n].dim + padded(values_[n].dim);
      spare += values_[n].dim;
    }
    floats += kKeyBlock * (1 + V::kDots);
    return floats * kQueryBlock + kKeyBlock * spare + variant_.scratch_size() + score_floats();
  }

  /// kv: head of keys and values, of all entries.
  Block begin_block(std::int64_t kv, float* sums, float* buffer) const {
    Block block{};
    block.batch = kv / shape_.kv_heads;
    block.kv_head = kv % shape_.kv_heads;
    place_buffers(block, sums, buffer);
    std::fill(block.scratch, block.scratch + variant_.scratch_size() + score_floats(), 0.0f);
    return block;
  }

  /// Sums of dk and dv of the block's range.
  void clear_keys(const Block& block) const {
    const std::int64_t first = block.range.begin - block.first_key;
    const std::int64_t count = block.range.end - block.range.begin;
    const auto clear = [&](float* rows, std::int64_t width) {
      std::fill_n(rows + first * width, count * width, 0.0f);
    };
    for (int n = 0; n < V::kDots; ++n) clear(block.dk[n], padded(dots_[n].dim));
    for (int n = 0; n < V::kValues; ++n) clear(block.dv[n], padded(values_[n].dim));
  }

  void place_buffers(Block& block, float* sums, float* at) const {
    const auto take = [&at](std::int64_t size) {
      float* p = at;
      at += size;
      return p;
    };
    for (int n = 0; n < V::kDots; ++n) {
      block.dim[n] = dots_[n].dim;
      for (int p = 0; p < kPanels; ++p) {
        block.q_lanes[p][n] = take(dots_[n].dim * kPanel);
        block.dq_lanes[p][n] = take(dots_[n].dim * kPanel);
      }
      block.q_rows[n] = take(kQueryBlock * padded(dots_[n].dim));
      block.d_dots[n] = take(kQueryBlock * kKeyBlock);
      block.dk[n] = sums;
      sums += ranges_.keys * padded(dots_[n].dim);
    }
    for (int n = 0; n < V::kValues; ++n) {
      for (int p = 0; p < kPanels; ++p) block.d_out_lanes[p][n] = take(values_[n].dim * kPanel);
      block.d_out_rows[n] = take(kQueryBlock * padded(values_[n].dim));
      block.dv[n] = sums;
      sums += ranges_.keys * padded(values_[n].dim);
    }
    for (int n = 0; n < V::kDots; ++n) {
      block.waiting_dq[n] = sums;
      if (!holds_sums(n)) sums += group_ * shape_.queries * dots_[n].dim;
    }
    block.lse = take(2 * kQueryBlock);
    block.row_sum = take(kQueryBlock);
    block.weights = take(kQueryBlock * kKeyBlock);
    block.spare = at;
    for (int n = 0; n < V::kDots; ++n) take(kKeyBlock * dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) take(kKeyBlock * values_[n].dim);
    block.scratch = take(variant_.scratch_size());
    if (sums_scores()) block.score_sums = take(score_floats());
  }

  std::int64_t rows_of(const Block& block, int p) const {
    return std::clamp<std::int64_t>(shape_.queries - block.query - p * kPanel, 0, kPanel);
  }

  /// slot: of the variant's sums.
  void run_block(Block& block, std::int64_t slot) {
    const std::int64_t last = std::min(block.query + kQueryBlock, shape_.queries) - 1;
    const KeyRange seen = visibility_.keys(block.batch, block.query, last);
    const KeyRange keys{std::max(seen.begin, block.range.begin),
                        std::min(seen.end, block.range.end)};
    const bool sees = seen.begin < seen.end;
    // With the first range also where no key is seen, for dq is 0 then.
    if (keys.begin >= keys.end && (sees || block.range.begin > 0)) return;
    pack_block(block, sees && seen.begin < keys.begin);
    // Blocks from multiples of their size on, so that no range divides one.
    for (std::int64_t key = keys.begin / kKeyBlock * kKeyBlock; key < keys.end; key += kKeyBlock) {
      const KeyRange part{std::max(key, keys.begin), std::min(key + kKeyBlock, keys.end)};
      run_keys(block, part.begin, part.end - part.begin);
      static_assert(kRangeKeys % kKeyBlock == 0 && kPartKeys % kKeyBlock == 0);
      if (block.wants_sums && (part.end == keys.end || part.end % kRangeKeys == 0)) {
        const std::int64_t begin = std::max(keys.begin, (part.end - 1) / kRangeKeys * kRangeKeys);
        variant_.flush(block.head, slot, block.query, {begin, part.end}, block.scratch);
        if (block.score_sums) take_score_sums(block, slot, {begin, part.end});
      }
    }
    if (!block.wants_queries) return;
    for (int p = 0; p < kPanels; ++p) write_queries(block, p, sees && keys.end < seen.end);
  }

  /// What a range of keys left in the block's sums by distance, to those of its share.
  void take_score_sums(const Block& block, std::int64_t slot, const KeyRange& keys) {
    const std::int64_t first = block.query + shape_.query_offset;
    score_sums_.take(block.head, slot, touched_distances(score_range_, first, kQueryBlock, keys),
                     block.score_sums);
  }

  /// The block's queries against keys key .. key + count - 1.
  void run_keys(Block& block, std::int64_t key, std::int64_t count) const {
    load_keys(block, key, count);
    // Panels first .. end - 1 see keys of the block.
    int first = 0;
    while (first < kPanels && keys_of(block, first).end <= key) ++first;
    int end = first;
    while (end < kPanels && rows_of(block, end) > 0 && keys_of(block, end).begin < key + count) {
      run_panel(block, end++, key, count);
    }
    if (block.wants_keys) add_keys(block, first, end, key, count);
  }

  /// The keys and values of a block.
  void load_keys(Block& block, std::int64_t key, std::int64_t count) const {
    float* spare = block.spare;
    const auto load = [&](const InputTensor& tensor, std::int64_t dim) {
      float* to = spare;
      spare += kKeyBlock * dim;
      return float_rows(tensor, block.batch, block.kv_head, key, count, dim, to);
    };
    for (int n = 0; n < V::kDots; ++n) block.k[n] = load(dots_[n].k, dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) block.v[n] = load(values_[n].v, values_[n].dim);
  }

  /// Keys that some query of panel p sees.
  KeyRange keys_of(const Block& block, int p) const {
    const std::int64_t rows = rows_of(block, p), first = block.query + p * kPanel;
    return rows == 0 ? KeyRange{} : visibility_.keys(block.batch, first, first + rows - 1);
  }

  /// resumes: dq goes on from what an earlier range of keys left.
  void pack_block(Block& block, bool resumes) const {
    std::fill(block.row_sum, block.row_sum + kQueryBlock, 0.0f);
    for (int p = 0; p < kPanels; ++p) {
      for (int n = 0; n < V::kDots; ++n) {
        const DotStream& dot = dots_[n];
        pack_queries(block, p, dot.q, dot.dim, n == 0 ? dot.scale * kLog2e : dot.scale, dot.scale,
                     block.q_lanes[p][n], block.q_rows[n]);
        if (resumes && block.wants_queries) {
          resume_queries(block, p, n);
        } else {
          std::fill(block.dq_lanes[p][n], block.dq_lanes[p][n] + dot.dim * kPanel, 0.0f);
        }
      }
      for (int n = 0; n < V::kValues; ++n) {
        pack_queries(block, p, d_out(n), values_[n].dim, 1, 1, block.d_out_lanes[p][n],
                     block.d_out_rows[n], n == 0 && inputs_.gate.data);
      }
      pack_row_numbers(block, p);
    }
  }

  /// Panel p of a tensor of queries: `lanes` (dim, kPanel) and its rows of the block's `all_rows`.
  /// What does not exist is 0, all of a tensor without data. gated: its rows are multiplied by the
  /// output's gates.
  void pack_queries(const Block& block, int p, const InputTensor& tensor, std::int64_t dim,
                    float lane_scale, float row_scale, float* lanes, float* all_rows,
                    bool gated = false) const {
    const std::int64_t count = tensor.data ? rows_of(block, p) : 0, width = padded(dim);
    FloatRows from{nullptr, 0, 0};
    if (count > 0) {
      from = float_rows(tensor, block.batch, block.head, block.query + p * kPanel, count, dim,
                        block.spare);
      if (gated) {
        from = gated_rows(inputs_, block.batch, block.head, count, dim, from, block.spare);
      }
    }
    pack_panel(from.data, from.row, count, dim, lane_scale, lanes);
    float* rows = all_rows + p * kPanel * width;
    std::fill(rows, rows + kPanel * width, 0.0f);
    for (std::int64_t n = 0; n < count; ++n) {
      const float* row = from.data + n * from.row;
      for (std::int64_t d = 0; d < dim; ++d) rows[n * width + d] = row_scale * row[d];
    }
  }

  /// What comes in for a value stream; may have no data.
  InputTensor d_out(int n) const {
    if (n == 0) return saved_.d_out;
    const auto* tape = std::get_if<TapeGradients>(&gradients_.variant);
    return tape ? tape->d_out_state : InputTensor{};
  }

  /// lse and sum d_out . out of panel p, whose d_out_rows are there. Rows that see no key or do not
  /// exist have weights of 0 and no sum.
  void pack_row_numbers(Block& block, int p) const {
    const InputTensor outs[2] = {saved_.out, saved_.out_state};
    const std::int64_t first = block.query + p * kPanel, count = rows_of(block, p);
    const float* lse =
        saved_.lse + (block.batch * shape_.heads + block.head) * shape_.queries + first;
    const float* sink = sink_of(inputs_, block.head);
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const Log2Lse split = n < count ? log2_lse(lse[n], sink) : Log2Lse{};
      block.lse[2 * p * kPanel + n] = split.high;
      block.lse[(2 * p + 1) * kPanel + n] = split.low;
    }
    for (std::int64_t n = 0; n < count; ++n) {
      if (lse[n] == -std::numeric_limits<float>::infinity()) continue;
      double sum = 0;
      for (int s = 0; s < V::kValues; ++s) {
        if (!d_out(s).data) continue;
        const std::int64_t dim = values_[s].dim;
        const FloatRows out =
            float_rows(outs[s], block.batch, block.head, first + n, 1, dim, block.spare);
        const float* row = block.d_out_rows[s] + (p * kPanel + n) * padded(dim);
        for (std::int64_t d = 0; d < dim; ++d) sum += static_cast<double>(out.data[d]) * row[d];
      }
      block.row_sum[p * kPanel + n] = static_cast<float>(sum);
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
    const std::int64_t visited = round_up(end - key, kTileKeys);
    clear_rows(block, p, visited, count);
    if constexpr (V::kSumsByDistance) {
      float* const sums = block.wants_sums ? variant_.by_distance(block.scratch) : nullptr;
      if (sums) {
        add_diagonals(block.d_dots[0] + skip * kQueryBlock + p * kPanel, kQueryBlock,
                      visited - skip, sums + (row + shape_.query_offset - key - skip));
      }
    }
    for (int n = 0; n < V::kDots && block.wants_queries; ++n) {
      multiply_panel({block.k[n].at(key + skip), 1, block.k[n].row,
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
    const float* lse = block.lse + 2 * p * kPanel;
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        store(weight_of(t[r][v], lse + v * kLanes), weights + r * kQueryBlock + v * kLanes);
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
    if (block.score_sums) add_score_sums(block, place, at, d_weight, row_sum);
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

  /// Adds d s of the softmax's input, before the way through the cap, to the sums of its diagonals.
  HWY_INLINE void add_score_sums(const Block& block, const TilePlace& place, std::int64_t at,
                                 const Vec (&d_weight)[kTileKeys][kVecs],
                                 const float* row_sum) const {
    float* sums = block.score_sums + (place.query - place.key - score_range_.first);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec weight = load(block.weights + at + r * kQueryBlock + v * kLanes);
        const Vec d = hn::Mul(weight, hn::Sub(d_weight[r][v], load(row_sum + v * kLanes)));
        float* to = sums - r + v * kLanes;
        store_unaligned(hn::Add(load_unaligned(to), d), to);
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
      float* const at = sums + (key - block.first_key) * width;
      multiply_wide({pairs + skip, kQueryBlock, 1, rows + skip * width, width, at, width, depth},
                    count, width / kLanes);
    };
    for (int n = 0; n < V::kDots; ++n) {
      add(block.d_dots[n], block.q_rows[n], block.dim[n], block.dk[n]);
    }
    for (int n = 0; n < V::kValues; ++n) {
      add(block.weights, block.d_out_rows[n], values_[n].dim, block.dv[n]);
    }
  }

  /// Where a dot's dq is between ranges of keys, not yet times the dot's scale.
  struct Waiting {
    OutputTensor tensor;
    std::int64_t batch, head;
  };
  Waiting waiting(const Block& block, int n) const {
    if (holds_sums(n)) return {dq_[n], block.batch, block.head};
    const std::int64_t dim = dots_[n].dim;
    return {{block.waiting_dq[n], 0, shape_.queries * dim, dim}, 0, block.head % group_};
  }

  void resume_queries(const Block& block, int p, int n) const {
    const std::int64_t rows = rows_of(block, p);
    const auto [from, batch, head] = waiting(block, n);
    const void* first =
        rows > 0 ? row_pointer(from, batch, head, block.query + p * kPanel) : nullptr;
    pack_panel(static_cast<const float*>(first), from.row, rows, dots_[n].dim, 1,
               block.dq_lanes[p][n]);
  }

  /// waits: more is added with a later range of keys.
  void write_queries(const Block& block, int p, bool waits) const {
    const std::int64_t rows = rows_of(block, p);
    float factor[kPanel];
    for (int n = 0; n < V::kDots && rows > 0; ++n) {
      std::fill(factor, factor + kPanel, waits ? 1 : dots_[n].scale);
      const auto [to, batch, head] =
          waits ? waiting(block, n) : Waiting{dq_[n], block.batch, block.head};
      unpack_panel(block.dq_lanes[p][n], factor, rows, block.dim[n], to, batch, head,
                   block.query + p * kPanel);
    }
  }

  /// The sums of a range of keys of one key/value head to its gradients.
  void write_keys(std::int64_t kv, const KeyRange& range, const float* sums) const {
    const std::int64_t batch = kv / shape_.kv_heads, head = kv % shape_.kv_heads;
    const auto write = [&](const OutputTensor& to, std::int64_t dim) {
      for (std::int64_t n = range.begin; n < range.end && to.data; ++n) {
        store_row(sums + (n - range.begin) * padded(dim), dim, to, batch, head, n);
      }
      sums += ranges_.keys * padded(dim);
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
  std::int64_t group_ = 1;  ///< query heads of a key/value head
  std::int64_t chunks_ = 1;
  BackwardRanges ranges_;
  DistanceRange score_range_;
  DiagonalSums score_sums_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
