#pragma once
// cape.adaptive: how much CAPE's bias varies with the context, and which way it slopes (CAPE, arXiv
// 2405.14722, Figure 1).
#include "analysis/adaptive_bias.h"
#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck cape_adaptive();

}  // namespace phasescope::analysis
