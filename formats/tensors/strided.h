#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "formats/read_only_file.h"

// Tensors whose elements do not lie one behind the other in the order of their indices (transposes,
// slices). Shapes and strides are in elements, none negative, one stride for each dimension.

namespace phasescope::formats {

// How many elements from the first to the last one, both included; 0 for a tensor without elements,
// nullopt where it does not fit 63 bits.
std::optional<std::uint64_t> checked_reach(std::span<const std::int64_t> shape,
                                           std::span<const std::int64_t> strides);

// Whether the elements lie in row-major order without gaps.
bool is_contiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

// Whether every stride steps over all that the smaller ones reach. Then no two elements share a
// place, and going through the dimensions by falling stride meets them in the order of the file.
bool elements_are_distinct(std::span<const std::int64_t> shape,
                           std::span<const std::int64_t> strides);

// The (stride, count) of every dimension with more than one element, by falling stride: views of
// one offset with the same ones are the same elements, maybe transposed.
std::vector<std::pair<std::int64_t, std::int64_t>> traversal_of(
    std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

struct StridedTensor {
  std::uint64_t offset = 0;  // of the first element, from the start of the file
  std::size_t item = 0;      // bytes of an element: 1, 2, 4 or 8
  std::span<const std::int64_t> shape, strides;
};

// Both go through the file once, from front to back, with a buffer of 1 MiB, and need
// elements_are_distinct.
// Fills `out` with the elements first, first + 1, ... of the row-major order.
void read_strided(const ReadOnlyFile& file, const StridedTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out);
// Hands over all elements in blocks, in the order of the file.
void visit_strided(const ReadOnlyFile& file, const StridedTensor& tensor,
                   const std::function<void(std::span<const std::byte>)>& visit);

}  // namespace phasescope::formats
