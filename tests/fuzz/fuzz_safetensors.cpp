// Bytes from anywhere as a safetensors file. What opens must keep the rules that readers trust:
// every tensor lies in the file and has the bytes of its shape.

#include <vector>

#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::file_of;
using phasescope::fuzz::require;

void check(const SafetensorsFile& file, std::size_t size) {
  std::size_t bytes = 0;
  for (const TensorEntry& entry : file.tensors()) {
    require(entry.offset <= size && entry.size <= size - entry.offset);
    require(file.find(entry.name) == &entry);
    bytes += entry.size;
    if (entry.dtype == DType::unsupported) continue;
    require(static_cast<std::uint64_t>(entry.element_count()) * item_size(entry.dtype) ==
            entry.size);
    std::vector<std::byte> content(entry.size);
    file.read(entry, content);
  }
  require(bytes <= size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = file_of(data, size);
  allow_bad_input([&] { check(SafetensorsFile::open(path), size); });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, ".safetensors")) return *kept;
  static const std::vector<std::string> headers = {
      "{}",
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
      R"({"b":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]},)"
      R"("a":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})",
      R"({"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
      R"("x":{"dtype":"F8_E4M3","shape":[24],"data_offsets":[0,24],"new":[1,{}]}})",
  };
  const std::string& header = headers[random() % headers.size()];
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + std::string(header == "{}" ? 0 : 24, 'x');
}
