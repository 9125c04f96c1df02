#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/tensors/tensor_file.h"

// The types of tensors in GGUF files. All but the plain ones keep a row in blocks: `values` numbers
// in `bytes` bytes, with one scale or more among them. Layouts: ggml-common.h of llama.cpp; the
// arithmetic is that of the Python package gguf (quants.py), operation by operation in float32.

namespace phasescope::formats {

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  DType plain;                  // of a type without blocks; unsupported for the others
  std::uint32_t values, bytes;  // of a block
  // Decodes one block into `values` numbers; null for plain types.
  void (*decode)(const std::byte* block, float* out);
};

// Null for a number that is not known.
const GgmlType* ggml_type(std::uint32_t number);
// The name of a type that ggml has, "IQ4_XS", or "type 99": for messages.
std::string ggml_type_name(std::uint32_t number);
// "F32, F16, Q4_0, ..."
std::string known_ggml_types();

}  // namespace phasescope::formats
