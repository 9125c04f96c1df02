#pragma once
// What a shift of the text changes.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// What a shift of the text changes: a ShiftResult. Computed in every one of `dtypes`, or in the one
// dtype that is given.
struct ShiftRequest {
  static constexpr const char* method = "shift";
  static constexpr const char* verb = "shift";
  std::vector<std::string> models;
  Running running{Opening{.dtype = ""}};
  ReadingMany reading;
  std::vector<std::int64_t> by{1, 3, 16};
  std::vector<std::string> methods{"ids", "tokens"};
  std::vector<std::string> dtypes{"f32", "f64"};
  template <class V>
  void fields(V& v) {
    v("models", models, kModelsAbout);
    reading.fields(v);
    running.fields(v);
    v("by", by,
      About{.help = "shifts, e.g. 1,3,16", .title = "Shifts", .unit = "tokens", .low = 0});
    v("method", methods,
      About{.help = "ids (position ids start at k), tokens (k [BOS] tokens before the text)",
            .title = "What is shifted",
            .choices = "ids|tokens"});
    v("dtypes", dtypes,
      About{.help = "computed in each of them, where no dtype is given",
            .title = "Computed in each of",
            .choices = "f32|f64|bf16|f16",
            .wire_only = true});
  }
};

struct ShiftRow {
  std::string model, method;  // method: ids, tokens
  std::int64_t by = 0, layer = 0;
  double attention_difference = 0;  // in 1e-2 units (TAPE Table 8)
  // 95 % intervals over texts, or over the 8 blocks of rows of one; the logits' difference is an
  // extreme, the largest of all texts.
  IntervalEnd attention_low, attention_high, position_low, position_high;
  std::int64_t n = 0;
  std::string unit = "blocks";                // of n: blocks, texts
  std::string interval = "none";              // how they were made, as Interval::method
  std::optional<double> position_difference;  // 100 ||G - G'||_F / ||G||_F; none without a state
  double logits_difference = 0;               // largest absolute difference over largest logit
  std::string dtype = "f32";
  // What the encoding's formula says of shifted ids (stays, moves, refused), and what the row says:
  // "rounding" where float64 has no difference but rounding, "failure" where it has one and the
  // formula none, "as declared" where both have one. Empty of added tokens, which are read, and
  // where float64 was not computed.
  std::string expected, verdict;
  template <class V>
  void fields(V& v) {
    v("model", model), v("method", method), v("by", by, About{.unit = "tokens"});
    v("layer", layer);
    v("attention_difference", attention_difference,
      About{.title = "attention difference", .unit = "1e-2"});
    v("attention_low", attention_low), v("attention_high", attention_high);
    v("position_low", position_low), v("position_high", position_high);
    v("n", n), v("unit", unit), v("interval", interval, About{.title = "interval by"});
    v("position_difference", position_difference,
      About{.title = "position difference", .unit = "%"});
    v("logits_difference", logits_difference,
      About{.title = "logits difference", .unit = "of the largest logit"});
    v("dtype", dtype);
    v("expected", expected), v("verdict", verdict);
  }
};

// What an encoding declares of a shift of all position ids.
struct ShiftExpectation {
  std::string model, encoding, expected, why;
  template <class V>
  void fields(V& v) {
    v("model", model), v("encoding", encoding), v("expected", expected), v("why", why);
  }
};

struct ShiftResult {
  std::vector<ShiftRow> rows;
  std::vector<ShiftExpectation> expected;
  std::string formula;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("expected", expected), v("formula", formula), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
