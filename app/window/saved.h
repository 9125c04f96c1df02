#pragma once
#include <string>

#include "app/cli/output.h"

namespace phasescope::app {

// What a view shows, for files: with the command line that makes it again, which is that of the
// answers shown, whatever is asked by now. `folder` tells several apart.
struct Saved {
  std::string folder;
  Output output;
  std::string command;
};

}  // namespace phasescope::app
