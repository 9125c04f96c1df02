#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/error.h"

namespace phasescope::formats {

// What went wrong in several steps of which each may fail by itself, told at once: whoever has two
// settings wrong is to hear of both.
class GatheredErrors {
 public:
  // Whether the step ended without one. An Error "cancelled" or "internal" is thrown on.
  bool run(const std::function<void()>& step);
  // A single error as it is. Of several one with the first one's code and all their sentences;
  // `what` names them: "settings".
  void throw_if_any(const std::string& what) const;

 private:
  std::vector<Error> errors_;
};

}  // namespace phasescope::formats
