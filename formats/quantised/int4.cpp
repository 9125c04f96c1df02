#include "formats/quantised/int4.h"

#include <algorithm>
#include <utility>

namespace phasescope::formats {

std::vector<std::uint32_t> columns_of_words(const StoredTensor& matrix, std::uint64_t begin,
                                            std::uint64_t count) {
  const auto rows = static_cast<std::uint64_t>(matrix.size(0));
  const auto width = static_cast<std::uint64_t>(matrix.size(1));
  if (count == width) return matrix.words(0, rows * width);
  std::vector<std::uint32_t> all;
  all.reserve(rows * count);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto part = matrix.words(row * width + begin, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<float> columns_of_floats(const StoredTensor& matrix, std::uint64_t begin,
                                     std::uint64_t count) {
  const auto rows = static_cast<std::uint64_t>(matrix.size(0));
  const auto width = static_cast<std::uint64_t>(matrix.size(1));
  if (count == width) return matrix.floats(0, rows * width);
  std::vector<float> all;
  all.reserve(rows * count);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto part = matrix.floats(row * width + begin, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Groups::Groups(const StoredTensor& scales, std::uint64_t count, std::uint64_t inputs,
               std::int64_t size, std::optional<StoredTensor> index)
    : count_(count),
      inputs_(inputs),
      size_(size > 0 ? static_cast<std::uint64_t>(size) : std::max<std::uint64_t>(inputs, 1)),
      index_(std::move(index)) {
  if (index_ && index_->entry().element_count() == 0) index_.reset();  // some tools write one
  if (index_) {
    index_->require_type({"I32", "I64"});
    index_->require_shape({static_cast<std::int64_t>(inputs_)});
  } else if (count_ != (inputs_ + size_ - 1) / size_) {
    scales.fail("has " + std::to_string(count_) + " groups, and " + std::to_string(inputs_) +
                " inputs in groups of " + std::to_string(size_) + " need " +
                std::to_string((inputs_ + size_ - 1) / size_));
  }
}

std::vector<std::uint32_t> Groups::of_inputs() const {
  std::vector<std::uint32_t> groups(inputs_);
  const std::vector<std::int64_t> index = index_ ? index_->integers() : std::vector<std::int64_t>();
  for (std::uint64_t i = 0; i < inputs_; ++i) {
    const std::uint64_t group =
        index_ ? static_cast<std::uint64_t>(index[i]) : i / size_;  // a negative one is huge
    if (group >= count_) {
      index_->fail("gives the group " + std::to_string(index[i]) + " to an input, of " +
                   std::to_string(count_));
    }
    groups[i] = static_cast<std::uint32_t>(group);
  }
  return groups;
}

std::int64_t group_size_of(const ConfigReader& config) {
  const std::int64_t size = config.integer_or({"group_size"}, -1, {-1, 1 << 30});
  return size > 0 ? size : 0;
}

void require_four_bits(const ConfigReader& config, const char* key) {
  const std::int64_t bits = config.integer_or({key}, 4);
  if (bits != 4) config.problem(key, "is " + std::to_string(bits) + ", and 4 alone can be read");
}

}  // namespace phasescope::formats
