// CAPE's backward pass. A work item is a share of the panels of one batch entry, all heads at once:
// the network's gradient at a pair needs d score of every head. cape_plan() divides a long text.
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
#include "kernels/variants/cape_products-inl.h"

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
        hidden_(net_.cape.hidden),
        key_width_(padded(shape_.head_dim)),
        value_width_(padded(value_dim(shape_))) {
    panels_ = (shape_.queries + kPanel - 1) / kPanel;
    // Over FIRE little goes by distance, and all of it waits for the end.
    plan_ = cape_plan(shape_, kPanel, shape_.kv_heads * (key_width_ + value_width_),
                      pieces() ? 1 : heads_ + hidden_);
    if (pieces() && !sums_scores()) plan_.panels = std::max<std::int64_t>(1, panels_);
    sums_size_ = plan_.keys * shape_.kv_heads * (key_width_ + value_width_);
    place_partial();
  }

  void run() {
    CapeSums total(inputs_, net_.range, pieces());
    std::vector<CapeSums> network(
        static_cast<std::size_t>(plan_.items()),
        CapeSums(inputs_, pieces() ? net_.range : tile_distances(Tile{}), pieces()));
    if (sums_scores()) begin_score_sums();
    KeptBuffer sums(plan_.items() * sums_size_);
    ThreadBuffers buffers(parallel_threads(), buffer_size());
    for (std::int64_t batch = 0; batch < shape_.batch; batch += plan_.batches) {
      run_entries(batch, std::min(plan_.batches, shape_.batch - batch), sums.data(), network, total,
                  buffers);
    }
    for (const CapeSums& item : network) total.add_rest(item);
    if (sums_scores()) {
      score_sums_.write_texts(gradients_.scores.by_distance, shape_.batch,
                              gradients_.scores.length);
    }
    if (const auto* wanted = std::get_if<CapeGradients>(&gradients_.variant)) {
      write_cape_gradients(inputs_, net_.range, total, *wanted);
    }
  }

 private:
  /// What is gone through between two additions of sums by distance: panels x keys.
  struct Tile {
    std::int64_t panel_begin = 0, panel_end = 0;
    KeyRange keys;
  };

  /// Arrays of one panel; (rows, kBackwardKeys, kPanel) where nothing else is said.
  struct Work {
    std::int64_t batch, row, queries;
    DiagonalSums* item_scores;       ///< the item's sums of the scores' own gradients
    std::int64_t first_key;          ///< of the range
    std::int64_t first_distance;     ///< of the sums by distance
    bool wants_queries, wants_keys;  ///< dq, and the other gradients
    float* q_lanes;                  ///< (heads, dim, kPanel), times scale
    float* dq_lanes;                 ///< (heads, dim, kPanel)
    float* d_out_lanes;              ///< (heads, value dim, kPanel)
    float* q_rows;                   ///< (heads, kPanel, padded dim), times scale
    float* d_out_rows;               ///< (heads, kPanel, padded value dim)
    float* spare;                    ///< keys or values of a head and block, or rows of its queries
    float* lse;                      ///< (heads, 2, kPanel), Log2Lse::high and low
    float* row_sum;                  ///< (heads, kPanel)
    float* content;                  ///< of the heads
    float* weights;                  ///< of the heads: scores, then weights
    float* d_score;                  ///< of the heads: d score, then d content
    float* active;                   ///< of the hidden units, after the rectifier
    float* d_hidden;
    float* w1_sums;             ///< (hidden, heads, kLanes)
    float* w2_sums;             ///< (heads, hidden, kLanes)
    float* d_hidden_diagonals;  ///< (hidden, distances); over a table, as the next
    float* d_score_diagonals;   ///< (heads, distances)
    float* d_base;              ///< of the heads, behind d_hidden: d score; over FIRE, as the rest
    float* biases;              ///< (hidden + heads, kPanel)
    float* members;             ///< (kPieceGroup, 2), of a group of segments
    float* member_sums;         ///< (hidden + heads, kPieceGroup, 2, kLanes)
    float* d_places;            ///< two rows: what reaches u, and of it what one segment's pairs do
    float* d_factor;            ///< (kPanel)
    float* d_distance;          ///< (distances)
    float* score_sums;          ///< (heads, distances), of d score before the cap; null: not wanted
    float* dk;                  ///< (kv_heads, keys of a range, padded dim)
    float* dv;
  };

  static std::int64_t padded(std::int64_t dim) { return round_up(dim, kLanes); }

  /// Whether the scores' own gradients are wanted by distance.
  bool sums_scores() const { return gradients_.scores.by_distance != nullptr; }

  const CapePieces* pieces() const { return net_.pieces ? &*net_.pieces : nullptr; }

  /// Distances of a panel and the keys of a range.
  std::int64_t distances() const { return plan_.keys + kPanel; }
  /// Floats of the panel's sums by distance, and over FIRE by query.
  std::int64_t diagonals() const {
    return pieces() ? kPanel + distances() : (hidden_ + heads_) * distances();
  }
  /// Floats of what FIRE alone needs, without these.
  std::int64_t piece_floats() const {
    const std::int64_t rows = hidden_ + heads_;
    return pieces() ? (heads_ + 2 * kPieceGroup + 2) * kBackwardRow + rows * kPanel +
                          rows * kPieceGroup * 2 * kLanes
                    : 0;
  }

  std::int64_t spare_size() const {
    return std::max(kPanel, kBackwardKeys) * std::max(key_width_, value_width_);
  }

  std::int64_t buffer_size() const {
    const std::int64_t rows =
        2 * shape_.head_dim + value_dim(shape_) + 3 + key_width_ + value_width_;
    return spare_size() + heads_ * rows * kPanel + (3 * heads_ + 2 * hidden_) * kBackwardRow +
           2 * heads_ * hidden_ * kLanes + piece_floats() + round_up(diagonals(), kLanes) +
           (sums_scores() ? heads_ * distances() : 0);
  }

  Work place_buffers(std::int64_t batch, float* sums, float* at) const {
    const auto take = [&at](std::int64_t size) {
      float* p = at;
      at += size;
      return p;
    };
    Work w{};
    w.batch = batch;
    w.spare = take(spare_size());
    w.q_lanes = take(heads_ * shape_.head_dim * kPanel);
    w.dq_lanes = take(heads_ * shape_.head_dim * kPanel);
    w.d_out_lanes = take(heads_ * value_dim(shape_) * kPanel);
    w.q_rows = take(heads_ * key_width_ * kPanel);
    w.d_out_rows = take(heads_ * value_width_ * kPanel);
    w.lse = take(2 * heads_ * kPanel);
    w.row_sum = take(heads_ * kPanel);
    for (float** array : {&w.content, &w.weights, &w.d_score}) *array = take(heads_ * kBackwardRow);
    for (float** array : {&w.active, &w.d_hidden}) *array = take(hidden_ * kBackwardRow);
    if (pieces()) place_piece_buffers(w, take);
    w.w1_sums = take(heads_ * hidden_ * kLanes);
    w.w2_sums = take(heads_ * hidden_ * kLanes);
    if (pieces()) {
      w.d_factor = take(kPanel);
      w.d_distance = take(distances());
    } else {
      w.d_hidden_diagonals = take(hidden_ * distances());
      w.d_score_diagonals = take(heads_ * distances());
    }
    if (sums_scores()) w.score_sums = take(heads_ * distances());
    w.dk = sums;
    w.dv = sums + shape_.kv_heads * plan_.keys * key_width_;
    return w;
  }

  /// Right behind d_hidden.
  template <class Take>
  void place_piece_buffers(Work& w, const Take& take) const {
    w.d_base = take(heads_ * kBackwardRow);
    w.members = take(2 * kPieceGroup * kBackwardRow);
    w.d_places = take(2 * kBackwardRow);
    w.biases = take((hidden_ + heads_) * kPanel);
    w.member_sums = take((hidden_ + heads_) * kPieceGroup * 2 * kLanes);
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

  /// Distances of a tile, as many for each of them.
  DistanceRange tile_distances(const Tile& tile) const {
    const std::int64_t first = shape_.query_offset + tile.panel_begin * kPanel - tile.keys.end + 1;
    return {first, first + plan_.panels * plan_.shares * kPanel + plan_.keys + kPanel - 1};
  }

  /// Entries batch .. batch + count - 1.
  void run_entries(std::int64_t batch, std::int64_t count, float* sums,
                   std::vector<CapeSums>& network, CapeSums& total, ThreadBuffers& buffers) {
    const std::int64_t items = count * plan_.shares, step = plan_.panels * plan_.shares;
    const std::int64_t heads = shape_.kv_heads;
    for (std::int64_t key = 0; key == 0 || key < shape_.keys; key += plan_.keys) {
      const KeyRange keys{key, std::min(key + plan_.keys, shape_.keys)};
      parallel_items(items, [&](std::int64_t item, int) {
        std::fill_n(sums + item * sums_size_, sums_size_, 0.0f);
      });
      for (std::int64_t panel = 0; panel < panels_; panel += step) {
        const Tile tile{panel, std::min(panel + step, panels_), keys};
        if (key > 0 && shape_.causal && shape_.query_offset + tile.panel_end * kPanel <= key) {
          continue;
        }
        parallel_items(items, [&](std::int64_t item, int thread) {
          CapeSums& own = network[static_cast<std::size_t>(item)];
          if (!pieces()) own.range = tile_distances(tile);
          DiagonalSums* scores =
              sums_scores() ? &item_scores_[static_cast<std::size_t>(item)] : nullptr;
          if (scores) scores->move_to(tile_distances(tile).first);
          run_item(batch + item / plan_.shares, item % plan_.shares, tile, sums + item * sums_size_,
                   own, scores, buffers.of(thread));
        });
        if (sums_scores()) gather_score_sums(batch, items);
        if (pieces()) continue;
        parallel_items(hidden_ + heads_, [&](std::int64_t row, int) {
          for (std::int64_t n = 0; n < items; ++n) {
            total.take_row(network[static_cast<std::size_t>(n)], row);
          }
        });
      }
      parallel_items(count * heads, [&](std::int64_t n, int) {
        write_keys(batch + n / heads, n % heads, keys,
                   sums + n / heads * plan_.shares * sums_size_);
      });
    }
    if (!dq_apart_) return;
    parallel_items(count * panels_, [&](std::int64_t n, int thread) {
      Work w = place_buffers(batch + n / panels_, sums, buffers.of(thread));
      w.wants_queries = true;
      CapeSums none;
      run_panel(w, n % panels_, {0, shape_.keys}, none);
    });
  }

  /// A share of a tile.
  void run_item(std::int64_t batch, std::int64_t share, const Tile& tile, float* sums,
                CapeSums& network, DiagonalSums* scores, float* buffer) const {
    Work w = place_buffers(batch, sums, buffer);
    w.item_scores = scores;
    w.wants_queries = !dq_apart_;
    w.wants_keys = true;
    for (std::int64_t n = tile.panel_begin + share; n < tile.panel_end; n += plan_.shares) {
      run_panel(w, n, tile.keys, network);
    }
  }

  /// One panel and a range of keys.
  void run_panel(Work& w, std::int64_t panel, const KeyRange& range, CapeSums& network) const {
    w.row = panel * kPanel;
    w.queries = std::min<std::int64_t>(kPanel, shape_.queries - w.row);
    w.first_key = range.begin;
    const KeyRange all = visibility_.keys(w.batch, w.row, w.row + w.queries - 1);
    const KeyRange keys{std::max(all.begin, range.begin), std::min(all.end, range.end)};
    // Rows that see no key have a dq of 0.
    const bool none = all.begin >= all.end && range.begin == 0;
    if (keys.begin >= keys.end && !none) return;
    w.first_distance = shape_.query_offset + w.row - keys.end + 1;
    const bool begins = none || all.begin >= range.begin, ends = none || all.end <= range.end;
    if (w.wants_keys) {
      std::fill(w.w1_sums, w.w1_sums + 2 * heads_ * hidden_ * kLanes, 0.0f);
      std::fill_n(pieces() ? w.d_factor : w.d_hidden_diagonals, diagonals(), 0.0f);
      if (w.score_sums) std::fill_n(w.score_sums, heads_ * distances(), 0.0f);
    }
    for (std::int64_t h = 0; h < heads_; ++h) pack_head(w, h, begins || !w.wants_queries);
    for (std::int64_t key = keys.begin; key < keys.end; key += kBackwardKeys) {
      const std::int64_t count = std::min<std::int64_t>(kBackwardKeys, keys.end - key);
      if (!visibility_.may_share_document(w.batch, w.row, w.queries, key, count)) continue;
      run_block(w, key, count, network);
    }
    if (w.wants_keys && !none) flush(w, network);
    if (w.wants_keys && !none && w.score_sums) take_score_sums(w);
    for (std::int64_t h = 0; h < heads_ && w.wants_queries; ++h) write_queries(w, h, ends);
  }

  /// begins: no sum of its dq waits from an earlier range.
  void pack_head(const Work& w, std::int64_t h, bool begins) const {
    const std::int64_t dim = shape_.head_dim, values = value_dim(shape_);
    const auto load = [&](const InputTensor& tensor, std::int64_t channels) {
      return float_rows(tensor, w.batch, h, w.row, w.queries, channels, w.spare);
    };
    if (begins) {
      std::fill_n(w.dq_lanes + h * dim * kPanel, dim * kPanel, 0.0f);
    } else {
      const auto* waiting = static_cast<const float*>(row_pointer(partial_, w.batch, h, w.row));
      pack_panel(waiting, partial_.row, w.queries, dim, 1, w.dq_lanes + h * dim * kPanel);
    }
    float* q_rows = w.q_rows + h * key_width_ * kPanel;
    float* d_out_rows = w.d_out_rows + h * value_width_ * kPanel;
    std::fill_n(q_rows, key_width_ * kPanel, 0.0f);
    std::fill_n(d_out_rows, value_width_ * kPanel, 0.0f);
    const FloatRows q = load(inputs_.q, dim);
    pack_panel(q.data, q.row, w.queries, dim, inputs_.scale, w.q_lanes + h * dim * kPanel);
    for (std::int64_t n = 0; n < w.queries; ++n) {
      for (std::int64_t d = 0; d < dim; ++d) {
        q_rows[n * key_width_ + d] = inputs_.scale * q.data[n * q.row + d];
      }
    }
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

  void run_block(Work& w, std::int64_t key, std::int64_t keys, CapeSums& network) const {
    const TilePlace place = tile_place(shape_, visibility_, w.batch, w.row, w.queries, key);
    for (std::int64_t h = 0; h < heads_; ++h) {
      cape_content(place, keys, w.q_lanes + h * shape_.head_dim * kPanel,
                   rows_of(w, inputs_.k, shape_.head_dim, h, key, keys), shape_.head_dim,
                   w.content + h * kBackwardRow);
    }
    for (std::int64_t r = 0; r < keys; ++r) {
      const std::int64_t at = r * kPanel;
      const CapeKey numbers{net_.biases(place.query, key + r, w.biases), w.content + at,
                            kBackwardRow, w.active + at, kBackwardRow};
      cape_first_layer(net_, numbers);
      cape_second_layer(net_, numbers, w.weights + at);
    }
    for (std::int64_t h = 0; h < heads_; ++h) weigh_head(w, place, keys, h);
    // d w2 before d_score becomes d content.
    if (w.wants_keys) {
      add_lane_products(w.d_score, heads_, w.active, hidden_, keys * kVecs, w.w2_sums);
      if (pieces()) std::copy_n(w.d_score, heads_ * kBackwardRow, w.d_base);
    }
    const std::int64_t shift = place.query - key - w.first_distance;
    const bool by_distance = !pieces() && w.wants_keys;
    // Those of d score before it becomes d content.
    if (by_distance) add_rows_by_distance(w.d_score, heads_, keys, w.d_score_diagonals + shift);
    for (std::int64_t r = 0; r < keys; ++r) through_network(w, r);
    if (by_distance) add_rows_by_distance(w.d_hidden, hidden_, keys, w.d_hidden_diagonals + shift);
    if (w.wants_keys) {
      if (pieces()) add_pieces(w, place.query - key, keys, network.d_pieces);
      add_lane_products(w.d_hidden, hidden_, w.content, heads_, keys * kVecs, w.w1_sums);
    }
    for (std::int64_t h = 0; h < heads_; ++h) add_head(w, key, keys, h);
  }

  /// `rows` arrays of a block to their sums by distance, whose first query and key are at `to`.
  void add_rows_by_distance(const float* block, std::int64_t rows, std::int64_t keys,
                            float* to) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      add_diagonals(block + r * kBackwardRow, kPanel, keys, to + r * distances());
    }
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
      float* d_score = w.d_score + h * kBackwardRow + n * kPanel;
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          const std::int64_t at = r * kPanel + v * kLanes;
          const Vec mean = load(w.row_sum + h * kPanel + v * kLanes);
          Vec d = hn::Mul(load(weights + at), hn::Sub(t[r][v], mean));
          if (w.score_sums && w.wants_keys && r < place.keys) {
            const std::int64_t distance = place.query - place.key - r - w.first_distance;
            add_unaligned(w.score_sums + h * distances() + distance + v * kLanes, d);
          }
          if (cap > 0) d = hn::Mul(d, load(slopes + at));
          store(d, d_score + at);
        }
      }
    }
  }

  /// d score of one key's heads back through both layers: d hidden, and d content in its place.
  void through_network(Work& w, std::int64_t r) const {
    float* d_score = w.d_score + r * kPanel;
    float* d_hidden = w.d_hidden + r * kPanel;
    const float* active = w.active + r * kPanel;
    const float* weights = net_.cape.w2;
    cape_tiles(
        hidden_, [&](std::int64_t d, auto rows) __attribute__((always_inline)) {
          constexpr int kRows = decltype(rows)::value;
          Vec g[kRows][kVecs];
#pragma GCC unroll 8
          for (int n = 0; n < kRows; ++n) {
#pragma GCC unroll 4
            for (int v = 0; v < kVecs; ++v) g[n][v] = zero();
          }
          cape_sums<true>(weights + d, hidden_, d_score, kBackwardRow, heads_, g);
#pragma GCC unroll 8
          for (int n = 0; n < kRows; ++n) {
#pragma GCC unroll 4
            for (int v = 0; v < kVecs; ++v) {
              const std::int64_t at = (d + n) * kBackwardRow + v * kLanes;
              const LaneMask positive = hn::Gt(load(active + at), zero());
              store(hn::IfThenElse(positive, g[n][v], hn::Mul(g[n][v], set(0.01f))), d_hidden + at);
            }
          }
        });
    multiply_panel({net_.cape.w1, 1, net_.layout.width, d_hidden, kBackwardRow, d_score,
                    kBackwardRow, hidden_},
                   heads_);
  }

  /// A block's d hidden and d score into the sums by segment, and what reaches u into those by
  /// distance and query. distance: of the first query and key.
  void add_pieces(Work& w, std::int64_t distance, std::int64_t keys, CapePieceSums& sums) const {
    const CapePieces& pieces = *net_.pieces;
    const SegmentSpan span = segment_span(pieces, distance, w.row, keys);
    std::fill_n(w.d_places, keys * kPanel, 0.0f);
    for (std::int64_t n = span.first; n <= span.last; n += kPieceGroup) {
      const std::int64_t count = std::min(kPieceGroup, span.last - n + 1);
      for (std::int64_t r = 0; r < keys; ++r) {
        Vec u[kVecs];
        piece_places(pieces, distance - r, w.row, u);
        segment_members(pieces, span, n, count, u, w.members + r * kPanel, kBackwardRow);
      }
      add_member_sums(w, n, count, keys, sums);
      for (std::int64_t c = 0; c < count; ++c) add_places(w, n + c, c, keys);
    }
    for (int v = 0; v < kVecs; ++v) {
      const Vec factor = load_unaligned(pieces.factor(w.row) + v * kLanes);
      Vec d_factor = zero();
      for (std::int64_t r = 0; r < keys; ++r) {
        const std::int64_t lambda = distance - r;
        const Vec d_place = load(w.d_places + r * kPanel + v * kLanes);
        d_factor =
            hn::MulAdd(d_place, load_unaligned(pieces.distance(lambda) + v * kLanes), d_factor);
        add_unaligned(w.d_distance + (lambda - w.first_distance) + v * kLanes,
                      hn::Mul(d_place, factor));
      }
      store(hn::Add(load(w.d_factor + v * kLanes), d_factor), w.d_factor + v * kLanes);
    }
  }

  /// Of segments n .. n + count - 1, whose members are known.
  void add_member_sums(Work& w, std::int64_t n, std::int64_t count, std::int64_t keys,
                       CapePieceSums& sums) const {
    const std::int64_t rows = hidden_ + heads_, columns = 2 * count;
    std::fill_n(w.member_sums, rows * columns * kLanes, 0.0f);
    add_lane_products(w.d_hidden, rows, w.members, columns, keys * kVecs, w.member_sums);
    for (std::int64_t r = 0; r < rows; ++r) {
      double* to = sums.d_rows.data() + (r * net_.pieces->fire().segments + n) * 2;
      const float* from = w.member_sums + r * columns * kLanes;
      for (std::int64_t c = 0; c < count; ++c, from += 2 * kLanes) {
        const auto sum = static_cast<double>(sum_lanes(load(from)));
        const auto start = static_cast<double>(segment_start(*net_.pieces, n + c));
        to[2 * c] += sum;
        to[2 * c + 1] += static_cast<double>(sum_lanes(load(from + kLanes))) + start * sum;
      }
    }
  }

  /// Adds to d places what the pairs of segment n do, number c of the group.
  void add_places(Work& w, std::int64_t n, std::int64_t c, std::int64_t keys) const {
    const std::int64_t rows = hidden_ + heads_, count = keys * kPanel;
    float* of_all = w.d_places + kBackwardRow;
    std::fill_n(of_all, count, 0.0f);
    multiply_wide({net_.pieces->slopes(n), rows, 1, w.d_hidden, kBackwardRow, of_all, 0, rows}, 1,
                  keys * kVecs);
    const float* members = w.members + 2 * c * kBackwardRow;
    for (std::int64_t at = 0; at < count; at += kLanes) {
      store(hn::MulAdd(load(of_all + at), load(members + at), load(w.d_places + at)),
            w.d_places + at);
    }
  }

  /// dq, dk and dv of one head from d content and the weights.
  void add_head(Work& w, std::int64_t key, std::int64_t keys, std::int64_t h) const {
    const FloatRows k = rows_of(w, inputs_.k, shape_.head_dim, h, key, keys);
    const std::int64_t kv = h / (heads_ / shape_.kv_heads);
    const float* d_content = w.d_score + h * kBackwardRow;
    if (w.wants_queries) {
      multiply_panel({k.data, 1, k.row, d_content, kPanel,
                      w.dq_lanes + h * shape_.head_dim * kPanel, kPanel, keys},
                     shape_.head_dim);
    }
    if (!w.wants_keys) return;
    const std::int64_t row = kv * plan_.keys + (key - w.first_key);
    multiply_wide({d_content, kPanel, 1, w.q_rows + h * key_width_ * kPanel, key_width_,
                   w.dk + row * key_width_, key_width_, w.queries},
                  keys, key_width_ / kLanes);
    multiply_wide(
        {w.weights + h * kBackwardRow, kPanel, 1, w.d_out_rows + h * value_width_ * kPanel,
         value_width_, w.dv + row * value_width_, value_width_, w.queries},
        keys, value_width_ / kLanes);
  }

  /// The panel's sums of the scores' own gradients, likewise.
  void take_score_sums(const Work& w) const {
    const DistanceRange& range = w.item_scores->range();
    const DistanceRange part{w.first_distance,
                             std::min(w.first_distance + distances() - 1, range.last)};
    for (std::int64_t h = 0; h < heads_; ++h) {
      w.item_scores->take(h, 0, part,
                          w.score_sums + h * distances() - (w.first_distance - range.first));
    }
  }

  /// Each item has the distances of a tile, and each entry those of the whole.
  void begin_score_sums() {
    score_sums_ = DiagonalSums(net_.range, heads_, shape_.batch);
    item_scores_.assign(static_cast<std::size_t>(plan_.items()),
                        DiagonalSums(tile_distances(Tile{}), heads_, 1));
  }
  /// What the items of a tile have, in their order, to the sums of their entries.
  void gather_score_sums(std::int64_t batch, std::int64_t items) {
    parallel_items(heads_, [&](std::int64_t head, int) {
      for (std::int64_t n = 0; n < items; ++n) {
        score_sums_.take_all(head, batch + n / plan_.shares,
                             item_scores_[static_cast<std::size_t>(n)]);
      }
    });
  }

  /// The panel's float sums into the item's float64 ones.
  void flush(const Work& w, CapeSums& network) const {
    const std::int64_t skip = w.first_distance - network.range.first;
    const auto add = [&](std::vector<double>& to, std::int64_t rows, const float* from) {
      const std::int64_t count = std::min(distances(), network.range.size() - skip);
      for (std::int64_t r = 0; r < rows; ++r) {
        double* row = to.data() + r * network.range.size() + skip;
        for (std::int64_t n = 0; n < count; ++n) {
          row[n] += static_cast<double>(from[r * distances() + n]);
        }
      }
    };
    if (pieces()) {
      add(network.d_pieces.d_distance, 1, w.d_distance);
      for (std::int64_t n = 0; n < w.queries; ++n) {
        network.d_pieces.d_factor[static_cast<std::size_t>(w.row + n)] +=
            static_cast<double>(w.d_factor[n]);
      }
    } else {
      add(network.d_hidden, hidden_, w.d_hidden_diagonals);
      add(network.d_score, heads_, w.d_score_diagonals);
    }
    add_lane_sums(network.d_w1, w.w1_sums);
    add_lane_sums(network.d_w2, w.w2_sums);
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
    write(gradients_.dk, shape_.head_dim, sums + head * plan_.keys * key_width_);
    sums += shape_.kv_heads * plan_.keys * key_width_;
    write(gradients_.dv, value_dim(shape_), sums + head * plan_.keys * value_width_);
  }

  const AttentionInputs& inputs_;
  const SavedForward& saved_;
  const Gradients& gradients_;
  const AttentionShape& shape_;
  Visibility visibility_;
  CapeNetwork net_;
  std::int64_t heads_, hidden_, key_width_, value_width_;
  std::int64_t panels_ = 0;
  CapePlan plan_;
  std::int64_t sums_size_ = 0;  ///< floats of an item: dk and dv of a range
  OutputTensor partial_;        ///< sums of dq between ranges of keys, without its scale
  FloatBuffer partial_memory_;
  bool dq_apart_ = false;                  ///< dq comes from a pass of its own
  DiagonalSums score_sums_;                ///< a slot an entry
  std::vector<DiagonalSums> item_scores_;  ///< of the items at work; both empty where not wanted
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
