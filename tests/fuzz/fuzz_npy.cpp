// Bytes from anywhere as a .npy file. What opens must keep the rule that readers trust: its numbers
// lie in the file.

#include <vector>

#include "formats/tensors/npy.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::file_of;
using phasescope::fuzz::require;

void check(const NpyFile& file, std::size_t size) {
  const NpyHeader& header = file.header();
  std::uint64_t bytes = item_size(header.dtype);
  for (const std::int64_t n : header.shape) {
    require(n >= 0);
    if (n == 0) return;
  }
  for (const std::int64_t n : header.shape) {
    require(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes));
  }
  require(header.offset <= size && bytes <= size - header.offset);
  std::vector<std::byte> content(bytes);
  file.read(content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = file_of(data, size);
  allow_bad_input([&] { check(NpyFile(path), size); });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, ".npy")) return *kept;
  static const std::string heads[] = {
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
      "{'descr': '<f8', 'fortran_order': True, 'shape': (), }\n",
      "{\"shape\": (0, 9), \"descr\": \"|b1\", \"fortran_order\": False}"};
  const std::string& head = heads[random() % 3];
  const bool wide = random() % 2 == 0;  // version 2 has four bytes of length
  std::string file = std::string("\x93NUMPY") + (wide ? '\2' : '\1') + '\0';
  file += static_cast<char>(head.size());
  return file + std::string(wide ? 3 : 1, '\0') + head + std::string(24, 'x');
}
