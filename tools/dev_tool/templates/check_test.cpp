#include <gtest/gtest.h>

#include "analysis/theory/NEW_NAME.h"

namespace phasescope::analysis {
namespace {

TEST(NewName, FailsWhereItIsBroken) {
  FAIL() << "write me: it holds where it should, and fails on what was built to break it";
}

}  // namespace
}  // namespace phasescope::analysis
