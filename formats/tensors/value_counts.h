#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/tensors/safetensors.h"

namespace phasescope::formats {

// What a tensor's elements hold that a load report should say. Integers and booleans have neither
// NaN nor Inf.
struct ValueCounts {
  std::uint64_t elements = 0;
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;   // of both signs
  std::uint64_t zero = 0;  // of both signs; false
  bool supported = true;   // otherwise nothing was counted

  // "unsupported", "nan", "inf", "all zero", or nothing; the first that holds.
  std::string_view flag() const;
};

// Counts over elements in memory, whole ones of `dtype`.
ValueCounts count_values(DType dtype, std::span<const std::byte> bytes);

// Counts over a whole tensor, block by block, for every type. `cancelled` is asked before each
// block; true ends the count with Error "cancelled". Throws Error "bad_input" where the file cannot
// be read.
ValueCounts count_values(const TensorArchive& archive, const TensorEntry& entry,
                         const std::function<bool()>& cancelled = {});

// Counts over tensors of one file that is read piece by piece from front to back.
class CountsByPiece {
 public:
  // Tensors begin at multiples of their elements' size, and so do pieces (of any: 8 bytes).
  explicit CountsByPiece(std::vector<const TensorEntry*> tensors);
  // What stands in the file from byte `begin` on, where the last piece ended.
  void add(std::uint64_t begin, std::span<const std::byte> piece);
  // In the file's order; whole when the file's last piece has been added.
  const std::vector<std::pair<const TensorEntry*, ValueCounts>>& counts() const { return counts_; }

 private:
  std::vector<std::pair<const TensorEntry*, ValueCounts>> counts_;
  std::size_t first_ = 0;  // the first tensor that is not yet counted to its end
};

}  // namespace phasescope::formats
