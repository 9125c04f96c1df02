#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace phasescope::formats {

// A tensor whose numbers a file keeps in fewer bits, read as float32 in the plain row-major order.
class PackedTensor {
 public:
  virtual ~PackedTensor() = default;

  // How many elements can only be decoded together, or are best.
  virtual std::uint64_t step() const = 0;
  // Decodes out.size() elements from the element `first` on, which is a multiple of step(). They
  // end at a multiple of it, or with the tensor. Safe from several threads at once.
  virtual void decode(std::uint64_t first, std::span<float> out) const = 0;
};

// TensorFile::read_part of a packed tensor of `count` elements.
void read_packed(const PackedTensor& tensor, std::uint64_t count, std::uint64_t begin,
                 std::span<std::byte> out);
// TensorFile::visit of one.
void visit_packed(const PackedTensor& tensor, std::uint64_t count,
                  const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace phasescope::formats
