#pragma once
// What a shift of the text changes.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

struct ShiftRow {
  std::string model, method;  // method: ids, tokens
  int64_t by = 0, layer = 0;
  double attention_difference = 0;            // in 1e-2 units (TAPE Table 8)
  std::optional<double> position_difference;  // 100 ||G - G'||_F / ||G||_F; none without a state
  double logits_difference = 0;               // largest absolute difference over largest logit
  std::string dtype = "f32";
  template <class V>
  void fields(V& v) {
    v("model", model), v("method", method), v("by", by), v("layer", layer);
    v("attention_difference", attention_difference);
    v("position_difference", position_difference), v("logits_difference", logits_difference);
    v("dtype", dtype);
  }
};

struct ShiftResult {
  std::vector<ShiftRow> rows;
  std::string formula;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("formula", formula), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
