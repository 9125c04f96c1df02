#pragma once
// The same text through two models.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// The same text through two models: a CompareResult.
struct CompareRequest {
  static constexpr const char* method = "compare";
  static constexpr const char* verb = "compare";
  std::string a, b;
  std::vector<std::string> models;
  Running running;
  ReadingMany reading;
  template <class V>
  void fields(V& v) {
    v("a", a, About{.help = "first model", .argument = "A"});
    v("b", b, About{.help = "second model", .argument = "B"});
    v("models", models, About{.help = "both, in place of a and b", .wire_only = true});
    reading.fields(v);
    running.fields(v);
  }
};

struct HeadDivergence {
  int64_t layer = 0, head = 0;
  double js_divergence = 0;  // nats, mean over rows
  IntervalEnd low, high;     // 95 % interval over n texts, or over the 8 blocks of one
  int64_t n = 0;
  std::string method = "none";
  template <class V>
  void fields(V& v) {
    v("layer", layer), v("head", head);
    v("js_divergence", js_divergence, About{.title = "Jensen-Shannon divergence", .unit = "nats"});
    v("low", low), v("high", high), v("n", n), v("method", method, About{.title = "interval by"});
  }
};

struct CompareResult {
  std::string a, b;
  std::map<std::string, double> loss;  // "a", "b", "difference": nats a token
  Interval loss_difference;            // b - a, text by text
  std::vector<HeadDivergence> heads;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("a", a), v("b", b), v("loss", loss, About{.unit = "nats a token"});
    v("loss_difference", loss_difference,
      About{.title = "loss of b - loss of a", .unit = "nats a token"});
    v("heads", heads), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
