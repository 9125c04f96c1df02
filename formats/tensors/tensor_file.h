#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/file_mapping.h"

namespace phasescope::formats {

// Element types that can be read. Anything else (8-bit floats and the like) is `unsupported`: such
// a tensor is listed under the name the file gives its type, and only reading it is an error.
enum class DType { f32, f16, bf16, f64, i8, i16, i32, i64, u8, boolean, unsupported };

// Bytes of an element; 0 for `unsupported`.
std::size_t item_size(DType dtype);
// The name in files: "F32", "BF16", "BOOL", ...
std::string_view dtype_name(DType dtype);
DType dtype_from_name(std::string_view name);

struct TensorEntry {
  std::string name;
  DType dtype = DType::unsupported;
  std::string dtype_name;  // as safetensors names it: "F32", "F8_E4M3"
  bool decoded = false;    // the file keeps it in fewer bits, as dtype_name says; it is read as F32
  std::vector<std::int64_t> shape;  // read row-major and contiguous, however the file keeps it
  std::uint64_t offset = 0;         // of its first element, from the start of the file
  std::uint64_t size = 0;           // bytes
  std::uint32_t file = 0;           // of an archive, the index in files()

  std::int64_t element_count() const;
};

// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

// Product of the dimensions; nullopt where it does not fit 63 bits or a dimension is negative.
std::optional<std::uint64_t> checked_element_count(std::span<const std::int64_t> shape);

struct OpenOptions {
  // Asked every few thousand entries; true ends the opening with Error "cancelled".
  std::function<bool()> cancelled;
};

// A part of a mapped file.
struct MappedBytes {
  std::shared_ptr<const FileMapping> mapping;
  std::span<const std::byte> bytes;
};

// A file of tensors of whatever format. Reading is safe from several threads at once; a file that
// was cut short or rewritten since it was opened is an Error "bad_input" and never a signal.
class TensorFile {
 public:
  virtual ~TensorFile() = default;

  virtual const std::filesystem::path& path() const = 0;
  // The files on disk behind it: its path, or all of those it is put together from.
  virtual std::vector<std::filesystem::path> paths() const { return {path()}; }
  virtual const std::vector<TensorEntry>& tensors() const = 0;
  // Null where there is none.
  virtual const TensorEntry* find(std::string_view name) const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;
  // Groups of tensors that are the same elements of the file under several names.
  virtual const std::vector<std::vector<std::string>>& tied() const;
  // Things worth a line in the load report.
  virtual const std::vector<std::string>& warnings() const;

  // Reads a whole tensor; `out` must be entry.size bytes long.
  void read(const TensorEntry& entry, std::span<std::byte> out) const;
  // Reads out.size() bytes from `begin` bytes after the tensor's first, in row-major order. Both
  // must be whole elements where the file keeps the tensor in another order.
  virtual void read_part(const TensorEntry& entry, std::uint64_t begin,
                         std::span<std::byte> out) const = 0;
  // Hands over every element once, in blocks of at most about 1 MiB and in whatever order costs
  // least.
  using Visit = std::function<void(std::span<const std::byte>)>;
  virtual void visit(const TensorEntry& entry, const Visit& visit) const;
  // The bytes as the file has them, of types too that are not supported. As read_part where the
  // file keeps tensors in another way than as their elements.
  virtual void read_bytes(const TensorEntry& entry, std::uint64_t begin,
                          std::span<std::byte> out) const;
  // The bytes of a tensor in memory, as long as the mapping is held, without reading them: of plain
  // ones in files that can be mapped. Nothing for any other. Whoever computes with them asks the
  // mapping afterwards whether they still are the file's.
  virtual std::optional<MappedBytes> mapped(const TensorEntry& entry) const;
  // Parts that begin and end at multiples of so many bytes are read without reading anything twice.
  virtual std::uint64_t whole_bytes(const TensorEntry& entry) const;

 protected:
  // Throws where a tensor cannot be read for its type, or the part is not within it.
  void check_part(const TensorEntry& entry, std::uint64_t begin, std::uint64_t size) const;
};

// Opens a .safetensors file, a GGUF file or what torch.save wrote (by content, then by the file's
// extension).
std::unique_ptr<TensorFile> open_tensor_file(const std::filesystem::path& path,
                                             const OpenOptions& options = {});

}  // namespace phasescope::formats
