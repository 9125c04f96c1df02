#include "model/checkpoints/tensor_io.h"

#include <ATen/ATen.h>

#include <vector>

#include "formats/error.h"

namespace phasescope::model {
namespace {

struct TypeRow {
  formats::DType file;
  at::ScalarType memory;
  const char* name;  // the command line's, null where it has none
};

constexpr TypeRow kTypes[] = {
    {formats::DType::f32, at::kFloat, "f32"},      {formats::DType::f64, at::kDouble, "f64"},
    {formats::DType::bf16, at::kBFloat16, "bf16"}, {formats::DType::f16, at::kHalf, "f16"},
    {formats::DType::i8, at::kChar, nullptr},      {formats::DType::i16, at::kShort, nullptr},
    {formats::DType::i32, at::kInt, nullptr},      {formats::DType::i64, at::kLong, nullptr},
    {formats::DType::u8, at::kByte, nullptr},      {formats::DType::boolean, at::kBool, nullptr},
};

template <typename Source>
at::Tensor read_from(const Source& source, const formats::TensorEntry& entry) {
  if (entry.dtype == formats::DType::unsupported) {
    throw formats::bad_input(
        "tensor " + entry.name + " has type " + entry.dtype_name + ", which cannot be read",
        entry.name);
  }
  const at::Tensor tensor = at::empty(entry.shape, scalar_type(entry.dtype));
  source.read(entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), entry.size});
  return tensor;
}

}  // namespace

at::ScalarType scalar_type(formats::DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.file == dtype) return row.memory;
  }
  throw formats::bad_input("tensors of this type cannot be read");
}

formats::DType file_dtype(at::ScalarType type) {
  for (const TypeRow& row : kTypes) {
    if (row.memory == type) return row.file;
  }
  throw formats::internal_error(std::string("tensors of type ") + at::toString(type) +
                                " cannot be written");
}

at::Tensor read_tensor(const formats::TensorArchive& archive, const formats::TensorEntry& entry) {
  return read_from(archive, entry);
}

at::Tensor read_tensor(const formats::SafetensorsFile& file, const formats::TensorEntry& entry) {
  return read_from(file, entry);
}

void write_tensors(formats::FileSystem& fs, const std::filesystem::path& path,
                   const NamedTensors& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<at::Tensor> kept;
  std::vector<formats::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& flat = kept.back();
    list.push_back({name,
                    file_dtype(flat.scalar_type()),
                    flat.sizes().vec(),
                    {static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()}});
  }
  formats::write_safetensors(fs, path, list, metadata);
}

at::ScalarType dtype_of_name(const std::string& name) {
  for (const TypeRow& row : kTypes) {
    if (row.name != nullptr && name == row.name) return row.memory;
  }
  throw formats::bad_usage("\"" + name + "\" is no dtype; known: f32, f64, bf16, f16", "--dtype");
}

std::string name_of_dtype(at::ScalarType type) {
  for (const TypeRow& row : kTypes) {
    if (row.name != nullptr && row.memory == type) return row.name;
  }
  return at::toString(type);
}

}  // namespace phasescope::model
