#pragma once
// Converted checkpoints.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The files lie in the folder `out`.
struct ConvertResult {
  std::string model, to, out;
  std::vector<std::string> files;
  std::vector<std::string> notes;  // what was done to the tensors, and what to know
  int64_t tensors = 0, parameters_before = 0, parameters = 0, bytes = 0;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("to", to), v("out", out), v("files", files), v("notes", notes);
    v("tensors", tensors), v("parameters_before", parameters_before);
    v("parameters", parameters), v("bytes", bytes), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
