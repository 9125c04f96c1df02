#include <algorithm>

#include "analysis/theory/check.h"
#include "analysis/theory/rope_intrinsic_bias.h"
#include "analysis/theory/tapa_histogram.h"
#include "analysis/theory/tape_permutation.h"
#include "analysis/theory/tape_shift.h"
#include "analysis/theory/tape_special_case.h"
#include "formats/error.h"

namespace phasescope::analysis {

const std::vector<TheoryCheck>& theory_checks() {
  static const std::vector<TheoryCheck> list = {
      tape_permutation(),    tape_shift(),     tape_special_case(),
      rope_intrinsic_bias(), tapa_histogram(),
  };
  return list;
}

std::vector<TheoryCheck> select_checks(const std::vector<std::string>& ids) {
  if (ids.empty()) return theory_checks();
  std::vector<TheoryCheck> chosen;
  for (const std::string& id : ids) {
    const auto at = std::ranges::find_if(
        theory_checks(), [&id](const TheoryCheck& check) { return check.info.id == id; });
    if (at != theory_checks().end()) {
      chosen.push_back(*at);
      continue;
    }
    std::string known;
    for (const TheoryCheck& check : theory_checks()) known += " " + check.info.id;
    throw formats::bad_usage("there is no check \"" + id + "\"", "check", "known:" + known);
  }
  return chosen;
}

CheckResult run_check(const TheoryCheck& check, const CheckContext& context) {
  CheckResult result = check.run(context);
  result.id = check.info.id;
  result.statement = check.info.statement;
  result.source = check.info.source;
  result.model = context.model->report.name;
  result.seed = static_cast<std::int64_t>(context.seed);
  return result;
}

}  // namespace phasescope::analysis
