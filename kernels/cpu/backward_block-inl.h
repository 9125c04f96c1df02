// A block of 192 queries in the backward pass of variants whose heads stand alone: its memory, and
// its way past the keys of a range. backward-inl.h says what becomes of blocks.
#if defined(PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H
#undef PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H
#else
#define PHASESCOPE_CPU_BACKWARD_BLOCK_INL_H
#endif

#include "kernels/cpu/backward_panels-inl.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/diagonals-inl.h"
#include "kernels/cpu/diagonals.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// A call's blocks, with what they share; BackwardPass deals them out.
template <HeadVariant V>
class BackwardBlocks : protected BackwardPanels<V> {
 protected:
  using Panels = BackwardPanels<V>;
  using Panels::cap_;
  using Panels::dots_;
  using Panels::gradients_;
  using Panels::group_;
  using Panels::holds_sums;
  using Panels::padded;
  using Panels::row_floats;
  using Panels::shape_;
  using Panels::sums_scores;
  using Panels::values_;
  using Panels::variant_;
  using Panels::visibility_;
  using typename Panels::KeySums;
  using typename Panels::Run;
  using typename Panels::Waiting;

 public:
  BackwardBlocks(const AttentionInputs& inputs, const SavedForward& saved,
                 const Gradients& gradients)
      : Panels(inputs, saved, gradients),
        blocks_((shape_.queries + kQueryBlock - 1) / kQueryBlock),
        chunks_(backward_chunks(shape_, blocks_, row_floats())),
        score_range_(distance_range(shape_, kPanel)) {}

 protected:
  std::int64_t score_floats() const { return sums_scores() ? score_range_.size() : 0; }

  /// What one block of 192 queries of one head needs.
  struct Block {
    std::int64_t batch, head, kv_head, query;
    KeyRange range;                  ///< of the keys that are gone through
    std::int64_t first_key;          ///< whose dk and dv are the first sums
    bool wants_queries, wants_keys;  ///< dq; dk and dv
    bool wants_sums;                 ///< the variant's gradients and the scores'
    typename V::Head variant_head;
    Run runs[kPanels];
    FloatRows k[2], v[2];  ///< of the block of keys
    std::int64_t dim[2];   ///< of the dots
    float* spare;          ///< a block of keys and values, or rows of queries
    float* weights;        ///< (kKeyBlock, kQueryBlock)
    float* d_dots[2];      ///< (kKeyBlock, kQueryBlock)
    float* scratch;        ///< of the variant
    float* score_sums;     ///< of d score by distance; null: not wanted
    KeySums sums;          ///< over the item, of keys from first_key on
    float* waiting_dq[2];  ///< (group, queries, dim), where dq has no memory of its own
  };

  /// Floats of an item's partial sums of dq that have no such tensor.
  std::int64_t waiting_floats() const {
    std::int64_t floats = 0;
    for (int n = 0; n < V::kDots; ++n) floats += holds_sums(n) ? 0 : dots_[n].dim;
    return group_ * shape_.queries * floats;
  }

  std::int64_t buffer_size() const {
    constexpr std::int64_t kSums = kKeyDots<V> + 1;
    return kPanels * this->run_floats(false) + kKeyBlock * kSums * kQueryBlock +
           kKeyBlock * this->channels() + variant_.scratch_size() + score_floats();
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
    for (int n = 0; n < kKeyDots<V>; ++n) clear(block.sums.dk[n], padded(dots_[n].dim));
    for (int n = 0; n < V::kValues; ++n) clear(block.sums.dv[n], padded(values_[n].dim));
  }

  void place_buffers(Block& block, float* sums, float* buffer) const {
    FloatParts take{buffer};
    this->place_runs(block.runs, false, take);
    for (int n = 0; n < V::kDots; ++n) block.dim[n] = dots_[n].dim;
    for (int n = 0; n < kKeyDots<V>; ++n) block.d_dots[n] = take(kQueryBlock * kKeyBlock);
    block.weights = take(kQueryBlock * kKeyBlock);
    block.spare = take(kKeyBlock * this->channels());
    block.scratch = take(variant_.scratch_size());
    if (sums_scores()) block.score_sums = take(score_floats());
    block.sums = this->key_sums(sums, ranges_.keys);
    FloatParts take_waiting{sums + ranges_.keys * row_floats()};
    for (int n = 0; n < V::kDots; ++n) {
      if (!holds_sums(n)) {
        block.waiting_dq[n] = take_waiting(group_ * shape_.queries * block.dim[n]);
      }
    }
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
    if (block.wants_queries) write_block(block, sees && keys.end < seen.end);
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
    while (first < kPanels && keys_of(block.runs[first]).end <= key) ++first;
    int end = first;
    while (end < kPanels && block.runs[end].queries > 0 &&
           keys_of(block.runs[end]).begin < key + count) {
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
    for (int n = 0; n < kKeyDots<V>; ++n) block.k[n] = load(dots_[n].k, dots_[n].dim);
    for (int n = 0; n < V::kValues; ++n) block.v[n] = load(values_[n].v, values_[n].dim);
  }

  /// Keys that some query of a panel sees.
  KeyRange keys_of(const Run& run) const {
    return run.queries == 0 ? KeyRange{}
                            : visibility_.keys(run.batch, run.row, run.row + run.queries - 1);
  }

  /// resumes: dq goes on from what an earlier range of keys left.
  void pack_block(Block& block, bool resumes) const {
    for (int p = 0; p < kPanels; ++p) {
      Run& run = block.runs[p];
      run.batch = block.batch;
      run.head = block.head;
      run.row = block.query + p * kPanel;
      run.queries = std::clamp<std::int64_t>(shape_.queries - run.row, 0, kPanel);
      this->pack(run, kLog2e, block.wants_keys, block.spare);
      for (int n = 0; n < V::kDots && block.wants_queries; ++n) {
        const Waiting left = waiting(block, n);
        this->start_queries(run, n, resumes ? &left : nullptr);
      }
    }
  }

  /// Weights and d dots of one panel x keys key .. key + count - 1, and its dq.
  void run_panel(Block& block, int p, std::int64_t key, std::int64_t count) const {
    const Run& run = block.runs[p];
    const KeyRange seen = keys_of(run);
    const std::int64_t skip = std::max<std::int64_t>(0, seen.begin - key) / kTileKeys * kTileKeys;
    const std::int64_t end = std::min(key + count, seen.end);
    if (!visibility_.may_share_document(run.batch, run.row, run.queries, key, count)) {
      clear_rows(block, p, 0, count);
      return;
    }
    TilePlace place = tile_place(shape_, visibility_, run.batch, run.row, run.queries, key + skip);
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
                      visited - skip, sums + (run.row + shape_.query_offset - key - skip));
      }
    }
    if constexpr (V::kRelativeDots) add_relative(block, p, key + skip, end - key - skip, skip);
    for (int n = 0; n < kKeyDots<V> && block.wants_queries; ++n) {
      this->add_to_queries(run, n, block.k[n].at(key + skip), block.k[n].row,
                           block.d_dots[n] + skip * kQueryBlock + p * kPanel, kQueryBlock,
                           end - key - skip);
    }
  }

  /// What `count` keys from `key`, those of the block's row `row` and up, give a panel's second dq
  /// and the variant's vectors by distance.
  void add_relative(const Block& block, int p, std::int64_t key, std::int64_t count,
                    std::int64_t row) const {
    const Run& run = block.runs[p];
    const std::int64_t lambda = run.row + shape_.query_offset - key;
    const float* d_score = block.d_dots[0] + row * kQueryBlock + p * kPanel;
    if (block.wants_queries) {
      variant_.add_to_queries(block.variant_head, lambda, d_score, kQueryBlock, count,
                              run.dq_lanes[1]);
    }
    if (block.wants_sums) {
      variant_.add_to_keys(lambda, d_score, kQueryBlock, count, run.q_lanes[1], block.scratch);
    }
  }

  /// Rows of the block that the panel did not visit hold 0.
  void clear_rows(Block& block, int p, std::int64_t from, std::int64_t to) const {
    for (std::int64_t r = from; r < to; ++r) {
      fill_panel(block.weights + r * kQueryBlock + p * kPanel, 0);
      for (int n = 0; n < kKeyDots<V>; ++n) {
        fill_panel(block.d_dots[n] + r * kQueryBlock + p * kPanel, 0);
      }
    }
  }

  HWY_INLINE void run_tile(Block& block, int p, const TilePlace& place, std::int64_t row) const {
    Vec t[kTileKeys][kVecs];
    Vec second[kTileKeys][kVecs];
    HWY_ALIGN float first_dot[V::kReadsDots ? kTileKeys * kPanel : 1];
    HWY_ALIGN float slopes[kTileKeys * kPanel];
    const Run& run = block.runs[p];
    const float* q[2] = {run.q_lanes[0], run.q_lanes[1]};
    dot_tiles(variant_, block.variant_head, place, q, block.k, block.dim, t, second);
    if constexpr (V::kReadsDots) {
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) store(t[r][v], first_dot + r * kPanel + v * kLanes);
      }
    }
    variant_.score(block.variant_head, place, t, second);
    float* weights = block.weights + row * kQueryBlock + p * kPanel;
    this->weigh(run, place, block.v, t, weights, kQueryBlock, slopes);
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
    const float* row_sum = block.runs[p].row_sum;
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
        if constexpr (kKeyDots<V> == 2) store(d.second, block.d_dots[1] + here);
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
        add_unaligned(sums - r + v * kLanes, d);
      }
    }
  }

  /// dk and dv of the block's keys, from the queries of panels first .. end - 1.
  void add_keys(const Block& block, int first, int end, std::int64_t key,
                std::int64_t count) const {
    if (first == end) return;
    const Run& run = block.runs[first];
    const std::int64_t skip = first * kPanel, at = key - block.first_key;
    const std::int64_t queries =
        std::min<std::int64_t>((end - first) * kPanel, shape_.queries - run.row);
    for (int n = 0; n < kKeyDots<V>; ++n) {
      this->add_to_keys(block.d_dots[n] + skip, kQueryBlock, run.q_rows[n], queries, dots_[n].dim,
                        block.sums.dk[n] + at * padded(dots_[n].dim), count);
    }
    for (int n = 0; n < V::kValues; ++n) {
      this->add_to_keys(block.weights + skip, kQueryBlock, run.d_out_rows[n], queries,
                        values_[n].dim, block.sums.dv[n] + at * padded(values_[n].dim), count);
    }
  }

  Waiting waiting(const Block& block, int n) const {
    if (holds_sums(n)) return {this->dq_[n], block.batch, block.head};
    const std::int64_t dim = dots_[n].dim;
    return {{block.waiting_dq[n], 0, shape_.queries * dim, dim}, 0, block.head % group_};
  }

  /// waits: more is added with a later range of keys.
  void write_block(const Block& block, bool waits) const {
    for (int n = 0; n < V::kDots; ++n) {
      const Waiting to = waiting(block, n);
      for (const Run& run : block.runs) this->write_queries(run, n, waits ? &to : nullptr);
    }
  }

  std::int64_t blocks_;
  std::int64_t chunks_;
  BackwardRanges ranges_;
  DistanceRange score_range_;
  DiagonalSums score_sums_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
