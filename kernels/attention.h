#pragma once
// The streaming attention of Phasescope on the CPU: one forward, one backward, and reading a region
// of the map, for every variant. Float32 arithmetic on float32 or 16-bit tensors; no array of
// queries x keys ever exists, nor a float32 copy of a 16-bit input. (The backward pass sums dk and
// dv in float32 before it stores them.)
//
// Sections: variants, probes, forward, backward, regions of the map, sums of scores. Tensors and
// shapes are those of tensors.h.
//
// Words: query i (row), key j (column), score s (before softmax), weight p (after), distance
// lambda = (i + query_offset) - j. All functions are re-entrant, run on OpenMP's threads, and give
// the same bits for any number of threads. They throw std::invalid_argument (one sentence) when
// shapes or pointers do not fit; nothing has been written then.

#include <array>
#include <cstdint>
#include <optional>
#include <variant>

#include "kernels/tensors.h"
#include "kernels/variants/scores.h"

namespace phasescope::kernels {

// ---- Variants ----------------------------------------------------------------------------------

// Each of these structs names its score, without numbers of tokens around it, and lists its arrays
// once: arrays(self, shape, each) calls each(pointer, numbers) and each(tensor, TensorSize) for all
// of them, null ones too. What checks them, or moves them to a device, goes by that list.

/// Of a tensor of as many texts as the call has.
struct TensorSize {
  std::int64_t heads, rows, channels;
};
/// Numbers of an array (count, width) whose rows are `stride` apart.
constexpr std::int64_t strided_size(std::int64_t count, std::int64_t stride, std::int64_t width) {
  return count > 0 ? (count - 1) * stride + width : 0;
}

/// s = scale * q.k. Also for encodings that rotate q and k before (rope, xpos, ape).
struct PlainVariant {
  ScoreName score() const { return ScoreName::plain; }
  template <class Self, class Each>
  static void arrays(Self&, const AttentionShape&, const Each&) {}
};

/// s = scale * q.k + values[h][lambda - first_distance] (alibi, kerple, t5, ...), or with
/// `multiplies` s = scale * q.k * values[...] (the decay of ape).
/// values: (heads, length) float32; -inf masks where it is added, factors are finite. Every
/// distance in use must be in the table: with first_distance = 0 a negative distance reads its
/// absolute value, otherwise tables are signed (lambda = first_distance .. first_distance + length
/// - 1).
struct TableVariant {
  const float* values = nullptr;
  std::int64_t head_stride = 0;  ///< elements from one head's table to the next
  std::int64_t length = 0;
  std::int64_t first_distance = 0;  ///< <= 0
  bool multiplies = false;

  ScoreName score() const { return multiplies ? ScoreName::table_multiplied : ScoreName::table; }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.values, strided_size(s.heads, self.head_stride, self.length));
  }
};

/// s = scale * q.k + values[b][h][i][lambda] for 0 <= lambda < length, and scale * q.k for all
/// other distances: what a vector of each query makes of a table of vectors by distance (r_i .
/// P[lambda]). values: (B, heads, queries, length) float32, contiguous and finite.
struct QueryTableVariant {
  const float* values = nullptr;
  std::int64_t length = 0;

  ScoreName score() const { return ScoreName::query_table; }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.values, s.batch * s.heads * s.queries * self.length);
  }
};

/// s = scale * q.k + r_i . P[lambda]: a vector of each query times a table of vectors by distance,
/// the relative keys of Shaw et al. (arXiv 1803.02155) and of Transformer-XL (arXiv 1901.02860).
/// keys: (rank, length) float32 and contiguous, of distances first_distance .. first_distance +
/// length - 1, finite. Other distances add nothing or, with `clips`, what the nearest of these
/// does. The products are made tile by tile, so that none of N x N or N x length is kept. Not on
/// CUDA, where QueryTableVariant takes those from distance 0 on that do not clip, of a limited
/// length and without numbers of tokens.
struct RelativeKeysVariant {
  InputTensor r;  ///< (B, heads, queries, rank)
  std::int64_t rank = 0;
  const float* keys = nullptr;
  std::int64_t head_stride = 0;  ///< from one head's keys to the next, rank * length; 0: all share
  std::int64_t length = 0;
  std::int64_t first_distance = 0;
  bool clips = false;

  ScoreName score() const { return ScoreName::relative_keys; }
  /// Numbers of `keys`.
  std::int64_t size(const AttentionShape& s) const {
    return (head_stride == 0 ? 1 : s.heads) * rank * length;
  }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.r, TensorSize{s.heads, s.queries, self.rank});
    each(self.keys, self.size(s));
  }
};

/// s = scale * q.k for lambda <= limits[h], and scale * far_q.far_k beyond: keys farther away than
/// a limit are read as if they stood at it (far_q turned by the limit, far_k by nothing). Probes
/// have q.k for the content score.
struct ClampVariant {
  InputTensor q;                         ///< (B, heads, queries, head_dim)
  InputTensor k;                         ///< (B, kv_heads, keys, head_dim)
  const std::int64_t* limits = nullptr;  ///< (heads), >= 0

  ScoreName score() const { return ScoreName::clamp; }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.q, TensorSize{s.heads, s.queries, s.head_dim});
    each(self.k, TensorSize{s.kv_heads, s.keys, s.head_dim});
    each(self.limits, s.heads);
  }
};

enum class TapaPhase { quadratic, linear };

/// TAPA (arXiv 2509.12635): the first content_dim channels A, the rest P;
///   s = scale_content * (qA.kA) * cos(power[|lambda|] * phase)
///   quadratic: phase = scale_phase * (qP.kP); linear: scale_phase * (sum qP + sum kP).
/// `scale` of AttentionInputs is not used. power: float32 |lambda|^alpha with any 2 pi folded in,
/// one entry for every |lambda| in use. Not differentiated (alpha and the split are fixed).
struct TapaVariant {
  std::int64_t content_dim = 0;
  float scale_content = 1;
  float scale_phase = 1;
  TapaPhase phase = TapaPhase::quadratic;
  const float* power = nullptr;
  std::int64_t power_length = 0;

  ScoreName score() const {
    return phase == TapaPhase::linear ? ScoreName::tapa_linear : ScoreName::tapa;
  }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape&, const Each& each) {
    each(self.power, self.power_length);
  }
};

/// TAPE (arXiv 2501.00712): s = scale * q.k with q and k rotated before by their tokens' states,
/// and a second value stream (B, kv_heads, keys, state_dim) averaged with the same weights into
/// ForwardOutputs::out_state.
struct TapeVariant {
  InputTensor state;
  std::int64_t state_dim = 0;

  ScoreName score() const { return ScoreName::tape; }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.state, TensorSize{s.kv_heads, s.keys, self.state_dim});
  }
};

/// FIRE (arXiv 2310.04418, Eq. 7-8) where rows differ in their normaliser. Its network reads one
/// number, u = distance[lambda] * factor[i], and is piecewise linear in it, with knots that all
/// heads share:
///   s = scale * q.k + slope[h][n] * u + intercept[h][n], n = the number of knots below u.
/// distance is ln(|c lambda| + 1), factor 1 / (ln(|c max(i, |mult L|)| + 1) + 1e-6). The pieces
/// meet at the knots (either side of one will do there), and pairs that a tile's corners put into
/// one segment are all taken to lie in it. Causal alone: every distance in use is 0 or more.
struct FireVariant {
  const float* distance = nullptr;  ///< (length), >= 0 and rising; every distance in use, from 0
  std::int64_t length = 0;
  const float* factor = nullptr;  ///< (queries), of query row i, > 0 and falling
  const float* knots = nullptr;   ///< (segments - 1), ascending; may be null with one segment
  std::int64_t segments = 1;
  const float* slope = nullptr;      ///< (heads, segments), natural units of the score
  const float* intercept = nullptr;  ///< (heads, segments)
  std::int64_t head_stride = 0;      ///< of slope and intercept, elements

  ScoreName score() const { return ScoreName::fire; }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.distance, self.length);
    each(self.factor, s.queries);
    each(self.knots, self.segments - 1);
    each(self.slope, strided_size(s.heads, self.head_stride, self.segments));
    each(self.intercept, strided_size(s.heads, self.head_stride, self.segments));
  }
};

/// CAPE (arXiv 2405.14722, published as DAPE too). With A_h = scale * q.k of head h, B_h the
/// table's entry (values[h][max(lambda, 0)]) or what FIRE adds to the pair's score, and
/// f(x) = w2 leaky_relu(w1 x + b1) + b2, slope 0.01:
enum class CapeForm {
  concat_residual,  ///< s = A + B + f([A, B]), w1 (hidden, 2 heads)
  concat,           ///< s = A + f([A, B]),     w1 (hidden, 2 heads)
  add_residual,     ///< s = A + B + f(A + B),  w1 (hidden, heads)
  content           ///< s = A + f(A),          w1 (hidden, heads), no B: values and fire unused
};

/// All heads of a pair of tokens are corrected together. Weights contiguous, as torch's Linear has
/// them: w1 (hidden, in), b1 (hidden), w2 (heads, hidden), b2 (heads).
struct CapeVariant {
  CapeForm form = CapeForm::concat_residual;
  const float* values = nullptr;  ///< (heads, length), entry for lambda = 0, 1, ...; finite
  std::int64_t head_stride = 0;
  std::int64_t length = 0;
  std::int64_t hidden = 32;
  const float* w1 = nullptr;
  const float* b1 = nullptr;
  const float* w2 = nullptr;
  const float* b2 = nullptr;
  /// B in place of `values`, where rows differ in their normaliser; causal alone.
  std::optional<FireVariant> fire = {};

  /// What the first layer reads of a pair.
  std::int64_t width(const AttentionShape& s) const {
    const bool both = form == CapeForm::concat_residual || form == CapeForm::concat;
    return both ? 2 * s.heads : s.heads;
  }
  ScoreName score() const { return ScoreName::cape; }
  template <class Self, class Each>
  static void arrays(Self& self, const AttentionShape& s, const Each& each) {
    each(self.values, strided_size(s.heads, self.head_stride, self.length));
    each(self.w1, self.hidden * self.width(s));
    each(self.b1, self.hidden);
    each(self.w2, s.heads * self.hidden);
    each(self.b2, s.heads);
    if (self.fire) FireVariant::arrays(*self.fire, s, each);
  }
};
/// At most so many numbers of hidden units and heads x segments of CAPE over FIRE.
inline constexpr std::int64_t kCapePieces = std::int64_t{1} << 18;

/// The list of variants. A new one adds its struct here and its score in kernels/variants/.
using Variant = std::variant<PlainVariant, TableVariant, TapaVariant, TapeVariant, CapeVariant,
                             FireVariant, QueryTableVariant, ClampVariant, RelativeKeysVariant>;

/// Numbers of single tokens in the scores of a plain variant, an added table or relative keys: its
/// score s of query i and key j becomes
///   factor[i] (s + query[i] + key[j])
/// before the cap. Forgetting attention (arXiv 2503.02130) has query = c and key = -c, c the
/// running sum of its gates' logarithms; a temperature by position is a factor. Biases are float64
/// and their sum is taken before it is rounded, so that running sums may grow: what counts is how
/// far two of them lie apart. All contiguous and finite; null: 0, 0, 1.
struct TokenTerms {
  const double* query = nullptr;  ///< (B, heads, queries)
  const double* key = nullptr;    ///< (B, heads, keys), of query heads
  const float* factor = nullptr;  ///< (B, heads, queries)

  bool any() const { return query || key || factor; }
};

// ---- Probes ------------------------------------------------------------------------------------

inline constexpr int kMaxWindows = 3;
inline constexpr std::int64_t kMaxTopKeys = 64;

/// One number a query row, each array (batch, heads, queries) contiguous or null (off). Rows that
/// see no key get 0 (max_score -inf, max_key -1, sink_weight 1 where there is a sink). Weights are
/// those of keys: beside a sink they sum to less than 1.
struct RowProbes {
  float* entropy = nullptr;           ///< -sum p ln p over the keys, nats
  float* max_score = nullptr;         ///< largest score of the row
  std::int32_t* max_key = nullptr;    ///< its key; the first one among equals
  float* top1_mass = nullptr;         ///< largest weight
  float* first_key_weight = nullptr;  ///< weight on key 0
  float* mean_distance = nullptr;     ///< sum p lambda
  float* sink_weight = nullptr;       ///< weight on AttentionInputs::sinks; 0 where there are none
  /// Weight on the keys with |lambda| < windows[n] (causal: the last windows[n] keys, self
  /// counted).
  std::array<std::int64_t, kMaxWindows> windows{16, 64, 256};
  std::array<float*, kMaxWindows> window_mass{};
  /// The largest weights of a row and their keys, largest first, of equal scores the lower key
  /// first: (batch, heads, queries, top_count) contiguous, 1..kMaxTopKeys of them, either may be
  /// null. Where a row sees fewer keys, -1 and weight 0.
  std::int64_t top_count = 0;
  std::int32_t* top_key = nullptr;
  float* top_weight = nullptr;
};

/// Sums over the pairs of a head by distance. Bucket b holds edges[b] <= |lambda| < edges[b + 1];
/// distances outside belong to none. Arrays (batch, heads, count) contiguous or null (off).
/// edges = 0, 1, 2, ... gives the dense profile by distance.
struct BucketProbes {
  const std::int64_t* edges = nullptr;  ///< count + 1, strictly ascending, from >= 0
  std::int64_t count = 0;
  std::int64_t* pairs = nullptr;   ///< number of unmasked pairs
  double* weight = nullptr;        ///< sum of weights
  double* score = nullptr;         ///< sum of scores
  double* score_square = nullptr;  ///< sum of squared scores
  /// The same of the content score: what the variant starts from, scale * q.k of the q and k given
  /// (tapa: scale_content * qA.kA), before its term, its correction and the cap.
  double* content = nullptr;
  double* content_square = nullptr;
  /// The same of the positional term, score - content score, pair by pair: of a term that is the
  /// same wherever the distance is, the deviation is what the scores' rounding makes it. Squares
  /// of differences within a block that exceed 1e38 are infinite, here and above.
  double* term = nullptr;
  double* term_square = nullptr;
};

/// Whether the largest weights of rows are wanted, any other number of them, and any sums by
/// distance.
constexpr bool wants_top_keys(const RowProbes& rows) { return rows.top_key || rows.top_weight; }
constexpr bool wants_row_probes(const RowProbes& rows) {
  bool wanted = rows.entropy || rows.max_score || rows.max_key || rows.top1_mass ||
                rows.first_key_weight || rows.mean_distance || rows.sink_weight;
  for (const float* window : rows.window_mass) wanted = wanted || window;
  return wanted;
}
constexpr bool wants_buckets(const BucketProbes& buckets) {
  return buckets.count > 0 &&
         (buckets.pairs || buckets.weight || buckets.score || buckets.score_square ||
          buckets.content || buckets.content_square || buckets.term || buckets.term_square);
}

// ---- Forward -----------------------------------------------------------------------------------

struct AttentionInputs {
  AttentionShape shape;
  InputTensor q;    ///< (B, heads, queries, head_dim)
  InputTensor k;    ///< (B, kv_heads, keys, head_dim)
  InputTensor v;    ///< (B, kv_heads, keys, value_dim)
  float scale = 1;  ///< of q.k; 1/sqrt(d) in most models
  Variant variant;
  TokenTerms tokens;
  /// Above 0: the score s of variant and tokens becomes soft_cap tanh(s / soft_cap), before any
  /// mask.
  float soft_cap = 0;
  /// (heads), learned sinks (gpt-oss, arXiv 2508.10925): every row's normaliser has e^sink more, as
  /// if its query saw one more key of that score, whose value is 0. Natural units, finite or -inf,
  /// neither scaled nor capped; null for none. Equal to out * sigmoid(lse - sink) without it: `lse`
  /// leaves the sink out, everywhere.
  const float* sinks = nullptr;
  /// (B, heads, queries, gate_dim), what a row's output is multiplied by once its weights have
  /// averaged the values: channel by channel where gate_dim is the value_dim, all of them alike
  /// where it is 1. `lse`, probes and TAPE's out_state are what they are without. No data: no gate.
  InputTensor gate;
  std::int64_t gate_dim = 0;
  /// (B, keys) contiguous, 0 for padding, which no query sees; null where all keys are real.
  const std::uint8_t* key_mask = nullptr;
  /// (B, queries) and (B, keys) contiguous, of texts packed into one: a query sees the keys of its
  /// own document alone. Any numbers in any order; where a document's tokens stand together, the
  /// keys of others cost nothing. Both null where there are no documents.
  const std::int32_t* query_documents = nullptr;
  const std::int32_t* key_documents = nullptr;
};

struct ForwardOutputs {
  OutputTensor out;        ///< (B, heads, queries, value_dim)
  OutputTensor out_state;  ///< (B, heads, queries, state_dim), TAPE alone
  /// Like `out`, before the gate: what a backward pass needs. Written only where there is a gate;
  /// no data: not wanted.
  OutputTensor ungated;
  float* lse = nullptr;  ///< (B, heads, queries) contiguous, natural logarithm; null: not wanted
  RowProbes rows;
  BucketProbes buckets;
  /// (B, heads, queries) contiguous, what an earlier pass over the same inputs left in `lse`, or
  /// null. Weights by distance then need not wait for the end of their rows.
  const float* known_lse = nullptr;
};

/// The line of variants/scores.inc by which scores are computed.
inline ScoreName score_of(const AttentionInputs& inputs) {
  const ScoreName score =
      std::visit([](const auto& variant) { return variant.score(); }, inputs.variant);
  return inputs.tokens.any() ? with_tokens(score).value_or(score) : score;
}

void attention_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs);

// ---- Backward ----------------------------------------------------------------------------------

// Each says whose gradients they are, and lists its arrays as the variant does: arrays(self,
// variant, shape, each).

/// values: (heads, length) like TableVariant's, summed over batch, queries and keys. A null pointer
/// here and below: that gradient is not wanted.
struct TableGradients {
  using Of = TableVariant;
  float* values = nullptr;
  std::int64_t head_stride = 0;

  template <class Self, class Each>
  static void arrays(Self& self, const Of& of, const AttentionShape& s, const Each& each) {
    each(self.values, strided_size(s.heads, self.head_stride, of.length));
  }
};

/// values: like QueryTableVariant's. Entries that no visible pair reads get 0.
struct QueryTableGradients {
  using Of = QueryTableVariant;
  float* values = nullptr;

  template <class Self, class Each>
  static void arrays(Self& self, const Of& of, const AttentionShape& s, const Each& each) {
    each(self.values, s.batch * s.heads * s.queries * of.length);
  }
};

/// Of RelativeKeysVariant's arrays; keys: like them, sums over batch and queries, and over the
/// heads that share them.
struct RelativeKeysGradients {
  using Of = RelativeKeysVariant;
  OutputTensor dr;  ///< (B, heads, queries, rank), required
  float* keys = nullptr;

  template <class Self, class Each>
  static void arrays(Self& self, const Of& of, const AttentionShape& s, const Each& each) {
    each(self.dr, TensorSize{s.heads, s.queries, of.rank});
    each(self.keys, of.size(s));
  }
};

struct TapeGradients {
  using Of = TapeVariant;
  InputTensor d_out_state;  ///< gradient that comes in for out_state; data null: zero
  OutputTensor d_state;     ///< (B, kv_heads, keys, state_dim)

  template <class Self, class Each>
  static void arrays(Self& self, const Of& of, const AttentionShape& s, const Each& each) {
    each(self.d_out_state, TensorSize{s.heads, s.queries, of.state_dim});
    each(self.d_state, TensorSize{s.kv_heads, s.keys, of.state_dim});
  }
};

/// Same shapes as FireVariant's arrays. distance and factor are sums over batch and heads, slope
/// and intercept over batch, queries and keys. Entries that no visible pair reads get 0.
struct FireGradients {
  using Of = FireVariant;
  float* distance = nullptr;   ///< (length)
  float* factor = nullptr;     ///< (queries)
  float* slope = nullptr;      ///< (heads, segments)
  float* intercept = nullptr;  ///< (heads, segments)
  std::int64_t head_stride = 0;

  template <class Self, class Each>
  static void arrays(Self& self, const Of& of, const AttentionShape& s, const Each& each) {
    each(self.distance, of.length);
    each(self.factor, s.queries);
    each(self.slope, strided_size(s.heads, self.head_stride, of.segments));
    each(self.intercept, strided_size(s.heads, self.head_stride, of.segments));
  }
};

/// Same shapes as CapeVariant's weights, contiguous.
struct CapeGradients {
  using Of = CapeVariant;
  float* values = nullptr;  ///< (heads, length)
  std::int64_t head_stride = 0;
  float* w1 = nullptr;
  float* b1 = nullptr;
  float* w2 = nullptr;
  float* b2 = nullptr;
  FireGradients fire = {};  ///< where CapeVariant has one

  template <class Self, class Each>
  static void arrays(Self& self, const Of& of, const AttentionShape& s, const Each& each) {
    each(self.values, strided_size(s.heads, self.head_stride, of.length));
    each(self.w1, of.hidden * of.width(s));
    each(self.b1, of.hidden);
    each(self.w2, s.heads * of.hidden);
    each(self.b2, s.heads);
    if (of.fire) FireGradients::arrays(self.fire, *of.fire, s, each);
  }
};

/// Same shapes as TokenTerms' arrays: of queries sums over their keys, of keys over their queries.
struct TokenGradients {
  float* query = nullptr;
  float* key = nullptr;
  float* factor = nullptr;
};

/// Of ClampVariant's q and k.
struct ClampGradients {
  using Of = ClampVariant;
  OutputTensor dq;  ///< (B, heads, queries, head_dim)
  OutputTensor dk;  ///< (B, kv_heads, keys, head_dim)

  template <class Self, class Each>
  static void arrays(Self& self, const Of&, const AttentionShape& s, const Each& each) {
    each(self.dq, TensorSize{s.heads, s.queries, s.head_dim});
    each(self.dk, TensorSize{s.kv_heads, s.keys, s.head_dim});
  }
};

using VariantGradients =
    std::variant<std::monostate, TableGradients, TapeGradients, CapeGradients, FireGradients,
                 QueryTableGradients, ClampGradients, RelativeKeysGradients>;

/// dL/ds of the softmax's input s (behind the cap, before the mask) of any variant, summed over the
/// pairs of a head with |lambda| = 0 .. length - 1: (B, heads, length) contiguous, float64. Farther
/// pairs belong to none.
struct ScoreGradients {
  double* by_distance = nullptr;
  std::int64_t length = 0;
};

/// What the forward pass left, and the gradient that comes in.
struct SavedForward {
  InputTensor out;             ///< (B, heads, queries, value_dim), before a gate
  InputTensor out_state;       ///< TAPE alone
  const float* lse = nullptr;  ///< (B, heads, queries), required
  InputTensor d_out;           ///< (B, heads, queries, value_dim)
};

/// All are overwritten, not added to. With kv_heads < heads dk and dv are sums over the group.
struct Gradients {
  OutputTensor dq;  ///< (B, heads, queries, head_dim)
  OutputTensor dk;  ///< (B, kv_heads, keys, head_dim)
  OutputTensor dv;  ///< (B, kv_heads, keys, value_dim)
  VariantGradients variant;
  TokenGradients tokens;
  float* sinks = nullptr;  ///< (heads), sums over batch and queries
  OutputTensor gate;       ///< (B, heads, queries, gate_dim); no data: not wanted
  ScoreGradients scores;
};

void attention_backward(const AttentionInputs& inputs, const SavedForward& saved,
                        const Gradients& gradients);

// ---- Regions of the map ------------------------------------------------------------------------

/// Rows [row_begin, row_end) of the queries x columns [col_begin, col_end) of the keys, of heads
/// [head_begin, head_begin + head_count) of one batch entry.
struct Region {
  std::int64_t batch = 0;
  std::int64_t head_begin = 0;
  std::int64_t head_count = 1;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
};

/// The scores and weights of a region, each (head_count, rows, columns) contiguous or null. Masked
/// pairs have score -inf and weight 0. lse: the forward's, needed for weights. v is not read.
void attention_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                      float* scores, float* weights);

enum class MapQuantity { weight, score };

/// A region pooled to height x width cells. Cell (y, x) covers rows floor(y R / height) up to
/// max(that + 1, floor((y + 1) R / height)), columns alike, so a view with fewer rows than cells
/// repeats them; one row of cells as wide as the region gives every column's mean over its rows.
/// Each array (head_count, height, width) contiguous or null.
struct MapOutputs {
  std::int64_t height = 0;
  std::int64_t width = 0;
  MapQuantity quantity = MapQuantity::weight;
  /// Weights: mean over all pairs of the cell, masked ones counting 0, so that a row of cells times
  /// their width sums to 1. Scores: mean over the unmasked pairs. -inf where every pair is masked;
  /// NaN only where a pair is.
  float* mean = nullptr;
  float* maximum = nullptr;  ///< over the unmasked pairs; -inf and NaN as in `mean`
  float* share = nullptr;    ///< share of unmasked pairs, 0..1
};

/// Costs the region, not the sequence: scores are computed again for its pairs alone, and `lse`
/// (the forward's; needed for weights) normalises them.
void attention_map(const AttentionInputs& inputs, const float* lse, const Region& region,
                   const MapOutputs& outputs);

// ---- Sums of scores ----------------------------------------------------------------------------

/// Sums of the scores less their row's `shift` over the pairs that a query sees, each array
/// contiguous float64 or null (off); lambda is counted from 0 in either direction. With the rows'
/// means for shifts, what these sums are made of is as exact as the scores, whatever is added to a
/// whole row.
struct ScoreSums {
  const double* shift = nullptr;  ///< (B, heads, queries), null: 0
  double* row = nullptr;          ///< (B, heads, queries)
  std::int64_t* pairs = nullptr;  ///< (B, heads, queries), how many a row has
  double* column = nullptr;       ///< (B, heads, keys)
  double* distance = nullptr;     ///< (B, heads, length), of |lambda|; farther ones are left out
  std::int64_t length = 0;
  double* square = nullptr;  ///< (B, heads), of the squares
};

/// One pass over the scores, without softmax and values: v is not read.
void attention_score_sums(const AttentionInputs& inputs, const ScoreSums& sums);

/// Name of the instruction set in use: "avx3", "avx2", "sse4", or "scalar" (those of any x86-64).
const char* attention_target();

}  // namespace phasescope::kernels
