#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// A tensor whose bytes are made when its turn to be written has come, so that a file larger than
// memory can be written.
struct TensorSource {
  using Write = std::function<void(std::span<const std::byte>)>;

  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::function<void(const Write& write)> produce;  // row-major, in pieces of any size
};

// write_safetensors (safetensors.h) of tensors that are made one after the other, in the order of
// the file. What `produce` throws leaves no file behind. Throws Error "internal" where it does not
// give the bytes of the shape, too.
void write_safetensors_from(FileSystem& fs, const std::filesystem::path& path,
                            std::span<const TensorSource> tensors,
                            const std::map<std::string, std::string>& metadata = {});

}  // namespace phasescope::formats
