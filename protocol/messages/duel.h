#pragma once
// Which of two models predicts better, told as soon as the texts read so far say it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Two models (or readings, or checkpoints) on the same texts, one text after the other in random
// order, until an interval that may be looked at at any time decides: a DuelResult.
struct DuelRequest {
  static constexpr const char* method = "duel";
  static constexpr const char* verb = "duel";
  std::string a, b;
  Running running;
  Corpus corpus;
  std::vector<std::int64_t> lengths;
  double margin = 0;
  std::int64_t seed = 0;
  template <class V>
  void fields(V& v) {
    v("a", a, About{.help = "the first model, a reading of one or a checkpoint", .argument = "A"});
    v("b", b, About{.help = "the second", .argument = "B"});
    v("corpus", corpus, kCorpusAbout);
    v("lengths", lengths,
      About{.help = "tokens read of every text, one length (default: the shorter trained context)",
            .low = 2,
            .high = kMostTokens});
    v("margin", margin,
      About{.help = "models that differ by less, in bits, are equal (default: none are)",
            .low = 0});
    running.fields(v);
    v("seed", seed, kSeedAbout);
  }
};

// A text: what both lose on it.
struct DuelUnit {
  std::string name;
  double a = 0, b = 0, difference = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("a", a, About{.unit = "bits"}), v("b", b, About{.unit = "bits"});
    v("difference", difference, About{.title = "a - b", .unit = "bits"});
  }
};

// What was known after n units.
struct DuelStep {
  int64_t n = 0;
  double mean = 0;
  IntervalEnd low, high;
  template <class V>
  void fields(V& v) {
    v("n", n), v("mean", mean, About{.unit = "bits"}), v("low", low), v("high", high);
  }
};

// Negative: a is better. `low` and `high` hold at the moment of the stop, though it was chosen by
// looking. `n_to_decide`: how many units would decide at this mean and standard deviation; none
// where the mean is 0 or the duel is decided.
struct DuelResult {
  std::string a, b;
  std::string unit = "texts", per = "token";
  int64_t length = 0;  // tokens read of a text
  int64_t n = 0, texts = 0;
  double mean = 0;
  IntervalEnd low, high;
  std::string method = "none";
  std::string verdict = "undecided";  // A better, B better, equal within, undecided
  std::string why;
  std::optional<int64_t> n_to_decide;
  double skewness = 0;
  double margin = 0;
  std::vector<DuelStep> path;
  std::vector<DuelUnit> units;
  std::vector<Provenance> provenance;  // of a, then of b
  template <class V>
  void fields(V& v) {
    v("a", a), v("b", b), v("unit", unit), v("per", per);
    v("length", length, About{.unit = "tokens"}), v("n", n), v("texts", texts);
    v("mean", mean, About{.title = "a - b", .unit = "bits"}), v("low", low), v("high", high);
    v("method", method, About{.title = "interval by"});
    v("verdict", verdict), v("why", why);
    v("n_to_decide", n_to_decide, About{.title = "units that would decide"});
    v("skewness", skewness), v("margin", margin, About{.unit = "bits"});
    v("path", path), v("units", units), v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
