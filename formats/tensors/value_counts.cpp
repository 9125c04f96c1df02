#include "formats/tensors/value_counts.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <span>

#include "formats/error.h"

namespace phasescope::formats {
namespace {

// Elements as unsigned integers of their size; `infinity` is the pattern of +Inf, 0 for types that
// have none. IEEE 754: above it, sign aside, everything is NaN.
template <std::unsigned_integral Word>
void count_block(std::span<const std::byte> bytes, Word infinity, ValueCounts& counts) {
  const Word magnitude_bits = infinity == 0 ? Word(~Word{0}) : Word(Word(~Word{0}) >> 1);
  std::uint64_t nan = 0, inf = 0, zero = 0;
  for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    const Word magnitude = word & magnitude_bits;
    zero += magnitude == 0;
    inf += infinity != 0 && magnitude == infinity;
    nan += infinity != 0 && magnitude > infinity;
  }
  counts.nan += nan;
  counts.inf += inf;
  counts.zero += zero;
}

void count_block(DType dtype, std::span<const std::byte> bytes, ValueCounts& counts) {
  switch (dtype) {
    case DType::f64:
      return count_block<std::uint64_t>(bytes, 0x7FF0000000000000, counts);
    case DType::f32:
      return count_block<std::uint32_t>(bytes, 0x7F800000, counts);
    case DType::bf16:
      return count_block<std::uint16_t>(bytes, 0x7F80, counts);
    case DType::f16:
      return count_block<std::uint16_t>(bytes, 0x7C00, counts);
    case DType::i64:
      return count_block<std::uint64_t>(bytes, 0, counts);
    case DType::i32:
      return count_block<std::uint32_t>(bytes, 0, counts);
    case DType::i16:
      return count_block<std::uint16_t>(bytes, 0, counts);
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return count_block<std::uint8_t>(bytes, 0, counts);
    case DType::unsupported:
      return;
  }
}

}  // namespace

std::string_view ValueCounts::flag() const {
  if (!supported) return "unsupported";
  if (nan > 0) return "nan";
  if (inf > 0) return "inf";
  return elements > 0 && zero == elements ? "all zero" : "";
}

ValueCounts count_values(DType dtype, std::span<const std::byte> bytes) {
  ValueCounts counts;
  counts.supported = dtype != DType::unsupported;
  if (!counts.supported) return counts;
  counts.elements = bytes.size() / item_size(dtype);
  count_block(dtype, bytes, counts);
  return counts;
}

ValueCounts count_values(const TensorArchive& archive, const TensorEntry& entry,
                         const std::function<bool()>& cancelled) {
  ValueCounts counts;
  counts.elements = static_cast<std::uint64_t>(entry.element_count());
  counts.supported = entry.dtype != DType::unsupported;
  if (!counts.supported) return counts;
  archive.visit(entry, [&](std::span<const std::byte> block) {
    if (cancelled && cancelled()) throw formats::cancelled("reading was cancelled");
    count_block(entry.dtype, block, counts);
  });
  return counts;
}

CountsByPiece::CountsByPiece(std::vector<const TensorEntry*> tensors) {
  std::ranges::sort(tensors, {}, &TensorEntry::offset);
  for (const TensorEntry* tensor : tensors) {
    ValueCounts counts;
    counts.elements = static_cast<std::uint64_t>(tensor->element_count());
    counts.supported = tensor->dtype != DType::unsupported;
    counts_.emplace_back(tensor, counts);
  }
}

void CountsByPiece::add(std::uint64_t begin, std::span<const std::byte> piece) {
  const std::uint64_t end = begin + piece.size();
  for (std::size_t n = first_; n < counts_.size() && counts_[n].first->offset < end; ++n) {
    auto& [tensor, counts] = counts_[n];
    const std::uint64_t from = std::max(begin, tensor->offset);
    const std::uint64_t to = std::min(end, tensor->offset + tensor->size);
    if (from < to) count_block(tensor->dtype, piece.subspan(from - begin, to - from), counts);
    if (tensor->offset + tensor->size <= end) first_ = n + 1;
  }
}

}  // namespace phasescope::formats
