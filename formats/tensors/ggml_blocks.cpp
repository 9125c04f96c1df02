#include "formats/tensors/ggml_blocks.h"

#include <algorithm>
#include <iterator>

#include "formats/tensors/small_floats.h"

namespace phasescope::formats {
namespace {

unsigned byte_at(const std::byte* block, std::size_t at) {
  return std::to_integer<unsigned>(block[at]);
}

float half_at(const std::byte* block, std::size_t at) {
  return f16_value(static_cast<std::uint16_t>(byte_at(block, at) | byte_at(block, at + 1) << 8));
}

float signed_at(const std::byte* block, std::size_t at) {
  return static_cast<float>(static_cast<std::int8_t>(byte_at(block, at)));
}

float number(unsigned code) { return static_cast<float>(code); }

// ---- Blocks of 32 -------------------------------------------------------------------------------

void decode_q8_0(const std::byte* block, float* out) {
  const float d = half_at(block, 0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = signed_at(block, 2 + i) * d;
}

// Values 0 to 15 are the low nibbles, 16 to 31 the high ones.
unsigned nibble_of_32(const std::byte* nibbles, std::size_t i) {
  return i < 16 ? byte_at(nibbles, i) & 15 : byte_at(nibbles, i - 16) >> 4;
}

void decode_q4_0(const std::byte* block, float* out) {
  const float d = half_at(block, 0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * (number(nibble_of_32(block + 2, i)) - 8);
}

void decode_q4_1(const std::byte* block, float* out) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * number(nibble_of_32(block + 4, i)) + m;
}

// Bit i of the 32 at `fifths` is the fifth bit of value i.
unsigned five_bits(const std::byte* fifths, std::size_t i) {
  const unsigned fifth = byte_at(fifths, i / 8) >> (i % 8) & 1;
  return nibble_of_32(fifths + 4, i) | fifth << 4;
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = half_at(block, 0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * (number(five_bits(block + 2, i)) - 16);
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * number(five_bits(block + 4, i)) + m;
}

// ---- Blocks of 256 ------------------------------------------------------------------------------

// Scale and minimum of group g of Q4_K and Q5_K: six bits each, packed into 12 bytes.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum scale_and_minimum(const std::byte* packed, std::size_t g) {
  const auto at = [packed](std::size_t i) { return byte_at(packed, i); };
  if (g < 4) return {number(at(g) & 63), number(at(g + 4) & 63)};
  return {number((at(g + 4) & 15) | at(g - 4) >> 6 << 4), number(at(g + 4) >> 4 | at(g) >> 6 << 4)};
}

// Q4_K and Q5_K: 8 groups of 32 values d sc q - dmin mn. Runs of 32 nibble bytes hold two groups
// each, the low nibbles first; bit g of fifths[j] is the fifth bit of value j of group g.
void decode_groups_of_32(const std::byte* block, const std::byte* fifths, const std::byte* nibbles,
                         float* out) {
  const float d = half_at(block, 0), least = half_at(block, 2);
  for (std::size_t g = 0; g < 8; ++g) {
    const auto [scale, minimum] = scale_and_minimum(block + 4, g);
    const float step = d * scale, offset = least * minimum;
    for (std::size_t j = 0; j < 32; ++j) {
      const unsigned byte = byte_at(nibbles, 32 * (g / 2) + j);
      unsigned code = g % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifths != nullptr) code |= (byte_at(fifths, j) >> g & 1) << 4;
      out[32 * g + j] = step * number(code) - offset;
    }
  }
}

void decode_q4_k(const std::byte* block, float* out) {
  decode_groups_of_32(block, nullptr, block + 16, out);
}

void decode_q5_k(const std::byte* block, float* out) {
  decode_groups_of_32(block, block + 16, block + 48, out);
}

// 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, d: d sc (q - 32).
void decode_q6_k(const std::byte* block, float* out) {
  const float d = half_at(block, 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, run = i % 128 / 32, j = i % 32;
    const unsigned low = byte_at(block, 64 * half + 32 * (run % 2) + j);
    const unsigned nibble = run < 2 ? low & 15 : low >> 4;
    const unsigned upper = byte_at(block, 128 + 32 * half + j) >> (2 * run) & 3;
    const float step = d * signed_at(block, 192 + i / 16);
    out[i] = step * (number(nibble | upper << 4) - 32);
  }
}

// Two bits of value i of Q2_K and Q3_K.
unsigned two_bits(const std::byte* pairs, std::size_t i) {
  const std::size_t run = i / 32, j = i % 32;
  return byte_at(pairs, 32 * (run / 4) + j) >> (2 * (run % 4)) & 3;
}

// Six bits of scale g: the low four lie in the first eight bytes, the upper two in the last four.
unsigned scale_of_q3(const std::byte* packed, std::size_t g) {
  const unsigned low = g < 8 ? byte_at(packed, g) & 15 : byte_at(packed, g - 8) >> 4;
  return low | (byte_at(packed, 8 + g % 4) >> (2 * (g / 4)) & 3) << 4;
}

// Mask of 32 bytes, 64 bytes of pairs, 12 of scales, d: d (sc - 32) (q - 4 where the mask is off).
void decode_q3_k(const std::byte* block, float* out) {
  const float d = half_at(block, 108);
  for (std::size_t i = 0; i < 256; ++i) {
    const float step = d * (number(scale_of_q3(block + 96, i / 16)) - 32);
    const bool masked = (byte_at(block, i % 32) >> (i / 32) & 1) != 0;
    out[i] = step * (number(two_bits(block + 32, i)) - (masked ? 0.0f : 4.0f));
  }
}

// 16 bytes of scales and minima, 64 of pairs, d, dmin: d (s & 15) q - dmin (s >> 4).
void decode_q2_k(const std::byte* block, float* out) {
  const float d = half_at(block, 80), least = half_at(block, 82);
  for (std::size_t i = 0; i < 256; ++i) {
    const unsigned packed = byte_at(block, i / 16);
    const float step = d * number(packed & 15), offset = least * number(packed >> 4);
    out[i] = step * number(two_bits(block + 16, i)) - offset;
  }
}

constexpr DType kBlocks = DType::unsupported;

constexpr GgmlType kTypes[] = {
    {0, "F32", DType::f32, 1, 4, nullptr},        {1, "F16", DType::f16, 1, 2, nullptr},
    {30, "BF16", DType::bf16, 1, 2, nullptr},     {28, "F64", DType::f64, 1, 8, nullptr},
    {24, "I8", DType::i8, 1, 1, nullptr},         {25, "I16", DType::i16, 1, 2, nullptr},
    {26, "I32", DType::i32, 1, 4, nullptr},       {27, "I64", DType::i64, 1, 8, nullptr},
    {2, "Q4_0", kBlocks, 32, 18, decode_q4_0},    {3, "Q4_1", kBlocks, 32, 20, decode_q4_1},
    {6, "Q5_0", kBlocks, 32, 22, decode_q5_0},    {7, "Q5_1", kBlocks, 32, 24, decode_q5_1},
    {8, "Q8_0", kBlocks, 32, 34, decode_q8_0},    {10, "Q2_K", kBlocks, 256, 84, decode_q2_k},
    {11, "Q3_K", kBlocks, 256, 110, decode_q3_k}, {12, "Q4_K", kBlocks, 256, 144, decode_q4_k},
    {13, "Q5_K", kBlocks, 256, 176, decode_q5_k}, {14, "Q6_K", kBlocks, 256, 210, decode_q6_k},
};

// Types of ggml.h that cannot be decoded here.
struct NamedType {
  std::uint32_t number;
  std::string_view name;
};
constexpr NamedType kOthers[] = {
    {9, "Q8_1"},   {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
    {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},
};

}  // namespace

const GgmlType* ggml_type(std::uint32_t number) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const GgmlType& type) { return type.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string ggml_type_name(std::uint32_t number) {
  if (const GgmlType* type = ggml_type(number)) return std::string(type->name);
  const auto* found = std::find_if(std::begin(kOthers), std::end(kOthers),
                                   [&](const NamedType& type) { return type.number == number; });
  return found == std::end(kOthers) ? "type " + std::to_string(number) : std::string(found->name);
}

std::string known_ggml_types() {
  std::string names;
  for (const GgmlType& type : kTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

}  // namespace phasescope::formats
