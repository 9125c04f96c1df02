#include "formats/tensors/tensor_file.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "formats/error.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeRow, 10> kDTypes = {{{DType::f32, "F32", 4},
                                               {DType::f16, "F16", 2},
                                               {DType::bf16, "BF16", 2},
                                               {DType::f64, "F64", 8},
                                               {DType::i8, "I8", 1},
                                               {DType::i16, "I16", 2},
                                               {DType::i32, "I32", 4},
                                               {DType::i64, "I64", 8},
                                               {DType::u8, "U8", 1},
                                               {DType::boolean, "BOOL", 1}}};

constexpr std::uint64_t kBlockBytes = 1 << 20;

}  // namespace

std::size_t item_size(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.bytes;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "unsupported";
}

DType dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return DType::unsupported;
}

std::int64_t TensorEntry::element_count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (text.size() > 120) return text + ", ...]";
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::optional<std::uint64_t> checked_element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(count, n, &count)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(count);
}

const std::vector<std::vector<std::string>>& TensorFile::tied() const {
  static const std::vector<std::vector<std::string>> none;
  return none;
}

const std::vector<std::string>& TensorFile::warnings() const {
  static const std::vector<std::string> none;
  return none;
}

void TensorFile::read(const TensorEntry& entry, std::span<std::byte> out) const {
  if (out.size() != entry.size) {
    throw internal_error("[tensor file] the buffer for " + shortened(entry.name) + " has " +
                         std::to_string(out.size()) + " bytes and needs " +
                         std::to_string(entry.size));
  }
  read_part(entry, 0, out);
}

void TensorFile::visit(const TensorEntry& entry, const Visit& visit) const {
  check_part(entry, 0, entry.size);
  std::vector<std::byte> block(std::min(entry.size, kBlockBytes));
  for (std::uint64_t begin = 0; begin < entry.size;) {
    const auto part = std::span(block).first(std::min(entry.size - begin, kBlockBytes));
    read_part(entry, begin, part);
    visit(part);
    begin += part.size();
  }
}

void TensorFile::read_bytes(const TensorEntry& entry, std::uint64_t begin,
                            std::span<std::byte> out) const {
  read_part(entry, begin, out);
}

std::optional<MappedBytes> TensorFile::mapped(const TensorEntry&) const { return std::nullopt; }

std::uint64_t TensorFile::whole_bytes(const TensorEntry& entry) const {
  return std::max<std::size_t>(item_size(entry.dtype), 1);
}

void TensorFile::check_part(const TensorEntry& entry, std::uint64_t begin,
                            std::uint64_t size) const {
  if (entry.dtype == DType::unsupported) {
    throw bad_input("tensor " + in_quotes(entry.name) + " has the type " +
                        shortened(entry.dtype_name) + ", which is not supported",
                    path().string(), "convert it to F32, F16 or BF16 first");
  }
  if (begin > entry.size || size > entry.size - begin) {
    throw internal_error("[tensor file] a read past the end of " + shortened(entry.name));
  }
}

}  // namespace phasescope::formats
