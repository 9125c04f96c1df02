#pragma once
// Write me: the question.
#include <string>

#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"
#include "protocol/messages/questions.h"

namespace phasescope::protocol {

// Write me: a NewNameResult.
struct NewNameRequest {
  static constexpr const char* method = "NEW_NAME";
  static constexpr const char* verb = "NEW_NAME";
  std::string model;
  Opening running;
  QuestionTexts reading;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v), running.fields(v);
  }
};

struct NewNameResult {
  std::string model;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
