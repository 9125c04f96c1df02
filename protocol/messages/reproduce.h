#pragma once
// What came of a paper's claims: the answer of `reproduce`, which asks the worker what the claims'
// own commands ask.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// A number as a paper prints it.
struct PublishedNumber {
  std::string name;
  double value = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("value", value);
  }
};

// One measured here, or in words what a check says. n of an exact one is 0, and both ends are the
// value.
struct MeasuredNumber {
  std::string name;
  double value = 0;
  IntervalEnd low, high;
  std::int64_t n = 0;
  std::string words;
  template <class V>
  void fields(V& v) {
    v("name", name), v("value", value), v("low", low), v("high", high), v("n", n);
    v("words", words);
  }
};

// verdict: "agrees", "disagrees", "cannot tell", or "not run" where the command has not been run.
struct ClaimRow {
  std::string paper, item, claim, unit;
  std::vector<PublishedNumber> published;
  std::vector<MeasuredNumber> measured;
  std::vector<MeasuredNumber>
      differences;  // paired; of an order's neighbours the second - the first
  std::string verdict = "not run";
  std::string why;
  std::string limits;   // how far what is measured here can speak of what was published
  std::string command;  // that measures it here
  double seconds = 0;   // that it took
  template <class V>
  void fields(V& v) {
    v("paper", paper), v("item", item), v("claim", claim), v("unit", unit);
    v("published", published), v("measured", measured), v("differences", differences);
    v("verdict", verdict), v("why", why), v("limits", limits), v("command", command);
    v("seconds", seconds, About{.title = "time", .unit = "s"});
  }
};

struct ReproduceResult {
  std::vector<ClaimRow> rows;
  std::int64_t agrees = 0, disagrees = 0, cannot_tell = 0, not_run = 0;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("agrees", agrees), v("disagrees", disagrees);
    v("cannot_tell", cannot_tell, About{.title = "cannot tell"});
    v("not_run", not_run, About{.title = "not run"});
  }
};

}  // namespace phasescope::protocol
