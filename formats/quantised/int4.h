#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/hf_config.h"
#include "formats/quantised/stored_tensor.h"

// What the formats of whole numbers of 4 bits share: eight codes in a word of 32 bits, a scale and
// a zero point for each group of inputs.

namespace phasescope::formats {

inline unsigned nibble(std::uint32_t word, std::uint64_t at) { return word >> (4 * (at % 8)) & 15; }

// Columns [begin, begin + count) of a matrix, row by row.
std::vector<std::uint32_t> columns_of_words(const StoredTensor& matrix, std::uint64_t begin,
                                            std::uint64_t count);
std::vector<float> columns_of_floats(const StoredTensor& matrix, std::uint64_t begin,
                                     std::uint64_t count);

// Which group an input belongs to: its entry of g_idx where there is such a tensor (the inputs were
// sorted before they were grouped), else runs of `size` inputs.
class Groups {
 public:
  // `count` groups of `inputs` inputs; size 0 for one group of all. Throws Error "bad_input",
  // naming `scales`, where they do not fit.
  Groups(const StoredTensor& scales, std::uint64_t count, std::uint64_t inputs, std::int64_t size,
         std::optional<StoredTensor> index);

  // The group of every input. Throws Error "bad_input" where an index is none of the groups.
  std::vector<std::uint32_t> of_inputs() const;

 private:
  std::uint64_t count_, inputs_, size_;
  std::optional<StoredTensor> index_;
};

// `group_size` of the configuration; 0 for -1 and null, one group of all inputs.
std::int64_t group_size_of(const ConfigReader& config);
// Puts down a problem unless `key` is 4.
void require_four_bits(const ConfigReader& config, const char* key);

}  // namespace phasescope::formats
