#pragma once
// Continued texts.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

struct GenerateResult {
  std::string model, prompt, text;
  std::vector<int64_t> ids;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("prompt", prompt), v("text", text), v("ids", ids);
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
