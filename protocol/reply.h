// What a request gives back when it succeeds.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "protocol/tensor.h"

namespace phasescope::protocol {

struct Reply {
  nlohmann::json result;           // the JSON form of a struct of protocol/messages/
  std::vector<TensorRef> tensors;  // bulk arrays of it, found by name

  // Throws RequestError("internal") when the reply has no tensor of that name.
  const TensorRef& tensor(std::string_view name) const;
};

}  // namespace phasescope::protocol
