#pragma once
// What may vary on the device, with no-op defaults: the same pieces as the CPU's HeadVariant. A
// score is a struct passed by value, which its of() makes from a call's inputs; what it leaves out
// costs nothing. A new one adds its struct here and its line to variants/scores.inc.

#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>
#include <variant>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/units.h"

namespace phasescope::kernels::cuda {

struct DotGradients {
  float dot, phase;
};

template <class S>
concept DeviceScore = requires(const S& score, float x, std::int64_t n) {
  // Dot products of a pair: 1, or 2 of the channels before and from content() on.
  { S::kDots } -> std::convertible_to<int>;
  // Whether a pair has an entry of a table by distance; entry(head, distance) points at it, or at
  // another one where the table does not reach: such pairs are masked.
  { S::kEntries } -> std::convertible_to<bool>;
  { score.entry(n, n) } -> std::same_as<const float*>;
  // Whether a pair has a number of its own in the place of an entry: own(batch, head, query,
  // distance), of queries that exist.
  { S::kOwn } -> std::convertible_to<bool>;
  // Whether the entry is FIRE's distance, which Pieces make a bias of.
  { S::kPieces } -> std::convertible_to<bool>;
  // Whether the weights average a second value stream.
  { S::kState } -> std::convertible_to<bool>;
  // Whether the scores of some rows and keys lie in memory, masked, and nothing is computed but
  // what follows from them: score.strip.
  { S::kStored } -> std::convertible_to<bool>;
  // Whether its pairs' dot products are computed beside that.
  { S::kProducts } -> std::convertible_to<bool>;
  // Whether numbers of single tokens stand around it: score.tokens (TokenScore).
  { S::kTokens } -> std::convertible_to<bool>;
  // Whether score() is multiplier() times the first dot product and nothing else.
  { S::kLinear } -> std::convertible_to<bool>;
  { score.multiplier() } -> std::same_as<float>;
  // Parts that a head's pairs fall into, each with a q and k of its own: 1, or those of clamped
  // distances (ClampScore). Kernels take one after the other: kParts - 1, .., 0.
  { S::kParts } -> std::convertible_to<int>;
  // Score in log2 units from the dot products and the entry.
  { score.score(x, x, x) } -> std::same_as<float>;
  // Gradients of the dot products from that of the score (natural units); what is q.k's alone,
  // factor(channel), multiplies a channel's gradient in the end. The content score is
  // factor(0) times the first dot product.
  { score.gradient(x, x, x, x) } -> std::same_as<DotGradients>;
  { score.factor(0) } -> std::same_as<float>;
  // Gradient of the entry, from that of the score and the first dot product.
  { score.entry_gradient(x, x) } -> std::same_as<float>;
};

struct ScoreDefaults {
  static constexpr int kDots = 1;
  static constexpr bool kEntries = false;
  static constexpr bool kOwn = false;
  static constexpr bool kPieces = false;
  static constexpr bool kState = false;
  static constexpr bool kStored = false;
  static constexpr bool kProducts = true;
  static constexpr bool kTokens = false;
  static constexpr bool kLinear = false;
  __device__ float multiplier() const { return 1; }
  static constexpr int kParts = 1;
  __device__ const float* entry(std::int64_t, std::int64_t) const { return nullptr; }
  __device__ __forceinline__ DotGradients gradient(float d_score, float, float, float) const {
    return {d_score, 0};
  }
  __device__ __forceinline__ float entry_gradient(float d_score, float) const { return d_score; }
};

/// s = scale q.k: none, rope, xpos, ape.
struct PlainScore : ScoreDefaults {
  static constexpr bool kLinear = true;
  float scale = 1;  // natural units, here and below

  static PlainScore of(const AttentionInputs& inputs) { return {.scale = inputs.scale}; }

  __device__ __forceinline__ float multiplier() const { return scale * kLog2e; }
  __device__ __forceinline__ float score(float dot, float, float) const {
    return dot * multiplier();
  }
  __device__ float factor(int) const { return scale; }
};
static_assert(DeviceScore<PlainScore>);

/// s = scale q.k; the weights average v and the tokens' states.
struct TapeScore : PlainScore {
  static constexpr bool kState = true;

  static TapeScore of(const AttentionInputs& inputs) { return {PlainScore::of(inputs)}; }
};
static_assert(DeviceScore<TapeScore>);

__device__ __forceinline__ std::int64_t clamped(std::int64_t at, std::int64_t length) {
  return max(std::int64_t{0}, min(at, length - 1));
}

/// s = scale q.k + entry.
struct BiasScore : ScoreDefaults {
  static constexpr bool kEntries = true;
  float scale = 1;

  static BiasScore of(const AttentionInputs& inputs) { return {.scale = inputs.scale}; }

  __device__ __forceinline__ float score(float dot, float, float entry) const {
    return fmaf(dot, scale * kLog2e, entry * kLog2e);
  }
  __device__ float factor(int) const { return scale; }
};

/// The entry is b[h][lambda].
struct TableScore : BiasScore {
  TableVariant table;

  static TableScore of(const AttentionInputs& inputs) {
    return {BiasScore::of(inputs), std::get<TableVariant>(inputs.variant)};
  }
  __device__ const float* entry(std::int64_t head, std::int64_t distance) const {
    const std::int64_t at = table.first_distance == 0 ? (distance < 0 ? -distance : distance)
                                                      : distance - table.first_distance;
    return table.values + head * table.head_stride + clamped(at, table.length);
  }
};
static_assert(DeviceScore<TableScore>);

/// s = scale q.k entry.
struct MultipliedTableScore : TableScore {
  static MultipliedTableScore of(const AttentionInputs& inputs) { return {TableScore::of(inputs)}; }
  __device__ __forceinline__ float score(float dot, float, float entry) const {
    return dot * (scale * kLog2e) * entry;
  }
  __device__ __forceinline__ DotGradients gradient(float d_score, float, float, float entry) const {
    return {d_score * entry, 0};
  }
  __device__ __forceinline__ float entry_gradient(float d_score, float dot) const {
    return d_score * (scale * dot);
  }
};
static_assert(DeviceScore<MultipliedTableScore>);

/// The number is that of the query's own table: read from memory pair by pair, a row of a tile a
/// stretch of the table.
struct QueryTableScore : BiasScore {
  static constexpr bool kEntries = false;
  static constexpr bool kOwn = true;
  QueryTableVariant table;
  std::int64_t heads = 0, queries = 0;

  static QueryTableScore of(const AttentionInputs& inputs) {
    return {BiasScore::of(inputs), std::get<QueryTableVariant>(inputs.variant), inputs.shape.heads,
            inputs.shape.queries};
  }
  /// Where a pair's number is, or -1.
  __device__ __forceinline__ std::int64_t place(int batch, int head, int query,
                                                int distance) const {
    if (distance < 0 || distance >= table.length) return -1;
    return ((batch * heads + head) * queries + query) * table.length + distance;
  }
  __device__ __forceinline__ float own(int batch, int head, int query, int distance) const {
    const std::int64_t at = place(batch, head, query, distance);
    return at < 0 ? 0 : table.values[at];
  }
};
static_assert(DeviceScore<QueryTableScore>);

/// Parts of clamped distances: pairs up to their head's limit have the problem's q and k.
inline constexpr int kNear = 0, kFar = 1;

/// s = scale q.k of each part. Tiles of pairs that are near or far alone, all but a few, are taken
/// once, with one q and k.
struct ClampScore : PlainScore {
  static constexpr int kParts = 2;
  ClampVariant clamp;

  static ClampScore of(const AttentionInputs& inputs) {
    return {PlainScore::of(inputs), std::get<ClampVariant>(inputs.variant)};
  }
  __device__ int limit(std::int64_t head) const {
    return static_cast<int>(min(clamp.limits[head], std::int64_t{1} << 30));
  }
};
static_assert(DeviceScore<ClampScore>);

/// The entry is FIRE's distance[lambda], and then the bias that its pieces make of it.
struct FireScore : BiasScore {
  static constexpr bool kPieces = true;
  FireVariant fire;

  static FireScore of(const AttentionInputs& inputs) {
    return {BiasScore::of(inputs), std::get<FireVariant>(inputs.variant)};
  }
  __device__ const float* entry(std::int64_t, std::int64_t distance) const {
    return fire.distance + clamped(distance, fire.length);
  }
};
static_assert(DeviceScore<FireScore>);

/// x - 2 pi round(x / 2 pi), within [-pi, pi], where the fast cosine is exact to 2^-21: 2 pi in two
/// parts, so that what is lost is the rounding of x itself.
__device__ __forceinline__ float turned(float x) {
  const float turns = rintf(x * 0.159154943091895336f);
  return fmaf(turns, 1.74845553e-7f, fmaf(turns, -6.28318548f, x));
}

/// TAPA: s = scale_content (qA.kA) cos(power[|lambda|] phase), phase = scale_phase (qP.kP) or,
/// where linear, scale_phase (sum qP + sum kP).
struct TapaScore : ScoreDefaults {
  static constexpr int kDots = 2;
  static constexpr bool kEntries = true;
  TapaVariant tapa;

  static TapaScore of(const AttentionInputs& inputs) {
    return {.tapa = std::get<TapaVariant>(inputs.variant)};
  }
  __device__ int content() const { return static_cast<int>(tapa.content_dim); }
  __device__ bool linear() const { return tapa.phase == TapaPhase::linear; }
  __device__ const float* entry(std::int64_t, std::int64_t distance) const {
    const std::int64_t at = distance < 0 ? -distance : distance;
    return tapa.power + clamped(at, tapa.power_length);
  }
  __device__ __forceinline__ float angle(float phase, float entry) const {
    return turned(entry * (tapa.scale_phase * phase));
  }
  __device__ __forceinline__ float score(float dot, float phase, float entry) const {
    return dot * (tapa.scale_content * kLog2e) * __cosf(angle(phase, entry));
  }
  __device__ __forceinline__ DotGradients gradient(float d_score, float dot, float phase,
                                                   float entry) const {
    const float turn = angle(phase, entry);
    const float amplitude = tapa.scale_content * dot * entry;
    return {d_score * __cosf(turn), -d_score * amplitude * __sinf(turn)};
  }
  __device__ float factor(int channel) const {
    return channel < content() ? tapa.scale_content : tapa.scale_phase;
  }
};
static_assert(DeviceScore<TapaScore>);

/// TokenTerms of a launch; a query or key that does not exist has those of the last one.
struct DeviceTokens {
  TokenTerms terms;
  std::int64_t heads = 0, queries = 0, keys = 0;

  DeviceTokens() = default;
  explicit DeviceTokens(const AttentionInputs& inputs)
      : terms(inputs.tokens),
        heads(inputs.shape.heads),
        queries(inputs.shape.queries),
        keys(inputs.shape.keys) {}

  /// query + key, natural units: the sum in float64, in which running sums cancel.
  __device__ __forceinline__ float bias(int batch, int head, int query, int key) const {
    const std::int64_t row = batch * heads + head;
    double sum = 0;
    if (terms.query) sum += terms.query[row * queries + clamped(query, queries)];
    if (terms.key) sum += terms.key[row * keys + clamped(key, keys)];
    return static_cast<float>(sum);
  }
  __device__ __forceinline__ float factor(int batch, int head, int query) const {
    if (!terms.factor) return 1;
    return terms.factor[(batch * heads + head) * queries + clamped(query, queries)];
  }
};

/// s = factor[i] (the score of Base + query[i] + key[j]).
template <class Base>
struct TokenScore : Base {
  static constexpr bool kTokens = true;
  static constexpr bool kLinear = false;
  DeviceTokens tokens;

  static TokenScore of(const AttentionInputs& inputs) {
    return {Base::of(inputs), DeviceTokens(inputs)};
  }
};
static_assert(DeviceScore<TokenScore<PlainScore>> && DeviceScore<TokenScore<TableScore>>);

/// One number for each pair of some query rows and some keys of a batch entry, for all heads:
/// (heads, rows, keys), rows and keys in whole tiles. Those of the batch entries after it, one a
/// grid.z, follow in the same memory.
struct Strip {
  float* data = nullptr;
  std::int64_t batch = 0;                    // the first one
  std::int64_t first = 0, last = 0;          // query rows; first is a tile's
  std::int64_t first_key = 0, last_key = 0;  // likewise
  std::int64_t rows = 0, keys = 0;           // that there is room for
  unsigned heads = 0;                        // of a batch entry

  __device__ float* at(std::int64_t head, std::int64_t query, std::int64_t key) const {
    return data + ((blockIdx.z * heads + head) * rows + (query - first)) * keys + (key - first_key);
  }
};

/// Scores that other kernels left (CAPE's), in log2 units, capped, -inf where masked.
struct StoredScore : ScoreDefaults {
  static constexpr bool kStored = true;
  static constexpr bool kProducts = false;
  Strip strip;

  __device__ float score(float, float, float) const { return 0; }
  __device__ float factor(int) const { return 1; }
};
static_assert(DeviceScore<StoredScore>);

/// The same, with the content scores of their pairs computed again.
struct StoredScoreWithContent : StoredScore {
  static constexpr bool kProducts = true;
  float scale = 1;

  __device__ float factor(int) const { return scale; }
};
static_assert(DeviceScore<StoredScoreWithContent>);

}  // namespace phasescope::kernels::cuda
