#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "formats/tensors/safetensors.h"
#include "model/checkpoints/weights.h"

namespace phasescope::model {

// Tensors between files and memory. Unsupported types are Error "bad_input" naming the tensor.
at::ScalarType scalar_type(formats::DType dtype);
formats::DType file_dtype(at::ScalarType type);

at::Tensor read_tensor(const formats::TensorArchive& archive, const formats::TensorEntry& entry);
at::Tensor read_tensor(const formats::SafetensorsFile& file, const formats::TensorEntry& entry);

// Writes tensors of any strides, in the dtypes they have.
void write_tensors(formats::FileSystem& fs, const std::filesystem::path& path,
                   const NamedTensors& tensors,
                   const std::map<std::string, std::string>& metadata = {});

// "f32", "f64", "bf16", "f16" and back; Error "bad_usage" for anything else.
at::ScalarType dtype_of_name(const std::string& name);
std::string name_of_dtype(at::ScalarType type);

}  // namespace phasescope::model
