#pragma once
// Extrapolation tests.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

struct EvalRow {
  std::string model;
  std::string metric;  // of `value`: "bits_per_byte", "bits_per_token" or "perplexity" (a token)
  int64_t length = 0;
  double value = 0, low = 0, high = 0;
  int64_t n = 0, seed = 0;
  std::string window;
  template <class V>
  void fields(V& v) {
    v("model", model), v("metric", metric), v("length", length), v("value", value);
    v("low", low), v("high", high), v("n", n), v("seed", seed), v("window", window);
  }
};

// Loss against position past the trained length: mean over texts by position bucket.
struct PositionCurve {
  std::string model;
  std::string metric;  // of `bits`: "bits_per_byte" or "bits_per_token"
  std::string source;  // what was read: "validation texts", "texts of seeded random ids", ...
  int64_t trained_length = 0, texts = 0;
  std::vector<double> position, bits, low, high;  // centre of the bucket, bits a byte or token
  template <class V>
  void fields(V& v) {
    v("model", model), v("metric", metric), v("source", source);
    v("trained_length", trained_length), v("texts", texts);
    v("position", position), v("bits", bits), v("low", low), v("high", high);
  }
};

// `metric` and `chance` (the value of ids drawn evenly) are those of every row; where models have
// different ones the metric is "bits" and the chance NaN, and each row says which it has.
struct EvalResult {
  std::string task, metric;
  double chance = 0;
  std::vector<EvalRow> rows;
  std::vector<PositionCurve> positions;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("task", task), v("metric", metric), v("chance", chance), v("rows", rows);
    v("positions", positions), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
