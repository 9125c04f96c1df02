#include "formats/tensors/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/safetensors_header.h"
#include "formats/text_input.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

// The Python package's order of types, by rising alignment; files list them in falling order.
constexpr std::array<DType, 10> kRising = {DType::boolean, DType::u8,   DType::i8,  DType::i16,
                                           DType::f16,     DType::bf16, DType::i32, DType::f32,
                                           DType::f64,     DType::i64};

std::ptrdiff_t rank(DType dtype) {
  return std::find(kRising.begin(), kRising.end(), dtype) - kRising.begin();
}

std::uint64_t byte_count(const TensorSource& tensor) {
  return static_cast<std::uint64_t>(*checked_element_count(tensor.shape)) * item_size(tensor.dtype);
}

void check_tensor(const TensorSource& tensor, const std::string& where) {
  if (tensor.dtype == DType::unsupported || !checked_element_count(tensor.shape)) {
    throw internal_error("[safetensors] tensor " + shortened(tensor.name) + " of type " +
                             std::string(dtype_name(tensor.dtype)) + " and shape " +
                             shape_text(tensor.shape) + " cannot be written",
                         where);
  }
  if (first_invalid_utf8(tensor.name) != tensor.name.size() || tensor.name == "__metadata__") {
    throw internal_error("[safetensors] a tensor cannot be named " + shortened(tensor.name), where);
  }
}

std::vector<const TensorSource*> in_file_order(std::span<const TensorSource> tensors,
                                               const std::string& where) {
  std::vector<const TensorSource*> order;
  for (const TensorSource& tensor : tensors) {
    check_tensor(tensor, where);
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorSource* a, const TensorSource* b) {
    return a->dtype != b->dtype ? rank(a->dtype) > rank(b->dtype) : a->name < b->name;
  });
  const auto same_name = [](const auto* a, const auto* b) { return a->name == b->name; };
  auto by_name = order;
  std::sort(by_name.begin(), by_name.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  const auto twice = std::adjacent_find(by_name.begin(), by_name.end(), same_name);
  if (twice != by_name.end()) {
    throw internal_error("[safetensors] tensor " + shortened((*twice)->name) + " is given twice",
                         where);
  }
  return order;
}

std::string header_text(const std::vector<const TensorSource*>& order,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorSource* tensor : order) {
    nlohmann::ordered_json entry;
    entry["dtype"] = dtype_name(tensor->dtype);
    entry["shape"] = tensor->shape;
    entry["data_offsets"] = {offset, offset + byte_count(*tensor)};
    offset += byte_count(*tensor);
    // The names are known to be distinct; ordered_json's operator[] would look through all of them.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(tensor->name,
                                                                     std::move(entry));
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

std::array<std::byte, 8> little_endian(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[i] = std::byte(value >> (8 * i));
  return bytes;
}

void write_tensor(WritableFile& file, const TensorSource& tensor, const std::string& where) {
  std::uint64_t written = 0;
  tensor.produce([&](std::span<const std::byte> bytes) {
    written += bytes.size();
    file.write(bytes);
  });
  if (written == byte_count(tensor)) return;
  throw internal_error("[safetensors] tensor " + shortened(tensor.name) + " of shape " +
                           shape_text(tensor.shape) + " does not fit its " +
                           std::to_string(written) + " bytes",
                       where);
}

}  // namespace

void write_safetensors_from(FileSystem& fs, const std::filesystem::path& path,
                            std::span<const TensorSource> tensors,
                            const std::map<std::string, std::string>& metadata) {
  const auto order = in_file_order(tensors, path.string());
  const std::string header = header_text(order, metadata);
  if (header.size() > kMaxHeaderBytes) {
    throw internal_error("[safetensors] the header would be above 100000000 bytes", path.string());
  }
  write_file_atomically_with(fs, path, [&](WritableFile& file) {
    file.write(little_endian(header.size()));
    file.write_text(header);
    for (const TensorSource* tensor : order) write_tensor(file, *tensor, path.string());
  });
}

void write_safetensors(FileSystem& fs, const std::filesystem::path& path,
                       std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorSource> sources;
  for (const TensorToWrite& tensor : tensors) {
    sources.push_back({tensor.name, tensor.dtype, tensor.shape,
                       [bytes = tensor.bytes](const TensorSource::Write& write) { write(bytes); }});
  }
  write_safetensors_from(fs, path, sources, metadata);
}

}  // namespace phasescope::formats
