#include "formats/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "formats/error.h"
#include "formats/safetensors_header.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeRow, 10> kDTypes = {{{DType::f32, "F32", 4},
                                               {DType::f16, "F16", 2},
                                               {DType::bf16, "BF16", 2},
                                               {DType::f64, "F64", 8},
                                               {DType::i8, "I8", 1},
                                               {DType::i16, "I16", 2},
                                               {DType::i32, "I32", 4},
                                               {DType::i64, "I64", 8},
                                               {DType::u8, "U8", 1},
                                               {DType::boolean, "BOOL", 1}}};

// What tells a file from the one that was opened: its length and when it was last written.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};

FileStamp stamp_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

Error changed_file(const std::filesystem::path& path) {
  return bad_input("the file was cut short or rewritten after it was opened", path.string(),
                   "open the model again");
}

// Fills `out` from byte `offset` on.
void read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out,
                  const std::filesystem::path& path) {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw FileError(std::string("cannot read: ") + std::strerror(errno), path, errno);
    if (count == 0) throw changed_file(path);
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::uint64_t little_endian_u64(std::span<const std::byte, 8> bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// The length field, checked against the format's cap and the file before anything is allocated.
std::uint64_t read_header_length(int fd, std::uint64_t file_size,
                                 const std::filesystem::path& path) {
  const std::string where = path.string() + ", byte 0";
  if (file_size < 8) {
    throw bad_input("the file has " + std::to_string(file_size) +
                        " bytes and is too short to be a safetensors file",
                    where, "copy or download it again");
  }
  std::array<std::byte, 8> bytes;
  read_exactly(fd, 0, bytes, path);
  const std::uint64_t length = little_endian_u64(bytes);
  if (length > kMaxHeaderBytes) {
    throw bad_input("the header length " + std::to_string(length) + " is above 100000000", where,
                    "this is no safetensors file");
  }
  if (length > file_size - 8) {
    throw bad_input("the header of " + std::to_string(length) +
                        " bytes runs past the end of the file of " + std::to_string(file_size),
                    where, "the file is cut short; copy or download it again");
  }
  return length;
}

}  // namespace

std::size_t item_size(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.bytes;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "unsupported";
}

DType dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return DType::unsupported;
}

std::int64_t TensorEntry::element_count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (text.size() > 120) return text + ", ...]";
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

struct SafetensorsFile::Contents {
  std::filesystem::path path;
  int fd = -1;
  FileStamp stamp;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, std::size_t> by_name;

  ~Contents() {
    if (fd >= 0) ::close(fd);
  }

  void open_descriptor() {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status = {};
    if (fd < 0 || ::fstat(fd, &status) != 0) {
      throw FileError(std::string("cannot open: ") + std::strerror(errno), path, errno);
    }
    if (!S_ISREG(status.st_mode)) throw bad_input("this is not a file", path.string());
    stamp = stamp_of(status);
  }

  void check_unchanged() const {
    struct stat status = {};
    if (::fstat(fd, &status) != 0 || stamp_of(status) != stamp) throw changed_file(path);
  }

  void read_header(const OpenOptions& options) {
    const std::uint64_t length = read_header_length(fd, stamp.size, path);
    std::string json(length, '\0');
    read_exactly(fd, 8, std::as_writable_bytes(std::span(json)), path);
    header = parse_safetensors_header(json, 8 + length, stamp.size, path.string(), options);
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
  auto contents = std::make_unique<Contents>();
  contents->path = path;
  contents->open_descriptor();
  contents->read_header(options);
  return SafetensorsFile(std::move(contents));
}

const std::filesystem::path& SafetensorsFile::path() const { return contents_->path; }

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

void SafetensorsFile::read(const TensorEntry& entry, std::span<std::byte> out) const {
  if (out.size() != entry.size) {
    throw internal_error("[safetensors] the buffer for " + shortened(entry.name) + " has " +
                         std::to_string(out.size()) + " bytes and needs " +
                         std::to_string(entry.size));
  }
  read_part(entry, 0, out);
}

void SafetensorsFile::read_part(const TensorEntry& entry, std::uint64_t begin,
                                std::span<std::byte> out) const {
  if (entry.dtype == DType::unsupported) {
    throw bad_input("tensor \"" + shortened(entry.name) + "\" has the type " +
                        shortened(entry.dtype_name) + ", which is not supported",
                    path().string(), "convert it to F32, F16 or BF16 first");
  }
  if (begin > entry.size || out.size() > entry.size - begin) {
    throw internal_error("[safetensors] a read past the end of " + shortened(entry.name));
  }
  contents_->check_unchanged();
  read_exactly(contents_->fd, entry.offset + begin, out, path());
  contents_->check_unchanged();
}

}  // namespace phasescope::formats
