#include "app/views/NEW_NAME_view.h"

#include <gtest/gtest.h>

namespace phasescope::app {
namespace {

TEST(NewNameView, ShowsWhatTheWorkerAnswers) {
  FAIL() << "write me: what it asks, and what it draws of answers that were made up";
}

}  // namespace
}  // namespace phasescope::app
