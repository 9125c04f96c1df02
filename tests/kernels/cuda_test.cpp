// The CUDA form on the cases of the CPU tests: sizes, dimensions, groups, masks, probes, both
// types.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

// 16-bit types by their bits: round to nearest even.
std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
float from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}
float from_float16(std::uint16_t x) {
  const int exponent = (x >> 10) & 31;
  const float mantissa = static_cast<float>(x & 1023);
  const float magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return x & 0x8000 ? -magnitude : magnitude;
}
std::uint16_t to_float16(float x) {
  const float a = std::abs(x);
  int exponent = 0;
  std::frexp(a, &exponent);
  const int shift = std::max(exponent - 11, -24);  // of the last bit kept
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(a, -shift)));
  const std::uint32_t bits =
      shift == -24 ? steps : (static_cast<std::uint32_t>(shift + 24) << 10) + steps;
  return static_cast<std::uint16_t>(bits | (std::signbit(x) ? 0x8000u : 0u));
}

struct HalfType {
  CudaType type;
  std::uint16_t (*to)(float);
  float (*from)(std::uint16_t);
  double epsilon;  ///< half a unit in the last place of 1
};
const HalfType kTypes[] = {{CudaType::bfloat16, to_bfloat16, from_bfloat16, 0x1p-9},
                           {CudaType::float16, to_float16, from_float16, 0x1p-12}};

/// Device memory of some bytes.
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t bytes) { PHASESCOPE_CUDA(cudaMalloc(&data_, bytes + 1)); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void put(const void* from, std::size_t bytes) {
    PHASESCOPE_CUDA(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice));
  }
  void get(void* to, std::size_t bytes) const {
    PHASESCOPE_CUDA(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost));
  }

 private:
  void* data_ = nullptr;
};

/// Rounds a case's tensor to the type (in place, so that the reference reads the same numbers) and
/// returns its bits.
std::vector<std::uint16_t> round_to(const HalfType& type, std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (float& value : values) {
    bits.push_back(type.to(value));
    value = type.from(bits.back());
  }
  return bits;
}

CudaTensor on_device(DeviceArray& array, const std::vector<std::uint16_t>& bits,
                     const InputTensor& strides) {
  array.put(bits.data(), bits.size() * 2);
  return {array.as<void>(), strides.batch, strides.head, strides.row};
}

void expect_right(const HalfType& type, const Problem& problem, bool with_probes) {
  SCOPED_TRACE(problem_name(problem));
  Case c(problem);
  const auto q = round_to(type, c.q), k = round_to(type, c.k), v = round_to(type, c.v);
  DeviceArray dq(q.size() * 2), dk(k.size() * 2), dv(v.size() * 2), dout(c.out.size() * 2),
      dlse(c.lse.size() * 4), dentropy(c.lse.size() * 4), ddistance(c.lse.size() * 4);
  CudaAttention a;
  a.shape = problem.shape;
  a.type = type.type;
  a.scale = c.inputs.scale;
  a.q = on_device(dq, q, c.inputs.q);
  a.k = on_device(dk, k, c.inputs.k);
  a.v = on_device(dv, v, c.inputs.v);
  a.out = {dout.as<void>(), c.outputs.out.batch, c.outputs.out.head, c.outputs.out.row};
  a.lse = dlse.as<float>();
  if (with_probes) {
    a.rows.entropy = dentropy.as<float>();
    a.rows.mean_distance = ddistance.as<float>();
  }
  cuda_attention_forward(a);
  PHASESCOPE_CUDA(cudaDeviceSynchronize());
  std::vector<std::uint16_t> bits(c.out.size());
  dout.get(bits.data(), bits.size() * 2);
  dlse.get(c.lse.data(), c.lse.size() * 4);
  for (std::size_t n = 0; n < bits.size(); ++n) c.out[n] = type.from(bits[n]);

  // The plain operation in this type: weights and results rounded to it.
  Reference<double> truth(c.inputs);
  Reference<float> plain(c.inputs);
  for (float& p : plain.weight) p = type.from(type.to(p));
  plain.out = plain.average(c.inputs.v, plain.values());
  for (float& x : plain.out) x = type.from(type.to(x));
  const double floor = 4 * type.epsilon / 0x1p-24;
  expect_close("out", c.out, plain.out, truth.out, floor, 1);
  expect_close("lse", c.lse, plain.lse, truth.lse, 16, 1);
  if (!with_probes) return;
  std::vector<float> entropy(c.lse.size()), distance(c.lse.size());
  dentropy.get(entropy.data(), entropy.size() * 4);
  ddistance.get(distance.data(), distance.size() * 4);
  const AttentionShape& s = problem.shape;
  for (std::size_t r = 0; r < entropy.size(); ++r) {
    double h = 0, d = 0;
    for (std::int64_t j = 0; j < s.keys; ++j) {
      const double p =
          truth.weight[r * static_cast<std::size_t>(s.keys) + static_cast<std::size_t>(j)];
      if (p > 0) h -= p * std::log(p);
      d += p * static_cast<double>(truth.distance(static_cast<std::int64_t>(r) % s.queries, j));
    }
    EXPECT_NEAR(entropy[r], h, 1e-4);
    EXPECT_NEAR(distance[r], d, 1e-4 * (1 + std::abs(d)));
  }
}

class CudaForward : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
  }
};

TEST_P(CudaForward, IsRightAtEverySize) {
  for (const std::int64_t size : {1, 2, 17, 63, 64, 65, 81, 127, 128, 129, 1000}) {
    for (const std::int64_t dim : {32, 64, 80, 128}) {
      Problem problem{Kind::plain};
      problem.shape = {1, 2, 1, size, size, dim};
      expect_right(kTypes[GetParam()], problem, size % 2 == 1);
    }
  }
}

TEST_P(CudaForward, IsRightWithGroupsOffsetsAndNoMask) {
  Problem problem{Kind::plain};
  problem.shape = {2, 7, 1, 100, 190, 64};
  problem.shape.query_offset = 90;
  expect_right(kTypes[GetParam()], problem, true);
  problem.shape.causal = false;
  expect_right(kTypes[GetParam()], problem, true);
  problem.shape.causal = true;
  problem.shape.query_offset = -40;
  expect_right(kTypes[GetParam()], problem, true);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaForward, ::testing::Values(0, 1),
                         [](const auto& info) { return info.param ? "float16" : "bfloat16"; });

}  // namespace
}  // namespace phasescope::kernels::testing
