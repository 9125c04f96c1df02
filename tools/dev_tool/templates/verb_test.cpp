#include <gtest/gtest.h>

#include "app/verbs/factories.h"
#include "fake_run.h"

namespace phasescope::app {
namespace {

TEST(NewNameVerb, TablesWhatTheWorkerAnswers) {
  FAIL() << "write me: what it asks, what it makes of a reply that was made up";
}

}  // namespace
}  // namespace phasescope::app
