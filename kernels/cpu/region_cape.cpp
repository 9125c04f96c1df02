#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/region_cape.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include "hwy/foreach_target.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/region-inl.h"
#include "kernels/variants/cape-inl.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Scores of all heads at once: a head's score reads every head's.
class CapeScores {
 public:
  static constexpr std::int64_t kKeys = kCapeKeys;
  static constexpr bool kHeadsTogether = true;

  CapeScores(const AttentionInputs& inputs, const CapeNetwork& net)
      : inputs_(inputs),
        visibility_(inputs),
        net_(net),
        packed_(net.heads * inputs.shape.head_dim * kPanel),
        spare_(kKeys * inputs.shape.head_dim),
        scores_(net.heads * kCapeRow),
        scorer_(net),
        scratch_(scorer_.scratch_size()) {}

  void load(std::int64_t batch, std::int64_t, std::int64_t row, std::int64_t count) {
    const AttentionShape& s = inputs_.shape;
    batch_ = batch;
    row_ = row;
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      const FloatRows q = float_rows(inputs_.q, batch, h, row, count, s.head_dim, spare_.data());
      pack_panel(q.data, q.row, count, s.head_dim, inputs_.scale,
                 packed_.data() + h * s.head_dim * kPanel);
    }
    place_ = tile_place(s, visibility_, batch, row, count, 0);
  }

  void compute(std::int64_t key, std::int64_t count) {
    const AttentionShape& s = inputs_.shape;
    place_.key = key;
    for (std::int64_t h = 0; h < net_.heads; ++h) {
      const FloatRows k = float_rows(inputs_.k, batch_, h / (s.heads / s.kv_heads), key, count,
                                     s.head_dim, spare_.data());
      cape_content(place_, count, packed_.data() + h * s.head_dim * kPanel, k, s.head_dim,
                   scores_.data() + h * kCapeRow);
    }
    // Pairs above the diagonal have no entry in the tables and no score.
    std::int64_t seen = s.causal ? std::min(count, place_.query - key + kPanel) : count;
    if (!visibility_.may_share_document(batch_, row_, place_.queries, key, count)) seen = 0;
    if (seen > 0) scorer_.score(place_.query, key, seen, scores_.data(), scratch_.data());
    for (std::int64_t h = 0; h < net_.heads; ++h) finish_head(key, count, h);
  }

  const float* scores(std::int64_t head) const { return scores_.data() + head * kCapeRow; }

 private:
  /// To log2 units, masked.
  void finish_head(std::int64_t key, std::int64_t count, std::int64_t h) {
    TilePlace tile = place_;
    for (std::int64_t n = 0; n < count; n += kTileKeys) {
      tile.key = key + n;
      tile.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, count - n));
      float* at = scores_.data() + h * kCapeRow + n * kPanel;
      Vec t[kTileKeys][kVecs];
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) {
          t[r][v] = hn::Mul(HWY_NAMESPACE::load(at + r * kPanel + v * kLanes), set(kLog2e));
        }
      }
      cap_tile(inputs_.soft_cap * kLog2e, t);
      if (is_masked(tile)) mask_tile(tile, t);
      for (int r = 0; r < kTileKeys; ++r) {
        for (int v = 0; v < kVecs; ++v) store(t[r][v], at + r * kPanel + v * kLanes);
      }
    }
  }

  const AttentionInputs& inputs_;
  Visibility visibility_;
  const CapeNetwork& net_;
  FloatBuffer packed_, spare_, scores_;
  CapeScorer scorer_;
  FloatBuffer scratch_;
  std::int64_t batch_ = 0, row_ = 0;
  TilePlace place_{};
};

void region_cape(const RegionCall& call) {
  const CapeNetwork net(call.inputs);
  RegionPass<CapeScores> pass(call.inputs, call.lse, call.region, net);
  pass.run(call);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {

void region_cape(const RegionCall& call) { PHASESCOPE_SELECT_TARGET(region_cape)(call); }

}  // namespace phasescope::kernels
#endif
