#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// A GGUF file (versions 2 and 3, little-endian; docs/gguf.md of ggml), the tensors under the file's
// names, in row-major shapes. Types kept in blocks (ggml_blocks.h) are decoded as they are read:
// their entries are F32 with `decoded` set and the block type as dtype_name. Types that are not
// known are listed as unsupported. Strict: at most 256 MiB of keys and tensor entries, a million of
// each, eight million array elements; every tensor on the alignment and within the file, no overlap
// and no gap but padding. Movable; reading is safe from several threads at once.
class GgufFile : public TensorFile {
 public:
  static GgufFile open(const std::filesystem::path& path, const OpenOptions& options = {});

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile() override;

  const std::filesystem::path& path() const override;
  // In the order of their bytes in the file.
  const std::vector<TensorEntry>& tensors() const override;
  const TensorEntry* find(std::string_view name) const override;
  // The keys whose values are texts.
  const std::map<std::string, std::string>& metadata() const override;
  // An object of all keys ("llama.block_count"), with numbers, truths, texts and arrays of them. A
  // 32-bit fraction is the shortest decimal number that rounds to it, which is what was written
  // before it was rounded: 1e-5, not 9.99999975e-6.
  const Json& keys() const;

  void read_part(const TensorEntry& entry, std::uint64_t begin,
                 std::span<std::byte> out) const override;
  void visit(const TensorEntry& entry, const Visit& visit) const override;

 private:
  struct Contents;
  explicit GgufFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

// Whether the file begins as a GGUF file does; false for one that cannot be read.
bool is_gguf_file(const std::filesystem::path& path);

}  // namespace phasescope::formats
