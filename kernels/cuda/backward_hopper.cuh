#pragma once
// The backward pass in one kernel in Hopper form: a block of 128 keys, three groups of four warps.
// One copies: a warp of it brings tiles of 64 queries and of d_out by TMA, kStages of them ahead,
// with the numbers of their rows. Two compute, each for 64 of the keys: products are wgmma
// 64 x 64 x 16. Scores and the gradients of weights have keys as rows, so that weights and
// gradients of scores are the left operands of dv and dk as they lie in registers. Gradients go
// through shared memory once, for dq, of which a group makes 64 channels, or at 64 channels every
// other tile of queries. Scores, mask, weights and gradients are those of the Ampere form
// (pair_gradients.cuh), places and sums of dq too (one_pass.cuh).
//
// Ladder of versions (what is counted without a device is in docs/cuda.md; none has run on one):
//   1. this one: a block's two groups take turns as they come, with one barrier a pair of tiles;
//      two buffers of gradients let a group begin the next pair while the other makes dq.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hopper_block.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/one_pass.cuh"
#include "kernels/cuda/pair_gradients.cuh"
#include "kernels/cuda/table_sums.cuh"

namespace phasescope::kernels::cuda {

static_assert(kHopperGroups == kOnePassTiles);
// 128 threads with 24 registers and 256 with 240: of 128 channels a thread has 128 numbers of dk
// and dv alone.
inline constexpr int kBackwardCopierRegisters = 24, kBackwardComputerRegisters = 240;

template <DeviceScore Score>
struct HopperBackwardLaunch {
  OnePassLaunch<Score> one;
  TensorMap q, k, v, d_out;
};

/// Shared memory: keys and values of both groups, stages of a tile of queries and one of d_out, two
/// buffers of both groups' gradients, then, a stage, log-sum-exp and delta of the queries and
/// entries for both groups; a table's sums; barriers.
template <int D, DeviceScore Score>
struct HopperBackwardLayout {
  static constexpr int kStages = 2, kBuffers = 2;
  static constexpr std::uint32_t kKeys = 0;
  static constexpr std::uint32_t kValues = kHopperGroups * kTileBytes<D>;
  static constexpr std::uint32_t kTiles = 2 * kHopperGroups * kTileBytes<D>;
  static constexpr std::uint32_t kStageBytes = 2 * kTileBytes<D>;
  static constexpr std::uint32_t kGradients = kTiles + kStages * kStageBytes;
  static constexpr std::uint32_t kNumbers =
      kGradients + kBuffers * kHopperGroups * kTileBytes<kRows>;
  static constexpr std::uint32_t kStageNumbers = 2 * kRows * 4;
  static constexpr std::uint32_t kEntries = kNumbers + kStages * kStageNumbers;
  static constexpr std::uint32_t kStageEntries =
      Score::kEntries ? kHopperGroups * kEntriesBytes : 0;
  static constexpr std::uint32_t kSums = kEntries + kStages * kStageEntries;
  static constexpr std::uint32_t kBarriers = kSums + (Score::kEntries ? GroupTableSums::kBytes : 0);
  static constexpr int kBytes =
      static_cast<int>(kBarriers + (2 * kStages + 2) * 8 + kHopperAlignment);
};

/// What a thread has of dq of a tile of queries: of 16 of them and 64 channels, whose panels are of
/// groups of threads each, in the order in which these keep it in memory.
template <typename T, int D>
struct DqPanel {
  static constexpr int kPanels = D / 64;
  static constexpr int kThreads = kPanels * cuda::kThreads, kNumbers = kRows * D;
  float sums[8][4];

  __device__ static int thread() { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ static int panel() { return thread() / cuda::kThreads; }

  /// Calls call(four numbers, the place of the first among the tile's kRows D).
  template <class Call>
  __device__ __forceinline__ void for_each_four(const Call& call) {
#pragma unroll
    for (int n = 0; n < 8; ++n) call(sums[n], (n * kThreads + thread()) * 4);
  }
  /// Calls call(number, its place).
  template <class Call>
  __device__ __forceinline__ void for_each(const Call& call) {
    for_each_four([&](float(&four)[4], int place) {
#pragma unroll
      for (int e = 0; e < 4; ++e) call(four[e], place + e);
    });
  }

  /// As DqPart::write().
  template <class Factor>
  __device__ void write(const OutputTensor& to, int batch, std::int64_t head, int first, int rows,
                        int width, const Factor& factor) const {
    const int lane = thread() % 32, warp = thread() / 32 % 4, channel = panel() * 64;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t own = first + warp * 16 + lane / 4 + 8 * half;
      if (own >= rows) continue;
      write_row<T, 64>(
          pointer<T>(to, batch, head) + own * to.row + channel, sums, half,
          [&](int n) { return factor(channel + n); }, width - channel, lane);
    }
  }
};

template <typename T, int D, DeviceScore Score>
class BlockHopperBackward {
  static_assert(Score::kProducts && !Score::kStored && !Score::kPieces && !Score::kTokens &&
                !Score::kOwn && !Score::kState && Score::kParts == 1 && Score::kDots == 1);
  using Layout = HopperBackwardLayout<D, Score>;
  using Numbers = float[kRows / 8][4];
  using Operands = std::uint32_t[kRows / 16][4];
  using Cursor = Turn<Layout::kStages>;
  static constexpr int kPanels = D / 64;
  static constexpr int kAll = 1;  // the barrier of both groups that compute

 public:
  __device__ explicit BlockHopperBackward(const HopperBackwardLaunch<Score>& launch)
      : launch_(launch),
        one_(launch.one),
        problem_(launch.one.pass.problem),
        unit_(launch.one),
        group_(own_group()),
        warp_(own_warp()),
        lane_(own_lane()),
        visibility_(problem_, unit_.batch),
        shared_(hopper_memory()) {}

  __device__ void run() {
    run_groups<kBackwardCopierRegisters, kBackwardComputerRegisters>(
        group_, warp_, [this] { make_barriers(); }, [this] { copy(); }, [this] { compute(); });
  }

 private:
  // ---- Barriers ----

  __device__ void make_barriers() const {
    constexpr int kWarps = kHopperGroups * kThreads / 32;
    make_barrier(keys_full(), 1);
    make_barrier(keys_empty(), kWarps);
    for (int stage = 0; stage < Layout::kStages; ++stage) {
      // The lane that copies tiles; all lanes with numbers of queries, and with their entries.
      make_barrier(full(stage), Score::kEntries ? 65 : 33);
      make_barrier(empty(stage), kWarps);
    }
    fence_barriers();
  }
  __device__ std::uint32_t barrier(int n) const {
    return shared_ + Layout::kBarriers + static_cast<std::uint32_t>(n) * 8;
  }
  __device__ std::uint32_t full(int stage) const { return barrier(stage); }
  __device__ std::uint32_t empty(int stage) const { return barrier(Layout::kStages + stage); }
  __device__ std::uint32_t keys_full() const { return barrier(2 * Layout::kStages); }
  __device__ std::uint32_t keys_empty() const { return barrier(2 * Layout::kStages + 1); }
  /// One lane of each warp that computes.
  __device__ void give_back(std::uint32_t barrier) const {
    __syncwarp();
    if (lane_ == 0) arrive(barrier);
  }

  // ---- Places ----

  __device__ std::uint32_t keys(int group) const {
    return shared_ + Layout::kKeys + static_cast<std::uint32_t>(group) * kTileBytes<D>;
  }
  __device__ std::uint32_t values(int group) const {
    return shared_ + Layout::kValues + static_cast<std::uint32_t>(group) * kTileBytes<D>;
  }
  __device__ std::uint32_t queries(int stage) const {
    return shared_ + Layout::kTiles + static_cast<std::uint32_t>(stage) * Layout::kStageBytes;
  }
  __device__ std::uint32_t d_outs(int stage) const { return queries(stage) + kTileBytes<D>; }
  /// Gradients of scores, keys as rows and queries as columns.
  __device__ std::uint32_t gradients(int buffer, int group) const {
    return shared_ + Layout::kGradients +
           static_cast<std::uint32_t>(buffer * kHopperGroups + group) * kTileBytes<kRows>;
  }
  __device__ std::uint32_t lse(int stage) const {
    return shared_ + Layout::kNumbers + static_cast<std::uint32_t>(stage) * Layout::kStageNumbers;
  }
  __device__ std::uint32_t delta(int stage) const { return lse(stage) + kRows * 4; }
  __device__ std::uint32_t entries(int stage, int group) const {
    return shared_ + Layout::kEntries + static_cast<std::uint32_t>(stage) * Layout::kStageEntries +
           static_cast<std::uint32_t>(group) * kEntriesBytes;
  }
  __device__ GroupTableSums table_sums(int buffer) const {
    return GroupTableSums(shared_ + Layout::kSums, buffer);
  }

  __device__ int key_count() const { return static_cast<int>(problem_.shape.keys); }
  __device__ int position(int query) const {
    return query + static_cast<int>(problem_.shape.query_offset);
  }
  __device__ int head_of(const QueryPlaces<Score>& places, int place) const {
    return unit_.kv_head * one_.group + places.head_of(place);
  }

  // ---- The warp that copies ----

  __device__ void copy() const {
    Cursor at;
    for_each_stretch(key_count(), [&](int turn, int key) {
      if (key >= key_count()) return;
      if (turn > 0) wait_phase(keys_empty(), (turn - 1) % 2);
      if (lane_ == 0) copy_keys(key);
      const QueryPlaces<Score> places(one_, visibility_, key);
      for (int place = places.begin(visibility_); place < places.end();
           place = places.next(visibility_, place + 1)) {
        wait_phase(empty(at.stage), at.parity ^ 1);
        copy_queries(head_of(places, place), places.tile_of(place) * kRows, key, at.stage);
        at.advance();
      }
    });
  }
  /// A tile that begins past the last key is zeros.
  __device__ void copy_keys(int key) const {
    arrive_expecting(keys_full(), 2 * kHopperGroups * kTileBytes<D>);
    for (int group = 0; group < kHopperGroups; ++group) {
      copy_panels(keys(group), launch_.k, kPanels, key + group * kRows, unit_.kv_head, unit_.batch,
                  keys_full());
      copy_panels(values(group), launch_.v, kPanels, key + group * kRows, unit_.kv_head,
                  unit_.batch, keys_full());
    }
  }
  __device__ void copy_queries(int head, int query, int key, int stage) const {
    if (lane_ == 0) {
      arrive_expecting(full(stage), 2 * kTileBytes<D>);
      copy_panels(queries(stage), launch_.q, kPanels, query, head, unit_.batch, full(stage));
      copy_panels(d_outs(stage), launch_.d_out, kPanels, query, head, unit_.batch, full(stage));
    }
    if constexpr (Score::kEntries) {
      for (int group = 0; group < kHopperGroups; ++group) {
        const int first = Chunk<false>::first_distance(position(query), key + group * kRows);
#pragma unroll
        for (int n = 0; n < kThreads / 32; ++n) {
          copy_entries(entries(stage, group), problem_.score, head, first, n * 32 + lane_);
        }
      }
      arrive_with_copies(full(stage));
    }
    const std::int64_t row =
        (unit_.batch * problem_.shape.heads + head) * problem_.shape.queries + query;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = half * 32 + lane_;
      const bool exists = query + n < problem_.shape.queries;
      store_shared(lse(stage) + static_cast<std::uint32_t>(n) * 4,
                   lse_of_query(problem_, one_.pass.saved, head, exists, row + n));
      store_shared(delta(stage) + static_cast<std::uint32_t>(n) * 4,
                   exists ? one_.pass.delta[row + n] : 0.0f);
    }
    arrive(full(stage));
  }

  // ---- The groups that compute ----

  __device__ void compute() {
    Cursor at;
    int buffer = 0;
    for_each_stretch(key_count(), [&](int turn, int key) {
      if (key >= key_count()) return;
      wait_phase(keys_full(), turn % 2);
      const QueryPlaces<Score> places(one_, visibility_, key);
      clear();
      for (int place = places.begin(visibility_); place < places.end();
           place = places.next(visibility_, place + 1)) {
        take_pair(places, place, key, at, buffer);
        buffer ^= 1;
      }
      // What threads have added to sums and marked as taken is seen by the others in the next turn.
      sync_group<kHopperGroups * kThreads>(kAll);
      give_back(keys_empty());
      write(key + group_ * kRows);
    });
  }

  /// What could be computed before the loop over pairs is computed in each: a thread has no
  /// registers for it.
  __device__ __forceinline__ void compute_anew() {
    cuda::compute_anew(shared_, group_, warp_, lane_);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) dk_[panel][n][e] = dv_[panel][n][e] = 0;
      }
    }
  }

  /// The pairs of a tile of queries and both tiles of keys.
  __device__ __forceinline__ void take_pair(const QueryPlaces<Score>& places, int place, int key,
                                            Cursor& at, int buffer) {
    compute_anew();
    const int tile = places.tile_of(place), head = head_of(places, place);
    const SeenTiles seen = places.seen(visibility_, place);
    const int partial = one_.taken ? static_cast<int>(blockIdx.x) : 0;
    const std::int64_t sum =
        one_.tile_of(static_cast<int>(blockIdx.y), partial, places.head_of(place), tile);
    wait_phase(full(at.stage), at.parity);
    if (seen.of(group_)) {
      add_own(head, tile * kRows, key + group_ * kRows, at.stage, buffer);
    }
    give_back(empty(at.stage));
    at.advance();
    // A group that makes all channels of dq has every other tile.
    const bool has_dq = kPanels == kHopperGroups || tile % kHopperGroups == group_;
    DqPanel<T, D> dq;
    if (has_dq) begin_dq(dq, sum);
    sync_group<kHopperGroups * kThreads>(kAll);
    compute_anew();
    if (has_dq) {
      if (one_.taken && DqPanel<T, D>::thread() == 0) one_.taken[sum] = 1;
      add_dq(dq, seen, buffer);
      end_dq(dq, sum);
    }
    if constexpr (Score::kEntries) {
      if (one_.pass.distances) add_distances(places, place, key, partial, seen, buffer);
    }
  }

  /// What the group's keys give to dv and dk, and their gradients to shared memory.
  __device__ __forceinline__ void add_own(int head, int query, int own_key, int stage, int buffer) {
    const HeadPlace place{unit_.batch, head};
    const Chunk<true> chunk(own_key, position(query), 0, warp_, lane_);
    const Pieces<false> none(0);
    const Entries<Score> own_entries{entries(stage, group_), none};
    Dots<kRows, Score> dots;
    Numbers d_score;
    multiply_rows(keys(group_), queries(stage), dots.dot);
    multiply_rows(values(group_), d_outs(stage), d_score);
    wait_products<1>();
    hold(dots.dot);
    Numbers t, weight;
    Operands weights, gradient_operands;
    compute_anew();
    score_pair(problem_, place, visibility_, own_key, chunk, warp_ * 16, 0, own_entries, dots, t);
    // By 16 queries, so that a score need not be kept beside its weight.
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      const Chunk<true> own(own_key, position(query), n * 16, warp_, lane_);
      [[maybe_unused]] float tangent[2][4];
      weigh_pair<16>(own, lse(stage), of_16(t, n), of_16(weight, n));
      pack_operand<T>(weight[2 * n], weight[2 * n + 1], weights[n]);
      differentiate_cap<true, 16>(problem_.soft_cap, of_16(t, n), of_16(weight, n), tangent);
    }
    wait_products<0>();
    hold(d_score);
    compute_anew();
    Dots<kRows, Score> gradient;
    differentiate_pair<true>(
        problem_, place, own_entries, chunk, dots, weight, weight, delta(stage),
        [](int, int, float ds) { return ds; }, d_score, gradient);
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      pack_operand<T>(gradient.dot[2 * n], gradient.dot[2 * n + 1], gradient_operands[n]);
    }
    if constexpr (Score::kEntries) {
      if (one_.pass.distances) table_sums(buffer).add(group_ * 4 + warp_, lane_, d_score);
    }
    add_rows(weights, d_outs(stage), dv_);
    add_rows(gradient_operands, queries(stage), dk_);
    keep(gradients(buffer, group_), gradient_operands);
    wait_products<0>();
    hold_sums();
    hold(weights);
    hold(gradient_operands);
  }

  /// Begins rows . columns^T of two tiles.
  __device__ __forceinline__ void multiply_rows(std::uint32_t rows, std::uint32_t columns,
                                                Numbers& sums) const {
    fence_products();
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      const std::uint32_t at = static_cast<std::uint32_t>(d / 4) * kPanelBytes + (d % 4) * 32;
      multiply_tiles<T>(sums, descriptor(rows + at), descriptor(columns + at), d > 0);
    }
    commit_products();
  }
  /// Numbers of the queries 16 n ..
  __device__ static __forceinline__ auto of_16(Numbers& numbers, int n) -> float (&)[2][4] {
    return reinterpret_cast<float(&)[2][4]>(numbers[2 * n]);
  }
  /// Begins adding operands of all queries times their rows of a tile.
  __device__ __forceinline__ void add_rows(const Operands& operands, std::uint32_t tile,
                                           float (&sums)[kPanels][8][4]) const {
    fence_products();
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        multiply_group<T, true>(
            sums[panel], operands[n],
            descriptor(tile + static_cast<std::uint32_t>(panel) * kPanelBytes + n * 16 * 128));
      }
    }
    commit_products();
  }
  __device__ __forceinline__ void hold_sums() {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      hold(dv_[panel]);
      hold(dk_[panel]);
    }
  }
  /// Operands of the warp's keys to their rows of a tile.
  __device__ __forceinline__ void keep(std::uint32_t to, const Operands& operands) const {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = warp_ * 16 + lane_ / 4 + r % 2 * 8;
        store_shared(to + accumulator_offset<kRows>(row, 2 * n + r / 2, lane_), operands[n][r]);
      }
    }
  }

  // ---- dq ----

  /// The block's own sum, where one is there; zeros else.
  __device__ __forceinline__ void begin_dq(DqPanel<T, D>& dq, std::int64_t sum) const {
    const bool follows = one_.taken && one_.taken[sum];
    const float* from = one_.sums + sum * DqPanel<T, D>::kNumbers;
    dq.for_each_four([&](float(&four)[4], int place) {
      const Floats before = follows ? *reinterpret_cast<const Floats*>(from + place) : Floats{};
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] = before.x[e];
    });
  }
  /// Adds the gradients of the tiles of keys that are seen, rows and columns exchanged, times k.
  __device__ __forceinline__ void add_dq(DqPanel<T, D>& dq, const SeenTiles& seen,
                                         int buffer) const {
    if (seen.first && seen.second) {
      add_dq<0, 2>(dq, buffer);
    } else if (seen.first) {
      add_dq<0, 1>(dq, buffer);
    } else {
      add_dq<1, 2>(dq, buffer);
    }
  }
  template <int kFirst, int kLast>
  __device__ __forceinline__ void add_dq(DqPanel<T, D>& dq, int buffer) const {
    const std::uint32_t panel = DqPanel<T, D>::panel() * kPanelBytes;
    Operands operands[kLast - kFirst];
#pragma unroll
    for (int tile = kFirst; tile < kLast; ++tile) {
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        load_exchanged<kRows>(gradients(buffer, tile), n * 16, warp_, lane_,
                              operands[tile - kFirst][n]);
      }
    }
    hold(dq.sums);
    fence_products();
#pragma unroll
    for (int tile = kFirst; tile < kLast; ++tile) {
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        multiply_group<T, true>(dq.sums, operands[tile - kFirst][n],
                                descriptor(keys(tile) + panel + n * 16 * 128));
      }
    }
    commit_products();
    wait_products<0>();
    hold(dq.sums);
#pragma unroll
    for (int tile = 0; tile < kLast - kFirst; ++tile) hold(operands[tile]);
  }
  __device__ __forceinline__ void end_dq(DqPanel<T, D>& dq, std::int64_t sum) const {
    float* to = one_.sums + sum * DqPanel<T, D>::kNumbers;
    if (one_.taken) {
      dq.for_each_four([&](float(&four)[4], int place) {
        *reinterpret_cast<Floats*>(to + place) = Floats{{four[0], four[1], four[2], four[3]}};
      });
    } else {
      dq.for_each([&](float x, int place) { atomicAdd(to + place, x); });
    }
  }

  /// A pair's part of the table's gradient.
  __device__ __forceinline__ void add_distances(const QueryPlaces<Score>& places, int place,
                                                int key, int partial, const SeenTiles& seen,
                                                int buffer) const {
    const int thread = static_cast<int>(threadIdx.x);
    const float sum = table_sums(buffer).join(thread, seen.first, seen.second);
    float* to = one_.distances_of(unit_.number * one_.group + places.head_of(place), partial);
    KeyTableSums::add_to(to, kRows * (places.tile_of(place) - key / kRows - 2 + one_.key_tiles),
                         sum, seen.first, seen.second, !one_.taken);
  }

  // ---- Results ----

  __device__ void write(int own_key) const {
    const DeviceGradients& to = one_.pass.gradients;
    write_keys(to.dk, own_key, static_cast<int>(problem_.shape.head_dim), dk_,
               [&](int channel) { return problem_.score.factor(channel); });
    write_keys(to.dv, own_key, static_cast<int>(problem_.shape.value_dim), dv_,
               [](int) { return 1.0f; });
  }
  template <class Factor>
  __device__ void write_keys(const OutputTensor& to, int own_key, int width,
                             const float (&sums)[kPanels][8][4], const Factor& factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = own_key + warp_ * 16 + lane_ / 4 + 8 * half;
      if (row >= key_count()) continue;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        write_row<T, 64>(
            pointer<T>(to, unit_.batch, unit_.kv_head) + row * to.row + panel * 64, sums[panel],
            half, [&](int channel) { return factor(panel * 64 + channel); }, width - panel * 64,
            lane_);
      }
    }
  }

  const HopperBackwardLaunch<Score>& launch_;
  const OnePassLaunch<Score>& one_;
  const Problem<Score>& problem_;
  Unit unit_;
  int group_, warp_, lane_;
  Visibility visibility_;
  std::uint32_t shared_;
  float dk_[kPanels][8][4], dv_[kPanels][8][4];
};

/// grid.x blocks share the keys of a unit, grid.y units.
template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_one_pass_hopper_kernel(const __grid_constant__ HopperBackwardLaunch<Score> launch) {
  BlockHopperBackward<T, D, Score>(launch).run();
}

}  // namespace phasescope::kernels::cuda
