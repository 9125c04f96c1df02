#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/tensors/safetensors.h"

namespace phasescope::formats {

// A tensor as it lies in a file: weights in few bits, or the scales beside them. The file must
// outlive it.
class StoredTensor {
 public:
  StoredTensor(const TensorFile& file, TensorEntry entry)
      : file_(&file), entry_(std::move(entry)) {}

  const TensorEntry& entry() const { return entry_; }
  const std::vector<std::int64_t>& shape() const { return entry_.shape; }
  std::int64_t size(std::size_t dimension) const { return entry_.shape.at(dimension); }

  std::vector<std::byte> bytes(std::uint64_t begin, std::uint64_t count) const;
  // Elements of F32, F16, BF16 or F8_E8M0.
  std::vector<float> floats(std::uint64_t first, std::uint64_t count) const;
  // Elements of I32 or U32, the latter by its bits.
  std::vector<std::uint32_t> words(std::uint64_t first, std::uint64_t count) const;
  // All elements of I32 or I64.
  std::vector<std::int64_t> integers() const;

  // Throw Error "bad_input" that names the tensor.
  void require_type(std::initializer_list<std::string_view> names) const;
  void require_shape(const std::vector<std::int64_t>& shape) const;
  void require_dimensions(std::size_t count) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const TensorFile* file_;
  TensorEntry entry_;
};

}  // namespace phasescope::formats
