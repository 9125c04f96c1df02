// Exceptions of handlers as the errors that are sent.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "protocol/error_info.h"

namespace phasescope::worker {

// The device is in a state that no later call survives. A handler may throw it; what LibTorch
// throws in such a case is translated to the same.
class FatalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Failure {
  protocol::ErrorInfo error;
  // The process cannot go on (a device fault): it says so and leaves with status 70.
  bool fatal = false;
};

// Knows some exceptions that the core does not (LibTorch's); nothing for all others.
using Translator = std::function<std::optional<Failure>(std::exception_ptr)>;

// The translators are asked first, in order.
Failure describe_failure(std::exception_ptr exception, const std::vector<Translator>& translators);

}  // namespace phasescope::worker
