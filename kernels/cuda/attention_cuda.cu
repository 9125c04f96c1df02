#include "kernels/cuda/attention_cuda.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels {
namespace {

/// Names the launch in profilers for as long as it lives.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

void require(bool holds, const char* sentence) {
  if (!holds) throw std::invalid_argument(std::string("[cuda attention] ") + sentence);
}

bool is_aligned(const CudaTensor& t) {
  return t.data && reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.batch % 8 == 0 &&
         t.head % 8 == 0 && t.row % 8 == 0;
}

void check(const CudaAttention& a) {
  const AttentionShape& s = a.shape;
  require(s.batch >= 1 && s.heads >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0,
          "expected kv_heads to divide heads, all at least 1");
  require(s.batch < 65536 && s.heads < 65536, "expected fewer than 65536 heads and batch entries");
  require(s.head_dim % 8 == 0 && s.head_dim >= 8 && s.head_dim <= 128,
          "expected a head_dim that is a multiple of 8 up to 128");
  require(s.value_dim == 0 || s.value_dim == s.head_dim, "expected value_dim equal to head_dim");
  require(s.keys >= 1, "expected at least one key");
  require(s.window == 0, "expected no window: this form has none yet");
  require(is_aligned(a.q) && is_aligned(a.k) && is_aligned(a.v) && is_aligned(a.out),
          "expected tensors on 16-byte boundaries with strides that are multiples of 8");
}

bool wants_probes(const RowProbes& rows) {
  bool wanted = rows.entropy || rows.max_score || rows.max_key || rows.top1_mass ||
                rows.first_key_weight || rows.mean_distance;
  for (const float* window : rows.window_mass) wanted = wanted || window;
  return wanted;
}

}  // namespace

void cuda_attention_forward(const CudaAttention& attention) {
  const NvtxRange range("phasescope attention forward");
  if (attention.shape.queries == 0) return;
  check(attention);
  const bool narrow = attention.shape.head_dim <= 64;
  cuda::Launcher* launcher = attention.type == CudaType::bfloat16
                                 ? (narrow ? cuda::forward_bf16_64 : cuda::forward_bf16_128)
                                 : (narrow ? cuda::forward_fp16_64 : cuda::forward_fp16_128);
  launcher(attention, wants_probes(attention.rows));
}

bool cuda_available(std::string& reason) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    reason = std::string("CUDA cannot be used here: ") + cudaGetErrorString(status) + ".";
    return false;
  }
  if (devices == 0) reason = "This machine has no CUDA device.";
  return devices > 0;
}

}  // namespace phasescope::kernels
