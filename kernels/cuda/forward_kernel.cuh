#pragma once
// The forward pass in Ampere form: a block of 64 queries of one head, four warps of 16; keys come in
// tiles of 64 through cp.async into two buffers, products are mma.sync 16 x 8 x 16, sums float32.
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: two-stage copies, swizzled tiles, online softmax in registers; not yet run.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/probes.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/cuda/variants.cuh"

namespace phasescope::kernels::cuda {

/// The shape and the variant for one launch; scale is in log2 units.
template <class Variant>
struct Launch {
  CudaAttention attention;
  Variant variant;
  float scale_log2;
};

/// Two rows of a warp's 16 that a thread holds: lane / 4 and that + 8.
template <class Probes>
struct RowState {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // this thread's columns
  Probes probes[2];
};

template <typename T, int D, class Probes, DeviceVariant Variant>
class BlockForward {
 public:
  __device__ BlockForward(const Launch<Variant>& launch, char* shared)
      : launch_(launch), a_(launch.attention), shape_(launch.attention.shape) {
    batch_ = blockIdx.z;
    head_ = blockIdx.y;
    // The longest rows first.
    first_ = static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * kRows;
    warp_ = threadIdx.x / 32;
    lane_ = threadIdx.x % 32;
    q_tile_ = shared_address(shared);
    k_tile_ = q_tile_ + kTileBytes;
    v_tile_ = k_tile_ + 2 * kTileBytes;
  }

  __device__ void run() {
    const std::int64_t last = min(first_ + kRows, shape_.queries) - 1;
    std::int64_t keys = shape_.causal ? last + shape_.query_offset + 1 : shape_.keys;
    keys = max(std::int64_t{0}, min(keys, shape_.keys));
    const int tiles = static_cast<int>((keys + kRows - 1) / kRows);
    copy_tile<T, D>(q_tile_, pointer(a_.q, head_), a_.q.row, first_, shape_.queries, channels());
    if (tiles > 0) fetch(0);
    commit_copies();
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile + 1 < tiles) fetch(tile + 1);
      commit_copies();
      wait_copies<1>();
      __syncthreads();
      if (tile == 0) load_queries();
      attend(tile, keys);
      __syncthreads();
    }
    wait_copies<0>();
    write();
  }

  static constexpr int kTileBytes = kRows * D * 2;
  static constexpr int kSharedBytes = 5 * kTileBytes;

 private:
  __device__ int channels() const { return static_cast<int>(shape_.head_dim); }
  __device__ std::int64_t kv_head() const { return head_ / (shape_.heads / shape_.kv_heads); }

  __device__ T* pointer(const CudaTensor& tensor, std::int64_t head) const {
    return static_cast<T*>(tensor.data) + batch_ * tensor.batch + head * tensor.head;
  }

  /// Starts copying key and value tile n into buffer n % 2.
  __device__ void fetch(int n) {
    const std::uint32_t buffer = static_cast<std::uint32_t>(n % 2) * kTileBytes;
    const std::int64_t first = static_cast<std::int64_t>(n) * kRows;
    copy_tile<T, D>(k_tile_ + buffer, pointer(a_.k, kv_head()), a_.k.row, first, shape_.keys,
                    channels());
    copy_tile<T, D>(v_tile_ + buffer, pointer(a_.v, kv_head()), a_.v.row, first, shape_.keys,
                    channels());
  }

  /// The warp's 16 queries as fragments, kept in registers.
  __device__ void load_queries() {
    const int row = warp_ * 16 + lane_ % 16;
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      load_matrices(q_tile_ + chunk_offset<D>(row, d * 2 + lane_ / 16), q_[d]);
    }
  }

  /// One tile of keys: scores, running softmax, weighted values.
  __device__ void attend(int tile, std::int64_t keys) {
    const std::uint32_t buffer = static_cast<std::uint32_t>(tile % 2) * kTileBytes;
    float s[kRows / 8][4];
    score(k_tile_ + buffer, s);
    const std::int64_t key = static_cast<std::int64_t>(tile) * kRows;
    transform(key, keys, s);
    soften(key, s);
    average(v_tile_ + buffer, s);
  }

  __device__ void score(std::uint32_t tile, float (&s)[kRows / 8][4]) const {
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) s[n][c] = 0;
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        // Matrices: keys 0-7 channels 0-7, the same channels 8-15, then keys 8-15.
        std::uint32_t k[4];
        const int row = n * 16 + (lane_ / 16) * 8 + lane_ % 8;
        load_matrices(tile + chunk_offset<D>(row, d * 2 + (lane_ / 8) % 2), k);
        Half<T>::multiply(s[2 * n], q_[d], k[0], k[1]);
        Half<T>::multiply(s[2 * n + 1], q_[d], k[2], k[3]);
      }
    }
  }

  __device__ std::int64_t row_of(int half) const { return first_ + warp_ * 16 + lane_ / 4 + 8 * half; }

  /// Dot products to scores in log2 units; -inf where the mask or the end of the keys says so.
  __device__ void transform(std::int64_t key, std::int64_t keys, float (&s)[kRows / 8][4]) const {
    const bool whole = key + kRows <= keys &&
                       (!shape_.causal || key + kRows - 1 <= first_ + warp_ * 16 + shape_.query_offset);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t j = key + n * 8 + (lane_ % 4) * 2 + c % 2;
        const std::int64_t i = row_of(c / 2) + shape_.query_offset;
        const bool visible = whole || (j < keys && (!shape_.causal || j <= i));
        s[n][c] = visible ? launch_.variant.score(s[n][c] * launch_.scale_log2, i, j, head_)
                          : -INFINITY;
      }
    }
  }

  /// Scores to weights relative to the running maximum; sums and values so far are rescaled.
  __device__ void soften(std::int64_t key, float (&s)[kRows / 8][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float best = rows_.maximum[half];
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
        best = fmaxf(best, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      best = quad_max(best);
      // Rows without a visible key so far keep -inf; their weights are 0, not NaN.
      const float base = best == -INFINITY ? 0 : best;
      const float old = rows_.maximum[half];
      const float step = old == -INFINITY ? 0 : old - base;
      const float factor = old == -INFINITY ? 0 : exp2f(step);
      rows_.probes[half].rescale(factor, step, rows_.sum[half]);
      rows_.maximum[half] = best;
      rows_.sum[half] *= factor;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        out_[d][2 * half] *= factor;
        out_[d][2 * half + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float t = s[n][2 * half + c];
          const float p = exp2f(t - base);
          rows_.sum[half] += p;
          rows_.probes[half].add(a_.rows, p, t, base, row_of(half) + shape_.query_offset,
                                 key + n * 8 + (lane_ % 4) * 2 + c);
          s[n][2 * half + c] = p;
        }
      }
    }
  }

  /// out += p v. A 16 x 8 accumulator pair is a 16 x 16 operand as it stands.
  __device__ void average(std::uint32_t tile, const float (&p)[kRows / 8][4]) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      const std::uint32_t weights[4] = {
          Half<T>::pack(p[2 * n][0], p[2 * n][1]), Half<T>::pack(p[2 * n][2], p[2 * n][3]),
          Half<T>::pack(p[2 * n + 1][0], p[2 * n + 1][1]),
          Half<T>::pack(p[2 * n + 1][2], p[2 * n + 1][3])};
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        // Matrices: keys 0-7 channels 0-7, keys 8-15, then channels 8-15 of both; transposed.
        std::uint32_t v[4];
        const int row = n * 16 + lane_ % 16;
        load_matrices_transposed(tile + chunk_offset<D>(row, d * 2 + lane_ / 16), v);
        Half<T>::multiply(out_[2 * d], weights, v[0], v[1]);
        Half<T>::multiply(out_[2 * d + 1], weights, v[2], v[3]);
      }
    }
  }

  __device__ void write() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = row_of(half);
      const float l = quad_sum(rows_.sum[half]);
      const bool exists = row < shape_.queries;
      const bool writes = exists && lane_ % 4 == 0;
      const std::int64_t at = (batch_ * shape_.heads + head_) * shape_.queries + row;
      rows_.probes[half].write(a_.rows, at, rows_.maximum[half], l, writes);
      if (writes && a_.lse) {
        a_.lse[at] = l == 0 ? -INFINITY
                            : (rows_.maximum[half] + log2f(l)) * 0.693147180559945309f;
      }
      const float inverse = l == 0 ? 0 : 1 / l;
      T* out = pointer(a_.out, head_) + row * a_.out.row;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        const int channel = d * 8 + (lane_ % 4) * 2;
        if (!exists || channel >= channels()) continue;
        *reinterpret_cast<std::uint32_t*>(out + channel) =
            Half<T>::pack(out_[d][2 * half] * inverse, out_[d][2 * half + 1] * inverse);
      }
    }
  }

  const Launch<Variant>& launch_;
  const CudaAttention& a_;
  const AttentionShape& shape_;
  std::int64_t batch_, head_, first_;
  int warp_, lane_;
  std::uint32_t q_tile_, k_tile_, v_tile_;
  std::uint32_t q_[D / 16][4];
  float out_[D / 8][4] = {};
  RowState<Probes> rows_;
};

template <typename T, int D, class Probes, DeviceVariant Variant>
__global__ void __launch_bounds__(kThreads)
    attention_forward_kernel(const __grid_constant__ Launch<Variant> launch) {
  extern __shared__ __align__(128) char shared[];
  BlockForward<T, D, Probes, Variant>(launch, shared).run();
}

template <typename T, int D, class Probes, DeviceVariant Variant>
void launch_forward(const CudaAttention& attention, const Variant& variant) {
  const AttentionShape& s = attention.shape;
  const auto kernel = attention_forward_kernel<T, D, Probes, Variant>;
  constexpr int kBytes = BlockForward<T, D, Probes, Variant>::kSharedBytes;
  PHASESCOPE_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const dim3 grid(static_cast<unsigned>((s.queries + kRows - 1) / kRows),
                  static_cast<unsigned>(s.heads), static_cast<unsigned>(s.batch));
  const Launch<Variant> launch{attention, variant, attention.scale * 1.44269504088896341f};
  kernel<<<grid, kThreads, kBytes, static_cast<cudaStream_t>(attention.stream)>>>(launch);
  PHASESCOPE_CUDA(cudaGetLastError());
}

}  // namespace phasescope::kernels::cuda
