#include "model/encodings/NEW_NAME.h"

#include <gtest/gtest.h>

namespace phasescope::model {
namespace {

TEST(NewName, ScoresAreTheReferences) {
  FAIL() << "write me: scores against other people's code, a closed form or float64";
}

}  // namespace
}  // namespace phasescope::model
