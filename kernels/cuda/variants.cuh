#pragma once
// What may vary on the device, with no-op defaults: the same pieces as the CPU's HeadVariant. A
// variant is a struct passed by value; what it leaves out costs nothing.

#include <concepts>
#include <cstdint>

namespace phasescope::kernels::cuda {

template <class V>
concept DeviceVariant = requires(const V& v, float s, std::int64_t i) {
  // Score of a pair in log2 units from its dot product in log2 units: (s, query, key, head).
  { v.score(s, i, i, i) } -> std::same_as<float>;
};

struct PlainVariant {
  __device__ __forceinline__ float score(float s, std::int64_t, std::int64_t, std::int64_t) const {
    return s;
  }
};
static_assert(DeviceVariant<PlainVariant>);

}  // namespace phasescope::kernels::cuda
