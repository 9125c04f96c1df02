#pragma once
// Theorem checks with verdicts.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/provenance.h"

namespace phasescope::protocol {

// Theorem checks with verdicts: a TheoryResult.
struct TheoryRequest {
  static constexpr const char* method = "theory";
  static constexpr const char* verb = "theory";
  std::vector<std::string> models;
  RunningInBoth running;
  ReadingMany reading;
  std::vector<std::string> check;
  std::int64_t pairs = 0;
  std::int64_t layer = 0, head = 0;
  template <class V>
  void fields(V& v) {
    v("models", models, kModelsAbout);
    reading.fields(v);
    running.fields(v);
    v("check", check,
      About{.help = "ids of checks, comma separated (default: all; without a model those that need "
                    "none)"});
    v("pairs", pairs,
      About{.help = "samples of the checks that draw pairs (default: each check's own)",
            .title = "Pairs drawn",
            .low = 1,
            .high = 1e9});
    v("layer", layer,
      About{.help = "layer of the head whose curves rope.intrinsic_bias and cape.surface give",
            .title = "Layer of the curves",
            .low = 0,
            .high = 1e6});
    v("head", head,
      About{.help = "head whose curves rope.intrinsic_bias and cape.surface give",
            .title = "Head of the curves",
            .low = 0,
            .high = 1e6});
  }
};

// The theorem checks: {"checks": [CheckInfo]}.
struct TheoryListRequest {
  static constexpr const char* method = "theory.list";
  static constexpr const char* verb = "";
  template <class V>
  void fields(V&) {}
};

enum class Verdict { holds, fails, premise_not_met, undecided };

inline const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::fails:
      return "fails";
    case Verdict::premise_not_met:
      return "premise_not_met";
    case Verdict::undecided:
      return "undecided";
  }
  return "";
}

// Points of the plot that shows a check: `bound` and `noise` may be empty.
struct CheckCurve {
  std::string label, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<double> x, y, bound;
  template <class V>
  void fields(V& v) {
    v("label", label), v("x_label", x_label), v("y_label", y_label), v("log_x", log_x);
    v("log_y", log_y), v("x", x), v("y", y), v("bound", bound);
  }
};

struct CheckResult {
  std::string id, model;
  std::string verdict = "undecided";          // name_of(Verdict)
  std::optional<double> value, bound, noise;  // none where nothing was measured
  std::int64_t samples = 0, seed = 0;
  std::string detail, source, statement;
  std::vector<CheckCurve> curves;
  template <class V>
  void fields(V& v) {
    v("id", id), v("model", model), v("verdict", verdict), v("value", value), v("bound", bound);
    v("noise", noise), v("samples", samples), v("seed", seed), v("detail", detail);
    v("source", source), v("statement", statement), v("curves", curves);
  }
};

struct TheoryResult {
  std::vector<CheckResult> checks;
  std::vector<Provenance> provenance;
  template <class V>
  void fields(V& v) {
    v("checks", checks), v("provenance", provenance);
  }
};

// What a check states and of what. `needs`: what it is measured on; `rule`: how the verdict is
// reached.
struct CheckInfo {
  std::string id, statement, source, title, needs, rule;
  template <class V>
  void fields(V& v) {
    v("id", id), v("statement", statement), v("source", source), v("title", title);
    v("needs", needs), v("rule", rule);
  }
};

}  // namespace phasescope::protocol
