#pragma once
// Captured tensors, and checks against a reference.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The tensors themselves are those of the reply, under cli.md's names.
struct CaptureResult {
  std::string model;
  std::vector<std::string> names;
  int64_t bytes = 0;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("names", names), v("bytes", bytes), v("provenance", provenance);
  }
};

struct CheckedTensor {
  std::string name;
  double error = 0, tolerance = 0;  // relative to the tensor's largest magnitude
  bool ok = false;
  std::string dtype;
  template <class V>
  void fields(V& v) {
    v("name", name), v("error", error), v("tolerance", tolerance), v("ok", ok);
    v("dtype", dtype);
  }
};

struct ReferenceCheckResult {
  std::string model, reference, verdict;  // verdict: equal, differs, nothing compared
  std::vector<CheckedTensor> tensors;     // worst first
  std::vector<std::string> not_compared;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("reference", reference), v("verdict", verdict), v("tensors", tensors);
    v("not_compared", not_compared), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
