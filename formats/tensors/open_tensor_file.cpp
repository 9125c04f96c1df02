#include "formats/tensors/gguf.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/tensor_file.h"
#include "formats/tensors/torch_file.h"

namespace phasescope::formats {

std::unique_ptr<TensorFile> open_tensor_file(const std::filesystem::path& path,
                                             const OpenOptions& options) {
  if (path.extension() != ".safetensors" && is_torch_file(path)) {
    return TorchFile::open(path, options);
  }
  if (path.extension() == ".gguf" || is_gguf_file(path)) {
    return std::make_unique<GgufFile>(GgufFile::open(path, options));
  }
  return std::make_unique<SafetensorsFile>(SafetensorsFile::open(path, options));
}

}  // namespace phasescope::formats
