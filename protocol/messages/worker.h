#pragma once
// The worker itself.
#include "protocol/about.h"

namespace phasescope::protocol {

// Versions, devices, threads: an object of facts.
struct WorkerInfoRequest {
  static constexpr const char* method = "worker.info";
  static constexpr const char* verb = "";
  template <class V>
  void fields(V&) {}
};

// Does nothing, and can be cancelled: {"slept"}.
struct SleepRequest {
  static constexpr const char* method = "worker.sleep";
  static constexpr const char* verb = "";
  double seconds = 1;
  template <class V>
  void fields(V& v) {
    v("seconds", seconds, About{.help = "how long", .low = 0, .high = 1e6});
  }
};

}  // namespace phasescope::protocol
