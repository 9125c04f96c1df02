// Numbers of single tokens in the scores (TokenTerms), around a variant that has none: biases of
// queries and keys, and a factor of each query.
#if defined(PHASESCOPE_VARIANTS_TOKENS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_TOKENS_INL_H
#undef PHASESCOPE_VARIANTS_TOKENS_INL_H
#else
#define PHASESCOPE_VARIANTS_TOKENS_INL_H
#endif

#include <algorithm>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Float64 numbers of tokens, (B heads, tokens), as two floats each that hold 48 bits of it: where
/// two large numbers nearly cancel, so do their first floats, exactly. Rows are padded by what a
/// tile may reach past the last token; null is 0 everywhere.
class SplitTokens {
 public:
  SplitTokens(const double* from, std::int64_t rows, std::int64_t tokens, std::int64_t reach)
      : width_(tokens + reach), values_(2 * rows * width_, 0.0f) {
    for (std::int64_t r = 0; r < rows && from; ++r) {
      float *high = values_.data() + 2 * r * width_, *low = high + width_;
      for (std::int64_t n = 0; n < tokens; ++n) {
        const double value = from[r * tokens + n];
        high[n] = static_cast<float>(value);
        low[n] = static_cast<float>(value - static_cast<double>(high[n]));
      }
    }
  }

  const float* high(std::int64_t row) const { return values_.data() + 2 * row * width_; }
  const float* low(std::int64_t row) const { return high(row) + width_; }

 private:
  std::int64_t width_;
  FloatBuffer values_;
};

/// Scores times the factors of their queries; what a table masks stays masked.
HWY_INLINE void scale_scores(const float* factors, Vec (&t)[kTileKeys][kVecs]) {
  for (int v = 0; v < kVecs; ++v) {
    const Vec factor = load_unaligned(factors + v * kLanes);
    for (int r = 0; r < kTileKeys; ++r) {
      const LaneMask masked = hn::Le(t[r][v], set(kFirstMaximum));
      t[r][v] = hn::IfThenElse(masked, set(kMaskedScore), hn::Mul(t[r][v], factor));
    }
  }
}

/// s = factor[i] (the score of Base + query[i] + key[j]).
template <class Base>
class TokenScore : public Base {
 public:
  static constexpr bool kReadsDots = true;  // of the factor's gradient
  struct Head {
    typename Base::Head base;
    const float *query, *query_low;  ///< at the query whose key index is 0
    const float *key, *key_low;      ///< at key 0
    const float* factor;             ///< likewise of queries; null: 1
  };
  /// Where the sums of a tile's queries and keys begin in the scratch of an item.
  struct Tile {
    typename Base::Tile base;
    std::int64_t query, key;
  };

  explicit TokenScore(const AttentionInputs& inputs)
      : Base(inputs),
        query_(inputs.tokens.query, rows(), queries(), kPanel),
        key_(inputs.tokens.key, rows(), keys(), kTileKeys) {
    if (!inputs.tokens.factor) return;
    factor_ = FloatBuffer(rows() * (queries() + kPanel), 1.0f);
    for (std::int64_t r = 0; r < rows(); ++r) {
      std::copy_n(inputs.tokens.factor + r * queries(), queries(),
                  factor_.data() + r * (queries() + kPanel));
    }
  }

  Head head(std::int64_t batch, std::int64_t head) const {
    const std::int64_t row = batch * shape().heads + head, offset = shape().query_offset;
    const float* factor = factor_.data();
    return {Base::head(batch, head),
            query_.high(row) - offset,
            query_.low(row) - offset,
            key_.high(row),
            key_.low(row),
            factor ? factor + row * (queries() + kPanel) - offset : nullptr};
  }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&second)[kTileKeys][kVecs]) const {
    Base::score(head.base, place, t, second);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        t[r][v] = hn::MulAdd(bias(head, place, r, v), set(kLog2e), t[r][v]);
      }
    }
    if (head.factor) scale_scores(head.factor + place.query, t);
  }

  Tile tile(const TilePlace& place) const {
    return {Base::tile(place), (place.query - shape().query_offset) % kQueryBlock,
            place.key % kRangeKeys};
  }

  /// d s of Base = factor d s, which its query's and its key's biases have too; d factor = d s
  /// times what it multiplies.
  HWY_INLINE DotGradients gradient(const Head& head, const Tile& tile, const TilePlace& place,
                                   int r, int v, Vec d_score, Vec a, Vec b, float* scratch) const {
    float* of_query = scratch + tile.query + v * kLanes;
    Vec d = d_score;
    if (head.factor) {
      const Vec before = hn::MulAdd(Base::score_of(head.base, place, r, v, a, b), set(kLn2),
                                    bias(head, place, r, v));
      add_at(of_query + kQueryBlock, hn::Mul(d, before));
      d = hn::Mul(d, load_unaligned(head.factor + place.query + v * kLanes));
    }
    add_at(of_query, d);
    add_at(scratch + kOfKeys + (tile.key + r) * kLanes, d);
    return Base::gradient(head.base, tile.base, place, r, v, d, a, b, scratch + kOwn);
  }

  /// Where the second dots are Base's own (VariantDefaults::kRelativeDots).
  HWY_INLINE void relative_dots(const Head& head, const TilePlace& place, const float* r,
                                Vec (&dots)[kTileKeys][kVecs]) const {
    Base::relative_dots(head.base, place, r, dots);
  }
  void add_to_queries(const Head& head, std::int64_t lambda, const float* d_score,
                      std::int64_t pitch, std::int64_t count, float* dr) const {
    Base::add_to_queries(head.base, lambda, d_score, pitch, count, dr);
  }
  void add_to_keys(std::int64_t lambda, const float* d_score, std::int64_t pitch,
                   std::int64_t count, const float* r, float* scratch) const {
    Base::add_to_keys(lambda, d_score, pitch, count, r, scratch + kOwn);
  }

  float* by_distance(float* scratch) const { return Base::by_distance(scratch + kOwn); }
  std::int64_t scratch_size() const { return kOwn + Base::scratch_size(); }

  void begin_gradients(const Gradients& gradients, std::int64_t slots) {
    Base::begin_gradients(gradients, slots);
    const auto sized = [](const float* wanted, std::int64_t size) {
      return std::vector<double>(wanted ? static_cast<std::size_t>(size) : 0);
    };
    slots_ = slots;
    d_query_ = sized(gradients.tokens.query, rows() * queries());
    d_factor_ = sized(gradients.tokens.factor, rows() * queries());
    d_key_ = sized(gradients.tokens.key, shape().heads * slots * keys());
  }

  void flush(std::int64_t head, std::int64_t slot, std::int64_t query, const KeyRange& range,
             float* scratch) {
    const std::int64_t batch = slot / (slots_ / shape().batch);
    const std::int64_t first = (batch * shape().heads + head) * queries() + query;
    const std::int64_t count = std::min<std::int64_t>(kQueryBlock, queries() - query);
    for (auto* sums : {&d_query_, &d_factor_}) {
      const float* from = scratch + (sums == &d_query_ ? 0 : kQueryBlock);
      for (std::int64_t n = 0; n < count && !sums->empty(); ++n) {
        (*sums)[static_cast<std::size_t>(first + n)] += static_cast<double>(from[n]);
      }
    }
    const float* lanes = scratch + kOfKeys + range.begin % kRangeKeys * kLanes;
    const std::int64_t key = (head * slots_ + slot) * keys();
    for (std::int64_t j = range.begin; j < range.end && !d_key_.empty(); ++j, lanes += kLanes) {
      double sum = 0;
      for (int n = 0; n < kLanes; ++n) sum += static_cast<double>(lanes[n]);
      d_key_[static_cast<std::size_t>(key + j)] += sum;
    }
    std::fill(scratch, scratch + kOwn, 0.0f);
    Base::flush(head, slot, query, range, scratch + kOwn);
  }

  void finish_gradients(const Gradients& gradients) {
    Base::finish_gradients(gradients);
    const auto write = [](const std::vector<double>& sums, float* to) {
      std::transform(sums.begin(), sums.end(), to, [](double x) { return static_cast<float>(x); });
    };
    write(d_query_, gradients.tokens.query);
    write(d_factor_, gradients.tokens.factor);
    const std::int64_t chunks = slots_ / shape().batch;
    for (std::int64_t r = 0; r < rows() && !d_key_.empty(); ++r) {
      const std::int64_t batch = r / shape().heads, head = r % shape().heads;
      for (std::int64_t j = 0; j < keys(); ++j) {
        double sum = 0;
        for (std::int64_t c = 0; c < chunks; ++c) {
          const std::int64_t slot = batch * chunks + c;
          sum += d_key_[static_cast<std::size_t>((head * slots_ + slot) * keys() + j)];
        }
        gradients.tokens.key[r * keys() + j] = static_cast<float>(sum);
      }
    }
  }

 private:
  // An item's sums since the last flush: of a block of queries, and of a range of keys a vector
  // each (the lanes' queries are summed at the flush), with what a tile may reach past its end.
  static constexpr std::int64_t kOfKeys = 2 * kQueryBlock;
  static constexpr std::int64_t kOwn = kOfKeys + (kRangeKeys + kTileKeys) * kLanes;

  const AttentionShape& shape() const { return this->inputs_.shape; }
  std::int64_t rows() const { return shape().batch * shape().heads; }
  std::int64_t queries() const { return shape().queries; }
  std::int64_t keys() const { return shape().keys; }

  static HWY_INLINE void add_at(float* to, Vec x) {
    store_unaligned(hn::Add(load_unaligned(to), x), to);
  }

  /// query + key of a vector of pairs: of both first floats, then of what is left.
  static HWY_INLINE Vec bias(const Head& head, const TilePlace& place, int r, int v) {
    const std::int64_t query = place.query + v * kLanes, key = place.key + r;
    const Vec high = hn::Add(load_unaligned(head.query + query), set(head.key[key]));
    return hn::Add(high, hn::Add(load_unaligned(head.query_low + query), set(head.key_low[key])));
  }

  SplitTokens query_, key_;
  FloatBuffer factor_;  ///< (B heads, queries and a panel); no data where there are none
  std::int64_t slots_ = 0;
  std::vector<double> d_query_, d_factor_;  ///< (B heads, queries); empty where not wanted
  std::vector<double> d_key_;               ///< (heads, slots, keys); likewise
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
