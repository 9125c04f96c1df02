#pragma once
// The tensors of the attention kernels, and the sizes and masks of a call.

#include <cstdint>

namespace phasescope::kernels {

/// Widest row of any tensor.
inline constexpr std::int64_t kMaxChannels = 512;

/// How the numbers of a tensor are stored: IEEE 754 binary32, its upper half, or binary16.
enum class Storage : std::uint8_t { float32, bfloat16, float16 };

/// A (B, H, N, d) tensor owned by the caller: strides in elements, channels contiguous (stride 1).
/// A stride may be 0 (broadcast) for inputs. Tensors of one call may be stored differently; results
/// are computed in float32 and rounded to nearest even once, when they are stored. A backward pass
/// reads the `out` that was stored, so gradients of 16-bit tensors carry its rounding.
template <typename Void>
struct Tensor4 {
  Void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  Storage storage = Storage::float32;
};
using InputTensor = Tensor4<const void>;
using OutputTensor = Tensor4<void>;

/// Sizes and mask. Query head h reads key/value head h / (heads / kv_heads).
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  ///< divides heads
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t head_dim = 0;   ///< of q and k, 1..512
  std::int64_t value_dim = 0;  ///< of v and out; 0 means head_dim
  /// Causal: query i sees the keys j <= i + query_offset. Rows that see no key give out = 0,
  /// lse = -inf and no gradient.
  bool causal = true;
  /// Index of query 0 among the keys (keys - queries aligns both at their ends). May be negative.
  std::int64_t query_offset = 0;
  /// Above 0: a query sees the keys with |lambda| < window. Others cost nothing.
  std::int64_t window = 0;
};

}  // namespace phasescope::kernels
