#pragma once
// What is there and what is missing: the answer of `doctor`.
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

struct Fact {
  std::string what, found;
  std::string hint = {};  // what to do where it is missing; empty where all is well
  template <class V>
  void fields(V& v) {
    v("what", what), v("found", found), v("hint", hint);
  }
};

struct DoctorResult {
  std::vector<Fact> facts;
  template <class V>
  void fields(V& v) {
    v("facts", facts);
  }
};

}  // namespace phasescope::protocol
