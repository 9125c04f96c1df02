// Reading a region of the map: scores are computed again for its pairs, a panel of rows and a few
// columns at a time, and written out or pooled to cells.
#if defined(PHASESCOPE_CPU_REGION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_REGION_INL_H
#undef PHASESCOPE_CPU_REGION_INL_H
#else
#define PHASESCOPE_CPU_REGION_INL_H
#endif

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cells.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Scores of one head at a time (variants whose heads stand alone).
template <HeadVariant V>
class HeadScores {
 public:
  static constexpr std::int64_t kKeys = 64;
  static_assert(kKeys >= kPanel);  // 16-bit queries are widened where keys are later
  static constexpr bool kHeadsTogether = false;

  HeadScores(const AttentionInputs& inputs, const V& variant)
      : inputs_(inputs),
        visibility_(inputs),
        cap_(inputs.soft_cap * kLog2e),
        variant_(variant),
        scores_(kKeys * kPanel) {
    for (int n = 0; n < V::kDots; ++n) {
      dots_[n] = variant.dot(n);
      packed_[n] = FloatBuffer(dots_[n].dim * kPanel);
      spare_[n] = FloatBuffer(dots_[n].dim * kKeys);
    }
  }

  /// Panel of `count` queries from `row` of one head.
  void load(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count) {
    const AttentionShape& s = inputs_.shape;
    for (int n = 0; n < V::kDots; ++n) {
      const DotStream& dot = dots_[n];
      const FloatRows q = float_rows(dot.q, batch, head, row, count, dot.dim, spare_[n].data());
      pack_panel(q.data, q.row, count, dot.dim, n == 0 ? dot.scale * kLog2e : dot.scale,
                 packed_[n].data());
      dim_[n] = dot.dim;
    }
    batch_ = batch;
    kv_head_ = head / (s.heads / s.kv_heads);
    head_ = variant_.head(batch, head);
    place_ = tile_place(s, visibility_, batch, row, count, 0);
  }

  /// Scores of keys key .. key + count - 1 (at most kKeys), log2 units, masked ones kMaskedScore.
  void compute(std::int64_t key, std::int64_t count) {
    const float* q[2] = {packed_[0].data(), packed_[1].data()};
    FloatRows k[2];
    for (int n = 0; n < kKeyDots<V>; ++n) {
      k[n] = float_rows(dots_[n].k, batch_, kv_head_, key, count, dim_[n], spare_[n].data());
    }
    for (std::int64_t n = 0; n < count; n += kTileKeys) {
      place_.key = key + n;
      place_.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, count - n));
      float* to = scores_.data() + n * kPanel;
      if (is_hidden(place_)) {
        for (int r = 0; r < kTileKeys; ++r) fill_panel(to + r * kPanel, kMaskedScore);
        continue;
      }
      Vec t[kTileKeys][kVecs];
      Vec second[kTileKeys][kVecs];
      dot_tiles(variant_, head_, place_, q, k, dim_, t, second);
      variant_.score(head_, place_, t, second);
      cap_tile(cap_, t);
      if (is_masked(place_)) mask_tile(place_, t);
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          store(t[r][v], to + r * kPanel + v * kLanes);
        }
      }
    }
  }

  /// (kKeys, kPanel) of the head that was loaded.
  const float* scores(std::int64_t) const { return scores_.data(); }

 private:
  const AttentionInputs& inputs_;
  Visibility visibility_;
  float cap_;
  const V& variant_;
  DotStream dots_[2];
  FloatBuffer packed_[2], spare_[2];
  FloatBuffer scores_;
  std::int64_t batch_ = 0, kv_head_ = 0;
  std::int64_t dim_[2] = {};
  typename V::Head head_{};
  TilePlace place_{};
};

/// Runs over a region with one Source of scores a thread.
template <class Source>
class RegionPass {
 public:
  template <class Shared>
  RegionPass(const AttentionInputs& inputs, const float* lse, const Region& region,
             const Shared& shared)
      : inputs_(inputs), lse_(lse), region_(region), visibility_(inputs) {
    for (int n = 0; n < parallel_threads(); ++n) sources_.emplace_back(inputs, shared);
  }

  void run(const RegionCall& call) {
    if (call.map) {
      pool(*call.map);
    } else if (call.sums) {
      sum(*call.sums);
    } else {
      write(call.scores, call.weights);
    }
  }

 private:
  /// Every pair.
  void write(float* scores, float* weights) {
    const std::int64_t rows = region_.row_end - region_.row_begin;
    parallel_items((rows + kPanel - 1) / kPanel, [&](std::int64_t panel, int thread) {
      const std::int64_t row = region_.row_begin + panel * kPanel;
      const std::int64_t count = std::min<std::int64_t>(kPanel, region_.row_end - row);
      visit(sources_[static_cast<std::size_t>(thread)], row, count,
            {region_.col_begin, region_.col_end},
            [&](std::int64_t head, std::int64_t key, std::int64_t keys, const float* t) {
              write_block(head, row, count, key, keys, t, scores, weights);
            });
    });
  }

  /// Pooled to cells.
  void pool(const MapOutputs& map) {
    rows_ = {region_.row_begin, region_.row_end, map.height};
    columns_ = {region_.col_begin, region_.col_end, map.width};
    const std::vector<CellGroup> groups = group_cells(rows_, kPanel);
    const std::vector<CellGroup> shares = group_cells(columns_, kShareColumns);
    const auto across = static_cast<std::int64_t>(shares.size());
    parallel_items(static_cast<std::int64_t>(groups.size()) * across,
                   [&](std::int64_t item, int thread) {
                     pool_cells(map, groups[static_cast<std::size_t>(item / across)],
                                shares[static_cast<std::size_t>(item % across)],
                                sources_[static_cast<std::size_t>(thread)]);
                   });
  }

  /// What the rows of some panels add to columns, distances and squares, of all heads.
  struct ShareSums {
    std::vector<double> column, distance, square;
  };
  static constexpr std::int64_t kMostShares = 16;

  /// Of whole heads: shares of the panels, by the shape alone, whose sums are added up in order.
  void sum(const ScoreSums& sums) {
    const std::int64_t heads = region_.head_count, keys = inputs_.shape.keys;
    const std::int64_t rows = inputs_.shape.queries, panels = (rows + kPanel - 1) / kPanel;
    const auto size = [heads](const double* wanted, std::int64_t count) {
      return static_cast<std::size_t>(wanted ? heads * count : 0);
    };
    const ShareSums none{std::vector<double>(size(sums.column, keys)),
                         std::vector<double>(size(sums.distance, sums.length)),
                         std::vector<double>(size(sums.square, 1))};
    std::vector<ShareSums> shares(static_cast<std::size_t>(std::min(kMostShares, panels)), none);
    const auto count = static_cast<std::int64_t>(shares.size());
    parallel_items(count, [&](std::int64_t share, int thread) {
      for (std::int64_t row = share * kPanel; row < rows; row += count * kPanel) {
        sum_panel(sums, row, std::min<std::int64_t>(kPanel, rows - row),
                  sources_[static_cast<std::size_t>(thread)],
                  shares[static_cast<std::size_t>(share)]);
      }
    });
    const auto add = [&](double* to, std::vector<double> ShareSums::*part) {
      for (const ShareSums& share : shares) {
        const std::vector<double>& from = share.*part;
        double* text = to + region_.batch * static_cast<std::int64_t>(from.size());
        for (std::size_t n = 0; n < from.size(); ++n) text[n] += from[n];
      }
    };
    if (sums.column) add(sums.column, &ShareSums::column);
    if (sums.distance) add(sums.distance, &ShareSums::distance);
    if (sums.square) add(sums.square, &ShareSums::square);
  }

  void sum_panel(const ScoreSums& sums, std::int64_t row, std::int64_t count, Source& source,
                 ShareSums& share) const {
    const KeyRange keys = visibility_.keys(region_.batch, row, row + count - 1);
    if (keys.begin >= keys.end) return;
    visit(source, row, count, keys,
          [&](std::int64_t head, std::int64_t key, std::int64_t number, const float* t) {
            sum_block(sums, head, row, count, key, number, t, share);
          });
  }

  /// Sums of a block in float32, of at most kPanel or Source::kKeys numbers each, then in float64.
  void sum_block(const ScoreSums& sums, std::int64_t head, std::int64_t row, std::int64_t count,
                 std::int64_t key, std::int64_t keys, const float* t, ShareSums& share) const {
    const std::int64_t first =
        (region_.batch * inputs_.shape.heads + head) * inputs_.shape.queries + row;
    HWY_ALIGN float shift[2 * kPanel] = {};  // in two floats
    HWY_ALIGN float rows[2 * kPanel] = {};   // sums, then numbers of pairs
    float diagonals[Source::kKeys + kPanel] = {};
    for (std::int64_t n = 0; n < count && sums.shift; ++n) {
      shift[n] = static_cast<float>(sums.shift[first + n]);
      shift[kPanel + n] = static_cast<float>(sums.shift[first + n] - static_cast<double>(shift[n]));
    }
    double square = 0;
    for (std::int64_t r = 0; r < keys; ++r) {
      Vec column = zero(), squares = zero();
      for (int v = 0; v < kVecs; ++v) {
        const int lane = v * kLanes;
        const Vec score = load(t + r * kPanel + lane);
        const LaneMask visible = hn::And(
            seen(score), hn::Lt(iota(static_cast<float>(lane)), set(static_cast<float>(count))));
        const Vec natural = hn::Sub(hn::Mul(score, set(kLn2)), load(shift + lane));
        const Vec s = hn::IfThenElseZero(visible, hn::Sub(natural, load(shift + kPanel + lane)));
        column = hn::Add(column, s);
        squares = hn::MulAdd(s, s, squares);
        store(hn::Add(load(rows + lane), s), rows + lane);
        store(hn::Add(load(rows + kPanel + lane), hn::IfThenElseZero(visible, set(1.0f))),
              rows + kPanel + lane);
        float* diagonal = diagonals + (keys - 1 - r) + lane;
        store_unaligned(hn::Add(load_unaligned(diagonal), s), diagonal);
      }
      square += static_cast<double>(sum_lanes(squares));
      if (sums.column) {
        share.column[static_cast<std::size_t>(head * inputs_.shape.keys + key + r)] +=
            static_cast<double>(sum_lanes(column));
      }
    }
    if (sums.square) share.square[static_cast<std::size_t>(head)] += square;
    for (std::int64_t n = 0; n < count; ++n) {  // rows that no other share has
      if (sums.row) sums.row[first + n] += static_cast<double>(rows[n]);
      if (sums.pairs) sums.pairs[first + n] += static_cast<std::int64_t>(rows[kPanel + n]);
    }
    const std::int64_t least = row + inputs_.shape.query_offset - key - (keys - 1);
    for (std::int64_t n = 0; n < keys - 1 + kPanel && sums.distance; ++n) {
      const std::int64_t distance = std::abs(least + n);
      if (distance >= sums.length) continue;
      share.distance[static_cast<std::size_t>(head * sums.length + distance)] +=
          static_cast<double>(diagonals[n]);
    }
  }

  /// Which scores no mask hides; a NaN is one of them.
  static HWY_INLINE LaneMask seen(Vec score) { return hn::Not(hn::Le(score, set(kFirstMaximum))); }

  /// Lane sums of a panel for each head and column cell: sum, maximum, count, each kPanel floats.
  static constexpr std::int64_t kStats = 3;
  // Columns of a work item of cells: what it holds stays small, and one row of cells has several
  // items; packing the panels of queries once for each costs a few per cent.
  static constexpr std::int64_t kShareColumns = 1024;

  /// Calls use(head of the region, key, keys, scores) for blocks of `columns` of the panel.
  template <class Use>
  void visit(Source& source, std::int64_t row, std::int64_t count, const KeyRange& columns,
             const Use& use) const {
    const std::int64_t step = Source::kHeadsTogether ? region_.head_count : 1;
    for (std::int64_t h = 0; h < region_.head_count; h += step) {
      source.load(region_.batch, region_.head_begin + h, row, count);
      for (std::int64_t key = columns.begin; key < columns.end; key += Source::kKeys) {
        const std::int64_t keys = std::min<std::int64_t>(Source::kKeys, columns.end - key);
        source.compute(key, keys);
        for (std::int64_t n = h; n < h + step; ++n) {
          use(n, key, keys, source.scores(region_.head_begin + n));
        }
      }
    }
  }

  /// lse of a panel's rows: `high` of Log2Lse, then `low`.
  void load_lse(std::int64_t head, std::int64_t row, std::int64_t count, float* to) const {
    const std::int64_t first =
        (region_.batch * inputs_.shape.heads + region_.head_begin + head) * inputs_.shape.queries +
        row;
    const float* sink = sink_of(inputs_, region_.head_begin + head);
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const Log2Lse lse = n < count && lse_ ? log2_lse(lse_[first + n], sink) : Log2Lse{};
      to[n] = lse.high;
      to[kPanel + n] = lse.low;
    }
  }

  void write_block(std::int64_t head, std::int64_t row, std::int64_t count, std::int64_t key,
                   std::int64_t keys, const float* t, float* scores, float* weights) const {
    HWY_ALIGN float lse[2 * kPanel];
    load_lse(head, row, count, lse);
    const std::int64_t rows = region_.row_end - region_.row_begin;
    const std::int64_t width = region_.col_end - region_.col_begin;
    for (std::int64_t r = 0; r < keys; ++r) {
      HWY_ALIGN float p[kPanel];
      for (int v = 0; v < kVecs; ++v) {
        store(weight_of(load(t + r * kPanel + v * kLanes), lse + v * kLanes), p + v * kLanes);
      }
      for (std::int64_t n = 0; n < count; ++n) {
        const std::int64_t at =
            (head * rows + row - region_.row_begin + n) * width + key + r - region_.col_begin;
        const float score = t[r * kPanel + n];
        if (scores) {
          scores[at] =
              score <= kFirstMaximum ? -std::numeric_limits<float>::infinity() : score * kLn2;
        }
        if (weights) weights[at] = p[n];
      }
    }
  }

  /// Cells of some rows and columns of cells: panels of their rows, then one more loop over lanes.
  void pool_cells(const MapOutputs& map, const CellGroup& group, const CellGroup& share,
                  Source& source) const {
    const std::int64_t width = share.end - share.begin;
    const std::int64_t cells = (group.end - group.begin) * width;
    std::vector<double> sums(static_cast<std::size_t>(region_.head_count * cells));
    std::vector<double> counts(sums.size());
    std::vector<float> maxima(sums.size(), kMaskedScore);
    FloatBuffer stats(region_.head_count * width * kStats * kPanel);
    const std::int64_t end = rows_.last(group.end - 1);
    for (std::int64_t row = rows_.first(group.begin); row < end; row += kPanel) {
      const std::int64_t count = std::min<std::int64_t>(kPanel, end - row);
      KeyRange seen = visibility_.keys(region_.batch, row, row + count - 1);
      seen.begin = std::max(seen.begin, columns_.first(share.begin));
      seen.end = std::min(seen.end, columns_.last(share.end - 1));
      if (seen.begin >= seen.end) continue;
      clear(stats.data(), region_.head_count * width);
      visit(source, row, count, seen,
            [&](std::int64_t head, std::int64_t key, std::int64_t keys, const float* t) {
              pool_columns(map, share, head, row, count, key, keys, t,
                           stats.data() + head * width * kStats * kPanel);
            });
      for (std::int64_t c = 0; c < region_.head_count * cells; ++c) {
        const std::int64_t head = c / cells, y = group.begin + c % cells / width;
        const float* lanes = stats.data() + (head * width + c % width) * kStats * kPanel;
        const auto at = static_cast<std::size_t>(c);
        for (std::int64_t n = std::max(rows_.first(y), row) - row;
             n < std::min(rows_.last(y), row + count) - row; ++n) {
          sums[at] += static_cast<double>(lanes[n]);
          maxima[at] = std::max(maxima[at], lanes[kPanel + n]);
          counts[at] += static_cast<double>(lanes[2 * kPanel + n]);
        }
      }
    }
    for (std::int64_t c = 0; c < region_.head_count * cells; ++c) {
      const auto at = static_cast<std::size_t>(c);
      write_cell(map, c / cells, group.begin + c % cells / width, share.begin + c % width, sums[at],
                 maxima[at], counts[at]);
    }
  }

  static void clear(float* stats, std::int64_t cells) {
    for (std::int64_t c = 0; c < cells; ++c) {
      fill_panel(stats + c * kStats * kPanel, 0);
      fill_panel(stats + c * kStats * kPanel + kPanel, kMaskedScore);
      fill_panel(stats + c * kStats * kPanel + 2 * kPanel, 0);
    }
  }

  /// Adds a block of columns to the lane sums of the cells of `share` it touches. stats: (cells,
  /// kStats, kPanel).
  void pool_columns(const MapOutputs& map, const CellGroup& share, std::int64_t head,
                    std::int64_t row, std::int64_t count, std::int64_t key, std::int64_t keys,
                    const float* t, float* stats) const {
    HWY_ALIGN float lse[2 * kPanel];
    load_lse(head, row, count, lse);
    const bool weights = map.quantity == MapQuantity::weight;
    const std::int64_t width = columns_.end - columns_.begin;
    // The first cell that can reach this block; cells are in order of their columns.
    std::int64_t x = std::max(share.begin, (key - columns_.begin) * map.width / width - 1);
    for (; x < share.end && columns_.first(x) < key + keys; ++x) {
      const std::int64_t from = std::max(columns_.first(x), key) - key;
      const std::int64_t to = std::min(columns_.last(x), key + keys) - key;
      float* cell = stats + (x - share.begin) * kStats * kPanel;
      for (std::int64_t r = from; r < to; ++r) add_column(t + r * kPanel, lse, weights, cell);
    }
  }

  static HWY_INLINE void add_column(const float* t, const float* lse, bool weights, float* cell) {
    for (int v = 0; v < kVecs; ++v) {
      const Vec score = load(t + v * kLanes);
      const LaneMask visible = seen(score);
      const Vec value = weights ? weight_of(score, lse + v * kLanes) : hn::Mul(score, set(kLn2));
      float* sum = cell + v * kLanes;
      float* maximum = sum + kPanel;
      float* number = maximum + kPanel;
      store(hn::Add(load(sum), hn::IfThenElseZero(visible, value)), sum);
      const Vec shown = hn::IfThenElse(visible, value, set(kMaskedScore));
      store(hn::Max(load(maximum), shown), maximum);
      store(hn::Add(load(number), hn::IfThenElseZero(visible, set(1.0f))), number);
    }
  }

  void write_cell(const MapOutputs& map, std::int64_t head, std::int64_t y, std::int64_t x,
                  double sum, float maximum, double count) const {
    const std::int64_t at = (head * map.height + y) * map.width + x;
    const double pairs = static_cast<double>((rows_.last(y) - rows_.first(y)) *
                                             (columns_.last(x) - columns_.first(x)));
    const float none = -std::numeric_limits<float>::infinity();
    const double share = map.quantity == MapQuantity::weight ? pairs : count;
    if (map.mean) map.mean[at] = count == 0 ? none : static_cast<float>(sum / share);
    if (std::isnan(sum)) maximum = static_cast<float>(sum);  // a comparison loses it
    if (map.maximum) map.maximum[at] = count == 0 ? none : maximum;
    if (map.share) map.share[at] = static_cast<float>(count / pairs);
  }

  const AttentionInputs& inputs_;
  const float* lse_;
  const Region& region_;
  Visibility visibility_;
  std::vector<Source> sources_;
  CellAxis rows_, columns_;
};

/// Regions of a variant whose heads stand alone.
template <HeadVariant V>
void run_region(const RegionCall& call) {
  const V variant(call.inputs);
  RegionPass<HeadScores<V>> pass(call.inputs, call.lse, call.region, variant);
  pass.run(call);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
