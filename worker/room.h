// Memory of a device that ran out: what nobody waits for leaves, and the request is tried once
// more, smaller.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/handlers.h"

namespace phasescope::worker {

// The handler with a second try: where LibTorch or the CUDA kernels say that a device has no memory
// left, the passes that are kept and the models used before this one leave it, and the request runs
// again without keeping any pass. What the second try throws is thrown. Requests about jobs, which
// act on the machine, have one try.
Handler with_second_try(Handler handler);

// What their sentence says was wanted and is free, in bytes: "Tried to allocate 2.00 GiB. GPU
// 0 has a total capacity of 139.80 GiB of which 1.20 GiB is free."
struct DeviceShortage {
  double wanted = 0, free = 0;
};
std::optional<DeviceShortage> shortage_of(std::string_view sentence);

// What would fit, as a hint: "about 60 % of what was wanted at once is free: ...".
std::string what_would_fit(const std::optional<DeviceShortage>& shortage);

// Error "out_of_memory" for a model whose weights have no room on a device, with the dtype or the
// device on which they would have.
[[noreturn]] void refuse_for_room(const std::string& model, std::int64_t weight_bytes,
                                  std::int64_t element_bytes, const std::string& device,
                                  std::int64_t free_bytes);

}  // namespace phasescope::worker
