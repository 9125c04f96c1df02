#include "formats/tensors/safetensors.h"

#include <array>
#include <mutex>
#include <utility>

#include "formats/error.h"
#include "formats/read_only_file.h"
#include "formats/tensors/safetensors_header.h"

namespace phasescope::formats {
namespace {

std::uint64_t little_endian_u64(std::span<const std::byte, 8> bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// The length field, checked against the format's cap and the file before anything is allocated.
std::uint64_t read_header_length(const ReadOnlyFile& file) {
  const std::string where = file.path().string() + ", byte 0";
  if (file.size() < 8) {
    throw bad_input("the file has " + std::to_string(file.size()) +
                        " bytes and is too short to be a safetensors file",
                    where, "copy or download it again");
  }
  std::array<std::byte, 8> bytes;
  file.read(0, bytes);
  const std::uint64_t length = little_endian_u64(bytes);
  if (length > kMaxHeaderBytes) {
    throw bad_input("the header length " + std::to_string(length) + " is above 100000000", where,
                    "this is no safetensors file");
  }
  if (length > file.size() - 8) {
    throw bad_input("the header of " + std::to_string(length) +
                        " bytes runs past the end of the file of " + std::to_string(file.size()),
                    where, "the file is cut short; copy or download it again");
  }
  return length;
}

}  // namespace

struct SafetensorsFile::Contents {
  ReadOnlyFile file;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::mutex mapping_mutex;
  std::weak_ptr<const FileMapping> mapping;  // for as long as somebody looks at it

  explicit Contents(const std::filesystem::path& path) : file(path) {}

  void read_header(const OpenOptions& options) {
    const std::uint64_t length = read_header_length(file);
    std::string json(length, '\0');
    file.read(8, std::as_writable_bytes(std::span(json)));
    header = parse_safetensors_header(json, 8 + length, file.size(), file.path().string(), options);
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
      by_name.emplace(header.tensors[i].name, i);
    }
  }
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<Contents> contents)
    : contents_(std::move(contents)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path,
                                      const OpenOptions& options) {
  auto contents = std::make_unique<Contents>(path);
  contents->read_header(options);
  return SafetensorsFile(std::move(contents));
}

const std::filesystem::path& SafetensorsFile::path() const { return contents_->file.path(); }

const std::vector<TensorEntry>& SafetensorsFile::tensors() const {
  return contents_->header.tensors;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto it = contents_->by_name.find(name);
  return it == contents_->by_name.end() ? nullptr : &contents_->header.tensors[it->second];
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return contents_->header.metadata;
}

void SafetensorsFile::read_part(const TensorEntry& entry, std::uint64_t begin,
                                std::span<std::byte> out) const {
  check_part(entry, begin, out.size());
  read_bytes(entry, begin, out);
}

void SafetensorsFile::read_bytes(const TensorEntry& entry, std::uint64_t begin,
                                 std::span<std::byte> out) const {
  if (begin > entry.size || out.size() > entry.size - begin) {
    throw internal_error("[safetensors] a read past the end of " + entry.name);
  }
  contents_->file.check_unchanged();
  contents_->file.read(entry.offset + begin, out);
  contents_->file.check_unchanged();
}

std::optional<MappedBytes> SafetensorsFile::mapped(const TensorEntry& entry) const {
  const std::size_t element = item_size(entry.dtype);
  if (element == 0 || entry.size == 0 || entry.offset % element != 0) return std::nullopt;
  const std::lock_guard lock(contents_->mapping_mutex);
  std::shared_ptr<const FileMapping> mapping = contents_->mapping.lock();
  if (!mapping) contents_->mapping = mapping = FileMapping::of(contents_->file);
  if (!mapping) return std::nullopt;
  const std::span<const std::byte> bytes = mapping->bytes().subspan(entry.offset, entry.size);
  return MappedBytes{std::move(mapping), bytes};
}

}  // namespace phasescope::formats
