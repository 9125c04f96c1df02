#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/file_system.h"
#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// One .safetensors file, opened by the strict rules: header length at most 100,000,000 bytes and
// within the file, a UTF-8 JSON object without duplicate keys, at most a million tensors, every
// tensor's bytes equal to its shape and type, offsets without hole or overlap up to the file's end.
// Reading uses pread, so a file cut short or rewritten later is an Error and never a signal; what
// is mapped of it is as FileMapping says. Movable; reading is safe from several threads at once.
class SafetensorsFile : public TensorFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path, const OpenOptions& options = {});

  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile() override;

  const std::filesystem::path& path() const override;
  // In the order of their bytes in the file.
  const std::vector<TensorEntry>& tensors() const override;
  const TensorEntry* find(std::string_view name) const override;
  const std::map<std::string, std::string>& metadata() const override;

  void read_part(const TensorEntry& entry, std::uint64_t begin,
                 std::span<std::byte> out) const override;
  void read_bytes(const TensorEntry& entry, std::uint64_t begin,
                  std::span<std::byte> out) const override;
  // The bytes of a tensor that begins at a multiple of its elements' size, as nearly all do.
  std::optional<MappedBytes> mapped(const TensorEntry& entry) const override;

 private:
  struct Contents;
  explicit SafetensorsFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

// The tensors of a checkpoint, whether in one file or in shards. `path` may be a .safetensors file,
// a GGUF file, a .bin or .pt file of torch.save, an index (model.safetensors.index.json,
// pytorch_model.bin.index.json), or a folder with any of them: model.safetensors first, then its
// index, then pytorch_model.bin and its index, then whatever there is one of, safetensors first.
class TensorArchive {
 public:
  static TensorArchive open(const std::filesystem::path& path, const OpenOptions& options = {});
  // Makes an archive of one file that is open already.
  static TensorArchive of(std::unique_ptr<TensorFile> file);

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const TensorEntry* find(std::string_view name) const;
  void read(const TensorEntry& entry, std::span<std::byte> out) const;
  void read_part(const TensorEntry& entry, std::uint64_t begin, std::span<std::byte> out) const;
  void visit(const TensorEntry& entry, const TensorFile::Visit& visit) const;
  std::uint64_t whole_bytes(const TensorEntry& entry) const;
  std::optional<MappedBytes> mapped(const TensorEntry& entry) const;
  const std::vector<std::unique_ptr<TensorFile>>& files() const { return files_; }
  // The files on disk behind all of them.
  std::vector<std::filesystem::path> paths() const;
  // The first file's metadata.
  const std::map<std::string, std::string>& metadata() const;
  // Groups of tensors that are the same elements of a file under several names.
  const std::vector<std::vector<std::string>>& tied() const { return tied_; }
  // Things worth a line in the load report, such as a wrong total_size.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  TensorArchive() = default;
  void add_file(std::unique_ptr<TensorFile> file);
  void open_index(const std::filesystem::path& index, const OpenOptions& options);

  std::vector<std::unique_ptr<TensorFile>> files_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<std::vector<std::string>> tied_;
  std::vector<std::string> warnings_;
};

// Whether a folder has files of weights: something that TensorArchive::open could open.
bool holds_weights(const std::filesystem::path& folder);

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
