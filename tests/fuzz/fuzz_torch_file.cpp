// Bytes from anywhere as a file of torch.save. The first byte chooses whether they are the whole
// file or the pickle of a sound zip file, whose checksums no mutation would meet. What opens must
// keep the rules that readers trust: every tensor lies in the file and can be read.

#include <vector>

#include "formats/error.h"
#include "formats/tensors/torch_file.h"
#include "tests/formats/torch_writer.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace phasescope::formats;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::file_of;
using phasescope::fuzz::require;

void check(const TorchFile& file, std::size_t size) {
  for (const TensorEntry& entry : file.tensors()) {
    require(file.find(entry.name) == &entry);
    require(entry.offset <= size && entry.size <= size);
    if (entry.dtype == DType::unsupported) continue;
    require(static_cast<std::uint64_t>(entry.element_count()) * item_size(entry.dtype) ==
            entry.size);
    std::uint64_t seen = 0;
    try {
      std::vector<std::byte> content(entry.size);
      file.read(entry, content);
      file.visit(entry, [&](std::span<const std::byte> block) { seen += block.size(); });
    } catch (const Error& error) {
      require(error.code() == "bad_input");  // a CRC
      continue;
    }
    require(seen == entry.size);
  }
}

// x and y share a storage, y transposed; z is of another type, behind a view of half a storage.
std::string seed_pickle() {
  using namespace pickled;
  const std::string part = tuple({text("v"), number(0), number(4)});
  return dict({{"x", tensor(storage(12), 2, {2, 3}, {3, 1})},
               {"y", tensor(storage(12), 0, {3, 2, 2}, {1, 6, 3})},
               {"z", tensor(storage(8, "LongStorage", "1", part), 1, {3}, {1})},
               {"n", "N"}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  std::string content(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1) content = zip_form(content, {std::string(48, '\1'), std::string(64, '\2')});
  allow_bad_input([&] { check(*TorchFile::open(file_of(content)), content.size()); });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  if (const auto kept = case_of_tests(random, ".pt")) return '\0' + *kept;
  const std::vector<std::string> storages = {std::string(48, '\1'), std::string(64, '\2')};
  switch (random() % 3) {
    case 0:
      return '\1' + seed_pickle();
    case 1:
      return '\0' + zip_form(seed_pickle(), storages);
    default:
      return '\0' + legacy_form(seed_pickle(), storages);
  }
}
