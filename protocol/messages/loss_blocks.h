#pragma once
// The loss by position of two ways of reading a text.
#include <cstdint>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Rows [begin, end): what their loss rises by, paired row by row, with its interval over texts (or
// over the 8 blocks of one).
struct LossBlock {
  std::int64_t begin = 0, end = 0;
  Interval change;
  template <class V>
  void fields(V& v) {
    v("begin", begin), v("end", end);
    v("change", change, About{.title = "change of the loss", .unit = "nats a token"});
  }
};

}  // namespace phasescope::protocol
