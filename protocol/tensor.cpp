#include "protocol/tensor.h"

#include <array>
#include <cstring>
#include <stdexcept>

#include "protocol/error_info.h"
#include "protocol/reply.h"

namespace phasescope::protocol {

namespace {

struct DtypeSize {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array dtype_sizes = {
    DtypeSize{"F64", 8},  DtypeSize{"F32", 4}, DtypeSize{"F16", 2}, DtypeSize{"BF16", 2},
    DtypeSize{"I64", 8},  DtypeSize{"I32", 4}, DtypeSize{"I16", 2}, DtypeSize{"I8", 1},
    DtypeSize{"U64", 8},  DtypeSize{"U32", 4}, DtypeSize{"U16", 2}, DtypeSize{"U8", 1},
    DtypeSize{"BOOL", 1},
};

constexpr std::size_t largest_tensor = std::size_t{1} << 62;

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// The integer type that reads a dtype C++ has no type for.
std::string_view read_as(std::string_view dtype) {
  if (dtype == "F16" || dtype == "BF16") return "U16";
  if (dtype == "BOOL") return "U8";
  return dtype;
}

}  // namespace

std::size_t dtype_size(std::string_view dtype) {
  for (const auto& known : dtype_sizes) {
    if (known.name == dtype) return known.bytes;
  }
  return 0;
}

std::optional<std::size_t> tensor_bytes(std::string_view dtype,
                                        std::span<const std::int64_t> shape) {
  std::size_t bytes = dtype_size(dtype);
  if (bytes == 0) return std::nullopt;
  bool empty = false;
  for (std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) {
      empty = true;
    } else if (static_cast<std::size_t>(dimension) > largest_tensor / bytes) {
      return std::nullopt;
    } else {
      bytes *= static_cast<std::size_t>(dimension);
    }
  }
  return empty ? 0 : bytes;
}

TensorRef TensorRef::view(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                          const void* bytes, std::shared_ptr<const void> keeper) {
  std::shared_ptr<const std::byte> data(std::move(keeper), static_cast<const std::byte*>(bytes));
  return {std::move(name), std::move(dtype), std::move(shape), std::move(data)};
}

TensorRef TensorRef::copy(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                          const void* bytes) {
  const auto size = tensor_bytes(dtype, shape);
  if (!size) {
    throw std::invalid_argument("tensor '" + name + "' has dtype " + dtype + " and shape " +
                                shape_text(shape) + ", which no tensor can have");
  }
  auto keeper = std::make_shared_for_overwrite<std::byte[]>(*size);
  if (*size > 0) std::memcpy(keeper.get(), bytes, *size);
  const std::byte* at = keeper.get();
  return view(std::move(name), std::move(dtype), std::move(shape), at, std::move(keeper));
}

std::size_t TensorRef::elements() const {
  const std::size_t item = dtype_size(dtype);
  return item == 0 ? 0 : size_bytes() / item;
}

void TensorRef::expect_elements(std::size_t count) const {
  if (tensor_bytes(dtype, shape) != count * dtype_size(dtype)) {
    throw std::invalid_argument("tensor '" + name + "' has shape " + shape_text(shape) + " but " +
                                std::to_string(count) + " values");
  }
}

void TensorRef::expect_dtype(std::string_view wanted) const {
  if (read_as(dtype) != wanted) {
    throw std::invalid_argument("tensor '" + name + "' is " + dtype + " and was read as " +
                                std::string(wanted));
  }
}

const TensorRef* find_tensor(std::span<const TensorRef> tensors, std::string_view name) {
  for (const auto& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const TensorRef& Reply::tensor(std::string_view name) const {
  if (const auto* found = find_tensor(tensors, name)) return *found;
  throw RequestError({std::string(error_code::internal),
                      "the worker's answer has no tensor '" + std::string(name) + "'", "", ""});
}

}  // namespace phasescope::protocol
