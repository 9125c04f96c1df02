#pragma once
// A formula of a score: its parameters, how it runs, and whether it is what it says.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

// What the encoding `formula` makes of an expression: a FormulaResult. No model is read.
struct FormulaRequest {
  static constexpr const char* method = "formula";
  static constexpr const char* verb = "formula";
  std::string expression;
  std::int64_t heads = 4, head_dim = 48, length = 256, seed = 1;
  std::string layout = "half";
  bool check = false;
  template <class V>
  void fields(V& v) {
    v("expression", expression,
      About{.help = "a file with the formula, or the formula itself, which has a '='",
            .argument = "FILE"});
    v("heads", heads, About{.help = "heads of the model it is for", .low = 1, .high = 4096});
    v("head_dim", head_dim, About{.help = "channels of a head", .low = 1, .high = 4096});
    v("length", length,
      About{.help = "tokens of the text that the cost is computed for",
            .low = 1,
            .high = kMostTokens});
    v("layout", layout,
      About{.help = "channels of plane m: (m, m + d/2) or (2m, 2m + 1)",
            .choices = "half|interleaved"});
    v("check", check,
      About{.help = "also run it on random queries and keys: whether it gives the same as a fused "
                    "kernel and as a term, its gradients, and what a shift of the positions does"});
    v("seed", seed,
      About{
          .help = "seed of the check's queries, keys and parameters", .low = 0, .needs = "check"});
  }
};

// `count` numbers in each layer, or in the model where it is shared.
struct FormulaParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  bool shared = false;
  std::string start, unit;
  std::optional<double> low, high;
  std::int64_t count = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("shape", shape), v("shared", shared), v("start", start), v("unit", unit);
    v("low", low), v("high", high), v("count", count);
  }
};

// In float64, over the largest score. both_ways: as the kernel's kind against the term. slopes:
// gradients against differences of the score. shift: positions 1000 later.
struct FormulaCheck {
  double both_ways = 0, slopes = 0, shift = 0;
  std::string verdict;  // holds or fails
  std::string why;
  template <class V>
  void fields(V& v) {
    v("both_ways", both_ways), v("slopes", slopes), v("shift", shift);
    v("verdict", verdict), v("why", why);
  }
};

// `macs` and `flops` of one layer, beyond plain attention.
struct FormulaResult {
  std::string expression, kind, why;  // why: it is a term
  bool fused = false, shift_invariant = false;
  std::vector<std::string> warnings;
  std::vector<FormulaParameter> parameters;
  std::int64_t length = 0;
  double macs = 0, flops = 0;
  std::optional<FormulaCheck> check;
  template <class V>
  void fields(V& v) {
    v("expression", expression), v("kind", kind), v("fused", fused), v("why", why);
    v("shift_invariant", shift_invariant), v("warnings", warnings);
    v("parameters", parameters), v("length", length, About{.unit = "tokens"});
    v("macs", macs, About{.title = "multiply-adds of a layer beyond attention's"});
    v("flops", flops, About{.title = "other operations of a layer"}), v("check", check);
  }
};

}  // namespace phasescope::protocol
