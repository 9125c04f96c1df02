#pragma once
// Benchmarks (of kernels: bench_results.h).
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

struct BenchRow {
  std::string name, unit;
  double value = 0, min = 0, max = 0;
  int64_t runs = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("value", value), v("unit", unit), v("runs", runs), v("min", min);
    v("max", max);
  }
};

struct BenchResult {
  std::string device;
  std::vector<BenchRow> rows;
  template <class V>
  void fields(V& v) {
    v("device", device), v("rows", rows);
  }
};

}  // namespace phasescope::protocol
