#include "analysis/theory/NEW_NAME.h"

#include "analysis/theory/verdicts.h"

namespace phasescope::analysis {
namespace {

CheckResult run_NEW_NAME(const CheckContext&) {
  return not_measured(Verdict::premise_not_met, "write me");
}

}  // namespace

TheoryCheck NEW_NAME() {
  return {{.id = "NEW_NAME",
           .statement = "write me: what is stated",
           .source = "write me: paper and equation",
           .title = "NEW_NAME",
           .needs = "nothing",
           .rule = "write me: what holds, and by which rounding"},
          &run_NEW_NAME,
          On::construction};
}

}  // namespace phasescope::analysis
