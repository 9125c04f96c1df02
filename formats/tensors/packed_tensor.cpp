#include "formats/tensors/packed_tensor.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "formats/error.h"

namespace phasescope::formats {
namespace {

constexpr std::uint64_t kElementsAtOnce = std::uint64_t{1} << 18;  // 1 MiB of float32

// Whole steps, about kElementsAtOnce elements.
std::uint64_t elements_at_once(const PackedTensor& tensor) {
  return std::max<std::uint64_t>(1, kElementsAtOnce / tensor.step()) * tensor.step();
}

}  // namespace

void read_packed(const PackedTensor& tensor, std::uint64_t count, std::uint64_t begin,
                 std::span<std::byte> out) {
  if (begin % sizeof(float) != 0 || out.size() % sizeof(float) != 0) {
    throw internal_error("[packed tensor] a read of half an element");
  }
  const std::uint64_t wanted = begin / sizeof(float), end = wanted + out.size() / sizeof(float);
  const std::uint64_t at_once = elements_at_once(tensor);
  std::vector<float> block;
  for (std::uint64_t first = wanted / tensor.step() * tensor.step(); first < end;
       first += at_once) {
    const std::uint64_t last = std::min((end + tensor.step() - 1) / tensor.step() * tensor.step(),
                                        std::min(first + at_once, count));
    block.resize(last - first);
    tensor.decode(first, block);
    const std::uint64_t from = std::max(first, wanted), to = std::min(last, end);
    std::memcpy(out.data() + (from - wanted) * sizeof(float), block.data() + (from - first),
                (to - from) * sizeof(float));
  }
}

void visit_packed(const PackedTensor& tensor, std::uint64_t count,
                  const std::function<void(std::span<const std::byte>)>& visit) {
  const std::uint64_t at_once = elements_at_once(tensor);
  std::vector<float> block(std::min(at_once, count));
  for (std::uint64_t first = 0; first < count; first += at_once) {
    const auto part = std::span(block).first(std::min(at_once, count - first));
    tensor.decode(first, part);
    visit(std::as_bytes(part));
  }
}

}  // namespace phasescope::formats
