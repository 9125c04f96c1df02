#pragma once
// The forward pass in Hopper form: a block of 128 queries of one head, three groups of four warps.
// One copies: a warp of it brings tiles of 64 keys, values and states by TMA, up to kStages of them
// ahead. Two compute, each for 64 of the queries: products are wgmma 64 x 64 x 16 whose left
// operands (queries, weights) lie in registers. Scores, mask, weights, probes and results are those
// of the Ampere form (softmax_rows.cuh), whose accumulators lie alike.
//
// Ladder of versions (what is counted without a device is in docs/cuda.md; none has run on one):
//   1. this one: while a group's weights are averaged, its next tile's scores are multiplied, and
//      made weights before the average is waited for; with two dot products or states, where
//      registers do not do for that, one after the other. The two groups take turns as they come.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bands.cuh"
#include "kernels/cuda/hopper_block.cuh"
#include "kernels/cuda/softmax_rows.cuh"

namespace phasescope::kernels::cuda {

template <DeviceScore Score>
struct HopperLaunch {
  ForwardLaunch<Score> pass;
  TensorMap q, k, v, state;
};

/// Shared memory: queries of both groups, then stages of a tile of keys, values and states each,
/// entries for both groups likewise, barriers.
template <int D, DeviceScore Score>
struct HopperLayout {
  static constexpr int kStages = Score::kState ? 3 : 4;
  static constexpr std::uint32_t kQueries = 0;
  static constexpr std::uint32_t kTiles = kHopperGroups * kTileBytes<D>;
  static constexpr std::uint32_t kStageBytes = (Score::kState ? 3 : 2) * kTileBytes<D>;
  static constexpr std::uint32_t kEntries = kTiles + kStages * kStageBytes;
  static constexpr std::uint32_t kStageEntries =
      Score::kEntries ? kHopperGroups * kEntriesBytes : 0;
  static constexpr std::uint32_t kBarriers = kEntries + kStages * kStageEntries;
  static constexpr int kBytes =
      static_cast<int>(kBarriers + (2 * kStages + 1) * 8 + kHopperAlignment);
};

template <typename T, int D, class Probes, DeviceScore Score>
class BlockHopper {
  static_assert(Score::kProducts && !Score::kStored && !Score::kPieces && !Score::kTokens &&
                !Score::kOwn && Score::kParts == 1);
  using Layout = HopperLayout<D, Score>;
  using Scores = float[kRows / 8][4];
  using Cursor = Turn<Layout::kStages>;
  static constexpr int kPanels = D / 64;
  // Scores of the next tile beside weights of this one; queries for the whole pass.
  static constexpr bool kLooksAhead = Score::kDots == 1 && !Score::kState;
  static constexpr bool kKeepsQueries = !Score::kState;

 public:
  __device__ explicit BlockHopper(const HopperLaunch<Score>& launch)
      : launch_(launch),
        problem_(launch.pass.problem),
        outputs_(launch.pass.outputs),
        batch_(static_cast<int>(blockIdx.z)),
        head_(static_cast<int>(blockIdx.y)),
        // The longest rows first.
        first_(static_cast<int>(gridDim.x - 1 - blockIdx.x) * (kHopperGroups * kRows)),
        group_(own_group()),
        warp_(own_warp()),
        lane_(own_lane()),
        visibility_(problem_, batch_),
        tiles_(problem_, visibility_, first_),
        shared_(hopper_memory()),
        unit_(problem_) {}

  __device__ void run() {
    run_groups<kCopierRegisters, kComputerRegisters>(
        group_, warp_, [this] { make_barriers(); }, [this] { copy(); }, [this] { compute(); });
  }

 private:
  // ---- Barriers ----

  __device__ void make_barriers() const {
    make_barrier(queries_barrier(), 1);
    for (int stage = 0; stage < Layout::kStages; ++stage) {
      // The lane that copies tiles, and all lanes with their entries; a lane of each warp.
      make_barrier(full(stage), Score::kEntries ? 33 : 1);
      make_barrier(empty(stage), kHopperGroups * kThreads / 32);
    }
    fence_barriers();
  }
  __device__ std::uint32_t barrier(int n) const {
    return shared_ + Layout::kBarriers + static_cast<std::uint32_t>(n) * 8;
  }
  __device__ std::uint32_t queries_barrier() const { return barrier(2 * Layout::kStages); }
  __device__ std::uint32_t full(int stage) const { return barrier(stage); }
  __device__ std::uint32_t empty(int stage) const { return barrier(Layout::kStages + stage); }

  // ---- Places ----

  __device__ std::uint32_t queries(int group) const {
    return shared_ + Layout::kQueries + static_cast<std::uint32_t>(group) * kTileBytes<D>;
  }
  __device__ std::uint32_t tile_of(int stage, std::uint32_t which) const {
    return shared_ + Layout::kTiles + static_cast<std::uint32_t>(stage) * Layout::kStageBytes +
           which * kTileBytes<D>;
  }
  __device__ std::uint32_t keys(int stage) const { return tile_of(stage, 0); }
  __device__ std::uint32_t values(int stage) const { return tile_of(stage, 1); }
  __device__ std::uint32_t states(int stage) const { return tile_of(stage, 2); }
  __device__ std::uint32_t entries(int stage, int group) const {
    return shared_ + Layout::kEntries + static_cast<std::uint32_t>(stage) * Layout::kStageEntries +
           static_cast<std::uint32_t>(group) * kEntriesBytes;
  }

  __device__ int kv_head() const {
    return head_ / static_cast<int>(problem_.shape.heads / problem_.shape.kv_heads);
  }
  __device__ int position(int group) const {
    return tiles_.query_of(group) + static_cast<int>(problem_.shape.query_offset);
  }
  /// Panels of a state that are not all zeros.
  __device__ int state_panels() const { return (static_cast<int>(problem_.state_dim) + 63) / 64; }

  // ---- The warp that copies ----

  __device__ void copy() const {
    if (lane_ == 0) {
      arrive_expecting(queries_barrier(), kHopperGroups * kTileBytes<D>);
      for (int group = 0; group < kHopperGroups; ++group) {
        copy_panels(queries(group), launch_.q, kPanels, tiles_.query_of(group), head_, batch_,
                    queries_barrier());
      }
    }
    Cursor at;
    for (int tile = tiles_.begin(visibility_); tile < tiles_.end();
         tile = tiles_.next(visibility_, tile + 1)) {
      wait_phase(empty(at.stage), at.parity ^ 1);
      if (lane_ == 0) copy_tiles(tile, at.stage);
      if constexpr (Score::kEntries) {
        for (int group = 0; group < kHopperGroups; ++group) copy_entries(tile, at.stage, group);
        arrive_with_copies(full(at.stage));
      }
      at.advance();
    }
  }
  __device__ void copy_tiles(int tile, int stage) const {
    const int of_state = Score::kState ? state_panels() : 0;
    arrive_expecting(full(stage), static_cast<std::uint32_t>(2 * kPanels + of_state) * kPanelBytes);
    copy_panels(keys(stage), launch_.k, kPanels, tile * kRows, kv_head(), batch_, full(stage));
    copy_panels(values(stage), launch_.v, kPanels, tile * kRows, kv_head(), batch_, full(stage));
    if constexpr (Score::kState) {
      copy_panels(states(stage), launch_.state, of_state, tile * kRows, kv_head(), batch_,
                  full(stage));
    }
  }
  __device__ void copy_entries(int tile, int stage, int group) const {
    const int first = Chunk<false>::first_distance(position(group), tile * kRows);
#pragma unroll
    for (int n = 0; n < kThreads / 32; ++n) {
      const int entry = n * 32 + lane_;
      copy_word_async(entries(stage, group) + static_cast<std::uint32_t>(entry) * 4,
                      problem_.score.entry(head_, first + entry));
    }
  }

  // ---- The groups that compute ----

  __device__ void compute() {
    wait_phase(queries_barrier(), 0);
    load_queries();
    sum_rows<T, D>(
        problem_.score,
        [this](int d, std::uint32_t(&a)[4]) {
#pragma unroll
          for (int r = 0; r < 4; ++r) a[r] = q_[d][r];
        },
        lane_, row_sum_);
    Cursor at;
    int tile = seen(tiles_.begin(visibility_), at);
    while (tile < tiles_.end()) {
      begin(tile, at);
      if constexpr (kLooksAhead) tile = go_on(tile, at);
      average(at.stage);
      wait_products<0>();
      hold_sums();
      release(at);
      tile = seen(tiles_.next(visibility_, tile + 1), at);
    }
    // Queries are read by all warps of the group: their tile is what rows leave through.
    sync_group(1 + group_);
    write();
  }

  /// The first tile from `tile` on that the group's queries see. What the other group alone sees is
  /// waited for too: a stage is given back once in each of its turns.
  __device__ int seen(int tile, Cursor& at) const {
    while (tile < tiles_.end() && !tiles_.sees(visibility_, group_, tile)) {
      wait_phase(full(at.stage), at.parity);
      release(at);
      tile = tiles_.next(visibility_, tile + 1);
    }
    return tile;
  }
  __device__ void release(Cursor& at) const {
    __syncwarp();
    if (lane_ == 0) arrive(empty(at.stage));
    at.advance();
  }

  /// The weights of a tile that follows nothing.
  __device__ __forceinline__ void begin(int tile, const Cursor& at) {
    wait_phase(full(at.stage), at.parity);
    Dots<kRows, Score> dots;
    multiply_keys(at.stage, dots);
    wait_products<0>();
    hold_products(dots);
    Scores s;
    float factor[2];
    if (make_weights(tile, at.stage, dots, s, factor)) rescale(factor);
    pack(s);
  }

  /// From the weights of a tile to those of the last one of those that follow each other, with all
  /// averages but its own; returns it.
  __device__ __forceinline__ int go_on(int tile, Cursor& at) {
    for (;;) {
      const int next = tiles_.next(visibility_, tile + 1);
      if (next >= tiles_.end() || !tiles_.sees(visibility_, group_, next)) return tile;
      Cursor following = at;
      following.advance();
      wait_phase(full(following.stage), following.parity);
      Dots<kRows, Score> dots;
      multiply_keys(following.stage, dots);
      average(at.stage);
      wait_products<1>();
      hold_products(dots);
      Scores s;
      float factor[2];
      const bool rose = make_weights(next, following.stage, dots, s, factor);
      wait_products<0>();
      hold_sums();
      if (rose) rescale(factor);
      pack(s);
      release(at);
      tile = next;
    }
  }

  /// The warp's 16 queries as operands.
  __device__ __forceinline__ void load_queries() {
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      load_matrices(queries(group_) + panel_offset(warp_ * 16 + lane_ % 16, d * 2 + lane_ / 16),
                    q_[d]);
    }
  }

  /// Begins the dot products with a stage's keys.
  __device__ __forceinline__ void multiply_keys(int stage, Dots<kRows, Score>& dots) {
    if constexpr (!kKeepsQueries) load_queries();
    if constexpr (Score::kDots == 2) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          dots.dot[n][e] = 0;
          dots.phase[n][e] = row_sum_[e / 2];
        }
      }
      hold_products(dots);
    }
    fence_products();
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      const std::uint64_t columns =
          descriptor(keys(stage) + static_cast<std::uint32_t>(d / 4) * kPanelBytes + (d % 4) * 32);
      if constexpr (Score::kDots == 1) {
        multiply_group<T, false>(dots.dot, q_[d], columns, d > 0);
      } else {
        multiply_split(d, columns, dots);
      }
    }
    commit_products();
  }
  /// Channels before content() make the one dot product, those from there on the other.
  __device__ __forceinline__ void multiply_split(int d, std::uint64_t columns,
                                                 Dots<kRows, Score>& dots) {
    const int content = problem_.score.content();
    if (d * 16 + 16 <= content) {
      multiply_group<T, false>(dots.dot, q_[d], columns);
    } else if (d * 16 >= content && !problem_.score.linear()) {
      multiply_group<T, false>(dots.phase, q_[d], columns);
    } else {
      std::uint32_t of_content[4], of_phase[4];
      split_operand<T>(problem_.score, d, lane_, q_[d], of_content, of_phase);
      multiply_group<T, false>(dots.dot, of_content, columns);
      multiply_group<T, false>(dots.phase, of_phase, columns);
    }
  }
  __device__ __forceinline__ void hold_products(Dots<kRows, Score>& dots) {
    hold(dots.dot);
    if constexpr (Score::kDots == 2) hold(dots.phase);
    if constexpr (!kKeepsQueries) hold(q_);
  }

  /// Scores to weights, with the mask; whether a maximum of the warp's rows rose, by which factors.
  __device__ __forceinline__ bool make_weights(int tile, int stage, const Dots<kRows, Score>& dots,
                                               Scores& s, float (&factor)[2]) {
    const Pieces<false> none(0);
    const Chunk<false> chunk(position(group_), tile * kRows, 0, warp_, lane_);
    score_dots<kRows>(problem_, HeadPlace{batch_, head_}, unit_, dots,
                      Entries<Score>{entries(stage, group_), none}, chunk, s);
    mask_scores<kRows>(visibility_, visibility_.real_keys(tile), chunk,
                       position(group_) + warp_ * 16, tile * kRows, 0, s);
    float old[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      old[half] = rows_.maximum[half];
      raise<kRows>(chunk, s, half, unit_.of, rows_);
    }
    const bool rose = rows_.maximum[0] != old[0] || rows_.maximum[1] != old[1];
    const bool any = __ballot_sync(0xffffffffu, rose) != 0;
    if (any) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factor[half] = rescale_row<kRows>(chunk, s, rows_, half, old[half]);
      }
    }
    const bool near = Probes::kOn && launch_.pass.windows.reach(position(group_) + warp_ * 16, 16,
                                                                tile * kRows, kRows);
    weigh<kRows>(launch_.pass.windows, near, chunk, s, unit_.of, rows_);
    return any;
  }
  /// Where no product reads the weights before.
  __device__ __forceinline__ void pack(const Scores& s) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) pack_operand<T>(s[2 * n], s[2 * n + 1], weights_[n]);
  }
  __device__ __forceinline__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        rescale_sums(out_[panel], half, factor[half]);
        if constexpr (Score::kState) rescale_sums(state_[panel], half, factor[half]);
      }
    }
  }

  /// Begins adding a stage's values times the weights.
  __device__ __forceinline__ void average(int stage) {
    hold_sums();
    fence_products();
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) add_values(values(stage), panel, out_[panel]);
    if constexpr (Score::kState) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        if (panel < state_panels()) add_values(states(stage), panel, state_[panel]);
      }
    }
    commit_products();
  }
  __device__ __forceinline__ void add_values(std::uint32_t tile, int panel, Scores& sums) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      multiply_group<T, true>(
          sums, weights_[n],
          descriptor(tile + static_cast<std::uint32_t>(panel) * kPanelBytes + n * 16 * 128));
    }
  }
  __device__ __forceinline__ void hold_sums() {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      hold(out_[panel]);
      if constexpr (Score::kState) hold(state_[panel]);
    }
    hold(weights_);
  }

  __device__ void write() {
    const WarpRows at{batch_, head_, tiles_.query_of(group_) + warp_ * 16,
                      warp_,  lane_, queries(group_)};
    float normaliser[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      normaliser[half] = write_numbers(problem_, outputs_, at, rows_, half);
    }
    write_values<T, D>(problem_, outputs_, at, joined(out_), normaliser);
    if constexpr (Score::kState) {
      write_rows<T, D>(outputs_.out_state, at, problem_.shape.queries, joined(state_), normaliser,
                       static_cast<int>(problem_.state_dim));
    }
  }
  /// Sums by panel as those of all channels, which they are as they lie.
  __device__ static auto joined(float (&sums)[kPanels][8][4]) -> float (&)[D / 8][4] {
    return reinterpret_cast<float(&)[D / 8][4]>(sums);
  }

  const HopperLaunch<Score>& launch_;
  const Problem<Score>& problem_;
  const CudaForwardOutputs& outputs_;
  int batch_, head_, first_, group_, warp_, lane_;
  Visibility visibility_;
  BandTiles<kHopperGroups> tiles_;
  std::uint32_t shared_;
  ScoreUnit unit_;
  float row_sum_[2];
  std::uint32_t q_[D / 16][4];
  std::uint32_t weights_[kRows / 16][4] = {};
  float out_[kPanels][8][4] = {};
  float state_[Score::kState ? kPanels : 1][8][4] = {};
  RowState<Probes> rows_;
};

template <typename T, int D, class Probes, DeviceScore Score>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_hopper_kernel(const __grid_constant__ HopperLaunch<Score> launch) {
  BlockHopper<T, D, Probes, Score>(launch).run();
}

}  // namespace phasescope::kernels::cuda
