#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/file_system.h"

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
  std::string dtype_name;           // as the file writes it
  std::vector<std::int64_t> shape;  // row-major, contiguous
  std::uint64_t offset = 0;         // of the first byte, from the start of the file
  std::uint64_t size = 0;           // bytes
  std::uint32_t file = 0;           // of an archive, the index in files()

  std::int64_t element_count() const;
};

// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

struct OpenOptions {
  // Asked every few thousand entries; true ends the opening with Error "cancelled".
  std::function<bool()> cancelled;
};

// One .safetensors file, opened by the strict rules: header length at most 100,000,000 bytes and
// within the file, a UTF-8 JSON object without duplicate keys, at most a million tensors, every
// tensor's bytes equal to its shape and type, offsets without hole or overlap up to the file's end.
// Reading uses pread, so a file cut short or rewritten later is an Error and never a signal.
// Movable; reading is safe from several threads at once.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path, const OpenOptions& options = {});

  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::filesystem::path& path() const;
  // In the order of their bytes in the file.
  const std::vector<TensorEntry>& tensors() const;
  // Null where there is none.
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;

  // Reads a whole tensor; `out` must be entry.size bytes long.
  void read(const TensorEntry& entry, std::span<std::byte> out) const;
  // Reads out.size() bytes from `begin` bytes after the tensor's first.
  void read_part(const TensorEntry& entry, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  struct Contents;
  explicit SafetensorsFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

// The tensors of a checkpoint, whether in one file or in shards. `path` may be a .safetensors file,
// a model.safetensors.index.json, or a folder with either (model.safetensors first, then the index,
// then a single other .safetensors file).
class TensorArchive {
 public:
  static TensorArchive open(const std::filesystem::path& path, const OpenOptions& options = {});

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const TensorEntry* find(std::string_view name) const;
  void read(const TensorEntry& entry, std::span<std::byte> out) const;
  void read_part(const TensorEntry& entry, std::uint64_t begin, std::span<std::byte> out) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Of the first file.
  const std::map<std::string, std::string>& metadata() const;
  // Things worth a line in the load report, such as a wrong total_size.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  TensorArchive() = default;
  void add_file(SafetensorsFile file);
  void open_index(const std::filesystem::path& index, const OpenOptions& options);

  std::vector<SafetensorsFile> files_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<std::string> warnings_;
};

struct TensorToWrite {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // row-major; must stay alive during the call
};

// Writes a .safetensors file in one step (write_file_atomically). Tensors are laid out by falling
// alignment and then by name, as the Python package does. Throws Error "internal" for a shape that
// does not fit its bytes or a name given twice.
void write_safetensors(FileSystem& fs, const std::filesystem::path& path,
                       std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace phasescope::formats
