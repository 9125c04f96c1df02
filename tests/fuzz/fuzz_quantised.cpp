// Bytes from anywhere as a quantised checkpoint: a line with its quantization_config, then its
// safetensors file. What opens must keep the rules that readers trust: every tensor can be read to
// its end, and a part of it is what the whole has there.

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/quantised/dequantise.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::file_of;
using phasescope::fuzz::require;

void check(const TensorArchive& archive) {
  for (const TensorEntry& entry : archive.tensors()) {
    if (entry.dtype == DType::unsupported) continue;
    require(static_cast<std::uint64_t>(entry.element_count()) * item_size(entry.dtype) ==
            entry.size);
    allow_bad_input([&] {
      std::vector<std::byte> whole(entry.size);
      archive.read(entry, whole);
      const std::uint64_t item = item_size(entry.dtype), begin = entry.size / item / 2 * item;
      std::vector<std::byte> part(std::min<std::uint64_t>(entry.size - begin, 5 * item));
      archive.read_part(entry, begin, part);
      require(std::ranges::equal(part, std::span(whole).subspan(begin, part.size())));
      std::uint64_t seen = 0;
      archive.visit(entry, [&](std::span<const std::byte> block) { seen += block.size(); });
      require(seen == entry.size);
    });
  }
}

struct Stored {
  const char *name, *dtype;
  std::vector<std::int64_t> shape;
  std::size_t bytes;
};

std::string safetensors(const std::vector<Stored>& tensors, std::mt19937& random) {
  Json header = Json::object();
  std::string data;
  for (const Stored& one : tensors) {
    const std::size_t begin = data.size();
    // Of groups there are two: with any others nothing is decoded.
    const bool groups = std::string_view(one.name).ends_with("g_idx");
    for (std::size_t i = 0; i < one.bytes; ++i) {
      data += static_cast<char>(groups ? i % 4 == 0 && random() % 2 == 0 : random());
    }
    header[one.name] = {
        {"dtype", one.dtype}, {"shape", one.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 2; ++i) length[i] = static_cast<char>(text.size() >> 8 * i);
  return length + text + data;
}

struct Case {
  const char* settings;
  std::vector<Stored> tensors;
};

// One small matrix of each method.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {R"({"quant_method": "fp8", "weight_block_size": [2, 4]})",
       {{"a.weight", "F8_E4M3", {3, 8}, 24}, {"a.weight_scale_inv", "F32", {2, 2}, 16}}},
      {R"({"quant_method": "mxfp4"})",
       {{"a_blocks", "U8", {1, 2, 2, 16}, 64}, {"a_scales", "U8", {1, 2, 2}, 4}}},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": true})",
       {{"a.qweight", "I32", {4, 8}, 128},
        {"a.qzeros", "I32", {2, 1}, 8},
        {"a.scales", "F16", {2, 8}, 32},
        {"a.g_idx", "I32", {32}, 128}}},
      {R"({"quant_method": "awq", "bits": 4, "group_size": 16})",
       {{"a.qweight", "I32", {32, 1}, 128},
        {"a.qzeros", "I32", {2, 1}, 8},
        {"a.scales", "BF16", {2, 8}, 32}}},
      {R"({"format": "pack-quantized", "config_groups": {"g": {"weights":)"
       R"( {"num_bits": 4, "type": "int", "group_size": 8}}}})",
       {{"a.weight_packed", "I32", {4, 2}, 32},
        {"a.weight_scale", "F32", {4, 2}, 32},
        {"a.weight_zero_point", "I32", {1, 2}, 8},
        {"a.weight_g_idx", "I32", {16}, 64},
        {"a.weight_shape", "I64", {2}, 16}}},
      {R"({"format": "float-quantized", "config_groups": {"g": {"weights":)"
       R"( {"num_bits": 8, "type": "float"}}}, "quant_method": "compressed-tensors"})",
       {{"a.weight", "F8_E4M3", {4, 8}, 32}, {"a.weight_scale", "BF16", {4, 1}, 8}}},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true})",
       {{"a", "U8", {64, 1}, 64},
        {"a.absmax", "F32", {2}, 8},
        {"a.quant_map", "F32", {16}, 64},
        {"a.quant_state.bitsandbytes__nf4", "U8", {35}, 35}}}};
  return list;
}

void put(std::string& file, std::string_view tensor_bytes) {
  file.replace(file.size() - tensor_bytes.size(), tensor_bytes.size(), tensor_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), size);
  const std::string& path = file_of(input.substr(std::min(line + 1, size)));
  allow_bad_input([&] {
    const Json config = {{"quantization_config", parse_json(input.substr(0, line), "fuzz")}};
    refused_quantisation(config);
    std::vector<std::string> notes;
    auto file = std::make_unique<SafetensorsFile>(SafetensorsFile::open(path));
    check(dequantised(TensorArchive::of(std::move(file)), config, path, notes));
  });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  const Case& one = cases()[random() % cases().size()];
  const std::string line = std::string(one.settings) + "\n";
  if (const auto kept = case_of_tests(random, ".safetensors")) return line + *kept;
  std::string file = safetensors(one.tensors, random);
  // What says the shape of the others comes last.
  const std::string_view last = one.tensors.back().name;
  if (last == "a.weight_shape") {
    put(file, std::string_view("\4\0\0\0\0\0\0\0\20\0\0\0\0\0\0\0", 16));
  }
  if (last.ends_with("nf4")) put(file, R"({"shape": [4, 32], "blocksize": 64})");
  return line + file;
}
