#include "formats/quantised/stored_tensor.h"

#include <algorithm>
#include <cstring>

#include "formats/error.h"
#include "formats/tensors/small_floats.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

template <typename Word, typename Convert>
void convert_words(std::span<const std::byte> bytes, Convert convert, std::vector<float>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Word word;
    std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
    out[i] = convert(word);
  }
}

}  // namespace

std::vector<std::byte> StoredTensor::bytes(std::uint64_t begin, std::uint64_t count) const {
  std::vector<std::byte> content(count);
  file_->read_bytes(entry_, begin, content);
  return content;
}

std::vector<float> StoredTensor::floats(std::uint64_t first, std::uint64_t count) const {
  std::vector<float> out(count);
  const auto words_of = [&](std::uint64_t item) { return bytes(first * item, count * item); };
  if (entry_.dtype_name == "F32") {
    convert_words<float>(
        words_of(4), [](float x) { return x; }, out);
  } else if (entry_.dtype_name == "F16") {
    convert_words<std::uint16_t>(words_of(2), f16_value, out);
  } else if (entry_.dtype_name == "BF16") {
    convert_words<std::uint16_t>(words_of(2), bf16_value, out);
  } else {
    require_type({"F8_E8M0"});
    convert_words<std::uint8_t>(words_of(1), e8m0_value, out);
  }
  return out;
}

std::vector<std::uint32_t> StoredTensor::words(std::uint64_t first, std::uint64_t count) const {
  const auto content = bytes(first * 4, count * 4);
  std::vector<std::uint32_t> out(count);
  if (count > 0) std::memcpy(out.data(), content.data(), content.size());
  return out;
}

std::vector<std::int64_t> StoredTensor::integers() const {
  require_type({"I32", "I64"});
  const auto count = static_cast<std::size_t>(entry_.element_count());
  const auto content = bytes(0, entry_.size);
  std::vector<std::int64_t> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (entry_.dtype == DType::i64) {
      std::memcpy(&out[i], content.data() + 8 * i, 8);
    } else {
      std::int32_t value;
      std::memcpy(&value, content.data() + 4 * i, 4);
      out[i] = value;
    }
  }
  return out;
}

void StoredTensor::require_type(std::initializer_list<std::string_view> names) const {
  if (std::find(names.begin(), names.end(), entry_.dtype_name) != names.end()) return;
  std::string list;
  for (const std::string_view name : names) {
    list += (list.empty() ? "" : " or ") + std::string(name);
  }
  fail("has the type " + shortened(entry_.dtype_name) + ", and must be " + list);
}

void StoredTensor::require_shape(const std::vector<std::int64_t>& shape) const {
  if (entry_.shape == shape) return;
  fail("has the shape " + shape_text(entry_.shape) + ", and must have " + shape_text(shape));
}

void StoredTensor::require_dimensions(std::size_t count) const {
  if (entry_.shape.size() == count) return;
  fail("has the shape " + shape_text(entry_.shape) + ", and must have " + std::to_string(count) +
       " dimensions");
}

void StoredTensor::fail(const std::string& what) const {
  throw bad_input("tensor " + in_quotes(entry_.name) + " " + what, file_->path().string(),
                  "the weights do not fit what config.json says of their quantisation");
}

}  // namespace phasescope::formats
