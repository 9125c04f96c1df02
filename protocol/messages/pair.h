#pragma once
// One query and one key: their phasors, and where the key would have to stand to be read.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// One pair of a head, and its score at every other distance: a PairResult.
struct PairRequest {
  static constexpr const char* method = "pair";
  static constexpr const char* verb = "pair";
  std::string model;
  Running running;
  Reading reading;
  std::string head = "L0H0";
  std::int64_t query = -1, key = -1;
  template <class V>
  void fields(V& v) {
    v("model", model, kModelAbout);
    reading.fields(v);
    running.fields(v);
    v("head", head, About{.help = "the head, e.g. L3H5"});
    v("query", query, About{.help = "index of the query (default: the last token)", .low = -1});
    v("key", key, About{.help = "index of the key (default: the token before)", .low = -1});
  }
};

// Where content corrects a bias (CAPE), `base` is the bias before that, and `correction` what is
// added to content and base; of a form that adds no base, all that is added. Where the content is
// turned by its distance as well, no base is told: what is left of the score has both.
struct PairPoint {
  std::int64_t distance = 0;
  double score = 0, weight = 0;
  std::optional<double> base = {}, correction = {};
  template <class V>
  void fields(V& v) {
    v("distance", distance), v("score", score), v("weight", weight);
    v("base", base), v("correction", correction);
  }
};

// TAPA's one hand: its length, and its angle, a negative amplitude's half turn included.
struct PairClock {
  double amplitude = 0, phase = 0;  // radians, at the true distance
  template <class V>
  void fields(V& v) {
    v("amplitude", amplitude), v("phase", phase);
  }
};

// `phasors` [re, im] of each plane at the true distance; their real parts and `tail` make the
// score. `state` [size, angle] of what the content did to the key's state, plane by plane. `rest`
// is ln sum e^s over the other keys that the query sees. Without `curve` the pair has no other
// distance, and `why` says so; `cut` says where a curve ends before 10^6, and why.
struct PairResult {
  std::string model, formula;
  std::int64_t layer = 0, head = 0, query = 0, key = 0, true_distance = 0, trained = 0;
  double score = 0, weight = 0, content = 0, positional = 0, rest = 0, tail = 0;
  std::vector<std::vector<double>> phasors, state;
  std::optional<PairClock> clock;
  std::optional<double> base, correction;  // of the positional part, as those of a point
  std::optional<std::vector<PairPoint>> curve;
  std::optional<std::int64_t> best_distance;  // of the curve: where the weight is largest
  std::optional<double> share_above;          // of the trained distances: larger weight than now
  std::string why, cut;
  Provenance provenance;
  template <class V>
  void fields(V& v) {
    v("model", model), v("formula", formula), v("layer", layer), v("head", head);
    v("query", query), v("key", key), v("true_distance", true_distance), v("trained", trained);
    v("score", score), v("weight", weight), v("content", content), v("positional", positional);
    v("rest", rest), v("tail", tail), v("phasors", phasors), v("state", state);
    v("clock", clock), v("base", base), v("correction", correction);
    v("curve", curve, About{.or_null = true});
    v("best_distance", best_distance, About{.or_null = true});
    v("share_above", share_above, About{.or_null = true}), v("why", why), v("cut", cut),
        v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
