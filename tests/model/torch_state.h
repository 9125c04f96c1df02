#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/checkpoints/weights.h"
#include "tests/formats/torch_writer.h"

namespace phasescope::model {

// Contiguous float32 tensors as torch.save writes a state_dict of them.
inline void write_torch_state(const std::filesystem::path& path, const NamedTensors& tensors) {
  using namespace formats::pickled;
  std::vector<std::pair<std::string, std::string>> items;
  std::vector<std::string> storages;
  for (const auto& [name, given] : tensors) {
    const at::Tensor value = given.contiguous();
    const std::string key = std::to_string(storages.size());
    items.emplace_back(name, tensor(storage(value.numel(), "FloatStorage", key), 0,
                                    value.sizes().vec(), value.strides().vec()));
    storages.emplace_back(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
  }
  std::ofstream(path, std::ios::binary) << formats::zip_form(dict(items), storages);
}

}  // namespace phasescope::model
