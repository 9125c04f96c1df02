#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensors/pickle_machine.h"
#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// A run of bytes that tensors are views of.
struct TorchStorage {
  std::string key;
  std::uint64_t size = 0;  // bytes that the pickle says it has
  std::uint32_t item = 1;  // bytes of an element, as the file counts them
};

// A tensor as a view of a storage. entry.offset and entry.size are in bytes from the storage's
// first; strides are in elements, one for each dimension.
struct TorchTensor {
  TensorEntry entry;
  std::size_t storage = 0;  // in TorchState::storages
  std::uint32_t item = 0;   // bytes of an element, of unsupported types too
  std::vector<std::int64_t> strides;
};

struct TorchState {
  std::vector<TorchStorage> storages;
  std::vector<TorchTensor> tensors;  // in the order of the state_dict
  std::vector<std::string> warnings;
};

// The tensors of an unpickled state_dict: the top-level dict itself or, where that holds no tensor,
// the dict under "state_dict", "model_state_dict", "model" or "module" in it. Every view is checked
// to lie in its storage with no element twice. `where` names the file in errors. Throws Error
// "bad_input".
TorchState torch_state(const Pickle& pickle, const std::string& where);

}  // namespace phasescope::formats
