// Tensors as frames carry them: a name, a dtype, a shape, and bytes that somebody keeps alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace phasescope::protocol {

// Bytes of one element of a dtype as safetensors writes them (F64 F32 F16 BF16 I64 I32 I16 I8 U64
// U32 U16 U8 BOOL), or 0 for a name that is none of them.
std::size_t dtype_size(std::string_view dtype);

// Product of the dimensions times the size of an element; nothing when a dimension is negative, the
// dtype unknown, or the product exceeds 2^62.
std::optional<std::size_t> tensor_bytes(std::string_view dtype,
                                        std::span<const std::int64_t> shape);

// The dtype name of a C++ element type. BF16 and F16 have none: their bits are std::uint16_t.
template <class T>
constexpr std::string_view dtype_of() {
  if constexpr (std::is_same_v<T, double>) return "F64";
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, std::int64_t>) return "I64";
  if constexpr (std::is_same_v<T, std::int32_t>) return "I32";
  if constexpr (std::is_same_v<T, std::int16_t>) return "I16";
  if constexpr (std::is_same_v<T, std::int8_t>) return "I8";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "U64";
  if constexpr (std::is_same_v<T, std::uint32_t>) return "U32";
  if constexpr (std::is_same_v<T, std::uint16_t>) return "U16";
  if constexpr (std::is_same_v<T, std::uint8_t>) return "U8";
  return "";
}

// A dense tensor, row-major, little-endian, immutable. Copies share the bytes: they are owned, a
// part of a received frame, or a mapped memory file, and live as long as any copy of `data`.
struct TensorRef {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const std::byte> data;

  // Takes the values over without copying them. Throws std::invalid_argument when their number is
  // not the product of the shape.
  template <class T>
  static TensorRef own(std::string name, std::vector<std::int64_t> shape, std::vector<T> values);
  // Bytes that `keeper` keeps alive (a torch tensor in a shared_ptr, a mapped file); not copied.
  static TensorRef view(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                        const void* bytes, std::shared_ptr<const void> keeper);
  static TensorRef copy(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                        const void* bytes);

  std::size_t size_bytes() const { return tensor_bytes(dtype, shape).value_or(0); }
  std::size_t elements() const;
  std::span<const std::byte> bytes() const { return {data.get(), size_bytes()}; }
  // The elements as T. Throws std::invalid_argument when dtype is not T's; F16, BF16 and BOOL are
  // read as the unsigned integer of their size.
  template <class T>
  std::span<const T> values() const;

 private:
  void expect_elements(std::size_t count) const;
  void expect_dtype(std::string_view wanted) const;
};

// The tensor of that name, or nullptr.
const TensorRef* find_tensor(std::span<const TensorRef> tensors, std::string_view name);

template <class T>
TensorRef TensorRef::own(std::string name, std::vector<std::int64_t> shape, std::vector<T> values) {
  static_assert(!dtype_of<T>().empty(), "no dtype has this element type");
  TensorRef tensor{std::move(name), std::string(dtype_of<T>()), std::move(shape), nullptr};
  tensor.expect_elements(values.size());
  auto keeper = std::make_shared<const std::vector<T>>(std::move(values));
  auto* bytes = reinterpret_cast<const std::byte*>(keeper->data());
  tensor.data = std::shared_ptr<const std::byte>(std::move(keeper), bytes);
  return tensor;
}

template <class T>
std::span<const T> TensorRef::values() const {
  expect_dtype(dtype_of<T>());
  return {reinterpret_cast<const T*>(data.get()), elements()};
}

}  // namespace phasescope::protocol
