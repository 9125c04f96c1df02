// Keeps standard input and output for frames, away from every library that prints.
#pragma once

#include "formats/unique_fd.h"

namespace phasescope::worker {

struct FrameFds {
  formats::UniqueFd in;
  formats::UniqueFd out;
};

// To be called before anything else: returns duplicates of descriptors 0 and 1, then points 0 at
// /dev/null and 1 at standard error, so that a stray print lands in the log and not in a frame.
// Throws std::system_error.
FrameFds take_standard_streams();

}  // namespace phasescope::worker
