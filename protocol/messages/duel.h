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
// order, until an interval that may be looked at at any time decides; or two run configurations,
// trained with one seed after the other as jobs: a DuelResult.
struct DuelRequest {
  static constexpr const char* method = "duel";
  static constexpr const char* verb = "duel";
  std::string a, b;
  Running running;
  Corpus corpus;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> seeds = {1, 2, 3, 4, 5, 6};
  std::string job;
  double margin = 0;
  std::int64_t seed = 0;
  template <class V>
  void fields(V& v) {
    v("a", a,
      About{.help = "the first model, a reading of one, a checkpoint, or a run configuration "
                    "(.json), which is trained",
            .argument = "A"});
    v("b", b, About{.help = "the second", .argument = "B"});
    v("corpus", corpus, kCorpusAbout);
    v("lengths", lengths,
      About{.help = "tokens read of every text, or of a task the length in its own unit; one "
                    "length (default: the shorter trained one)",
            .low = 1,
            .high = kMostTokens});
    v("seeds", seeds,
      About{.help = "with run configurations: the seeds that are trained, in random order and no "
                    "more than are needed",
            .low = 0,
            .high = 1e9});
    v("job", job,
      About{.help = "folder that keeps what was measured, and the trainings of run configurations; "
                    "the same command goes on there"});
    v("margin", margin,
      About{.help = "models that differ by less than so many bits count as equal (default: 0)",
            .low = 0});
    running.fields(v);
    v("seed", seed, kSeedAbout);
  }
};

// A text: what both lose on it; or a seed: what both models of it lose on all texts, in the mean.
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
  std::int64_t n = 0;
  double mean = 0;
  IntervalEnd low, high;
  template <class V>
  void fields(V& v) {
    v("n", n), v("mean", mean, About{.unit = "bits"}), v("low", low), v("high", high);
  }
};

// Negative: a is better. `low` and `high` hold at the moment of the stop, though it was chosen by
// looking. `n_to_decide`: how many units would decide at this mean and standard deviation; none
// where the mean is 0 or the duel is decided. Of seeds `by_text` says what other texts would change
// with these seeds, `two_way` what other texts and seeds would.
struct DuelResult {
  std::string a, b;
  std::string unit = "texts", per = "token";  // per: token, byte; of a task "answer"
  std::int64_t length = 0;                    // tokens read of a text
  std::int64_t n = 0, texts = 0;
  double mean = 0;
  IntervalEnd low, high;
  std::string method = "none";
  std::string verdict = "undecided";  // A better, B better, equal within, undecided
  std::string why;
  std::optional<std::int64_t> n_to_decide;
  std::optional<double> skewness;  // of two differences and more
  double margin = 0;
  std::vector<DuelStep> path;
  std::vector<DuelUnit> units;
  std::optional<Interval> by_text, two_way;
  // What run configurations have: tensors that start alike, and those that one has alone or in
  // another shape.
  std::vector<std::string> shared, not_shared;
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
    v("by_text", by_text, About{.title = "on other texts", .unit = "bits", .or_null = true});
    v("two_way", two_way,
      About{.title = "on other texts and seeds", .unit = "bits", .or_null = true});
    v("path", path), v("units", units);
    v("shared", shared, About{.title = "tensors that start alike"});
    v("not_shared", not_shared, About{.title = "tensors that do not"});
    v("provenance", provenance);
  }
};

}  // namespace phasescope::protocol
