#include "formats/tensors/strided.h"

#include <algorithm>
#include <cstring>

namespace phasescope::formats {
namespace {

constexpr std::uint64_t kWindowBytes = 1 << 20;

struct Dimension {
  std::uint64_t count, stride, out_stride;  // in elements; out_stride of the row-major order
};

// Dimensions of more than one element by falling stride; a lone one for a scalar.
std::vector<Dimension> dimensions_of(std::span<const std::int64_t> shape,
                                     std::span<const std::int64_t> strides) {
  std::vector<Dimension> dimensions;
  std::uint64_t out_stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto count = static_cast<std::uint64_t>(shape[i]);
    if (count != 1) dimensions.push_back({count, std::uint64_t(strides[i]), out_stride});
    out_stride *= count;
  }
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  if (dimensions.empty()) dimensions.push_back({1, 1, 1});
  return dimensions;
}

// A part of the file in memory that moves along with what is asked for.
class Window {
 public:
  Window(const ReadOnlyFile& file, std::uint64_t begin, std::uint64_t end)
      : file_(file), at_(begin), end_(end) {}

  const std::byte* at(std::uint64_t offset, std::size_t size) {
    if (offset < at_ || offset + size > at_ + bytes_.size()) move(offset);
    return bytes_.data() + (offset - at_);
  }

 private:
  void move(std::uint64_t offset) {
    at_ = offset;
    bytes_.resize(std::min(kWindowBytes, end_ - offset));
    file_.read(at_, bytes_);
  }

  const ReadOnlyFile& file_;
  std::uint64_t at_, end_;
  std::vector<std::byte> bytes_;
};

// Calls visit(place in row-major order, bytes) for every element, in the order of the file.
template <typename Visit>
void for_each_element(const ReadOnlyFile& file, const StridedTensor& tensor, Visit visit) {
  const auto dimensions = dimensions_of(tensor.shape, tensor.strides);
  if (std::any_of(dimensions.begin(), dimensions.end(),
                  [](const Dimension& d) { return d.count == 0; })) {
    return;
  }
  const std::uint64_t reach = *checked_reach(tensor.shape, tensor.strides);
  Window window(file, tensor.offset, tensor.offset + reach * tensor.item);
  const Dimension inner = dimensions.back();
  std::vector<std::uint64_t> index(dimensions.size() - 1, 0);
  std::uint64_t from = 0, out = 0;  // of the inner run's first element
  while (true) {
    for (std::uint64_t i = 0; i < inner.count; ++i) {
      visit(out + i * inner.out_stride,
            window.at(tensor.offset + (from + i * inner.stride) * tensor.item, tensor.item));
    }
    std::size_t d = index.size();
    for (; d > 0; --d) {
      const Dimension& dimension = dimensions[d - 1];
      from += dimension.stride;
      out += dimension.out_stride;
      if (++index[d - 1] < dimension.count) break;
      from -= dimension.stride * dimension.count;
      out -= dimension.out_stride * dimension.count;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// Reads elements whose size the compiler knows, where it is worth four copies.
template <std::size_t item>
void read_elements(const ReadOnlyFile& file, const StridedTensor& tensor, std::uint64_t first,
                   std::span<std::byte> out) {
  const std::uint64_t count = out.size() / item;
  for_each_element(file, tensor, [&](std::uint64_t place, const std::byte* bytes) {
    if (place - first < count) std::memcpy(out.data() + (place - first) * item, bytes, item);
  });
}

}  // namespace

std::optional<std::uint64_t> checked_reach(std::span<const std::int64_t> shape,
                                           std::span<const std::int64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t reach = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t steps = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &steps) ||
        __builtin_add_overflow(reach, steps, &reach)) {
      return std::nullopt;
    }
  }
  return static_cast<std::uint64_t>(reach);
}

bool is_contiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::vector<std::pair<std::int64_t, std::int64_t>> traversal_of(
    std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> traversal;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) traversal.emplace_back(strides[i], shape[i]);
  }
  std::sort(traversal.rbegin(), traversal.rend());
  return traversal;
}

bool elements_are_distinct(std::span<const std::int64_t> shape,
                           std::span<const std::int64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  const auto traversal = traversal_of(shape, strides);
  std::int64_t reached = 0;  // by the smaller strides; at most checked_reach
  for (auto it = traversal.rbegin(); it != traversal.rend(); ++it) {
    if (it->first <= reached) return false;
    reached += it->first * (it->second - 1);
  }
  return true;
}

void read_strided(const ReadOnlyFile& file, const StridedTensor& tensor, std::uint64_t first,
                  std::span<std::byte> out) {
  switch (tensor.item) {
    case 1:
      return read_elements<1>(file, tensor, first, out);
    case 2:
      return read_elements<2>(file, tensor, first, out);
    case 4:
      return read_elements<4>(file, tensor, first, out);
    default:
      return read_elements<8>(file, tensor, first, out);
  }
}

void visit_strided(const ReadOnlyFile& file, const StridedTensor& tensor,
                   const std::function<void(std::span<const std::byte>)>& visit) {
  std::vector<std::byte> block;
  block.reserve(kWindowBytes);
  for_each_element(file, tensor, [&](std::uint64_t, const std::byte* bytes) {
    block.insert(block.end(), bytes, bytes + tensor.item);
    if (block.size() < kWindowBytes) return;
    visit(block);
    block.clear();
  });
  if (!block.empty()) visit(block);
}

}  // namespace phasescope::formats
