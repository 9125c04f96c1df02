#include "formats/tensors/npy.h"

#include <bit>
#include <limits>
#include <string>

#include "formats/error.h"

namespace phasescope::formats {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are written as they lie in memory");

std::string shape_tuple(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

// Magic, version 1.0, header length, then the header padded so that the data is 64-byte aligned.
std::string npy_header(const std::string& type, std::span<const std::int64_t> shape) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape_tuple(shape) + ", }";
  constexpr std::size_t kBefore = 10;
  const std::size_t padding = (64 - (kBefore + header.size() + 1) % 64) % 64;
  header.append(padding, ' ').push_back('\n');
  if (header.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw internal_error("[npy] the shape has too many dimensions");
  }
  const std::string start{'\x93', 'N', 'U', 'M', 'P', 'Y', '\x01', '\x00'};
  return start + static_cast<char>(header.size() & 0xFF) + static_cast<char>(header.size() >> 8) +
         header;
}

void write(FileSystem& fs, const std::filesystem::path& path, const std::string& type,
           std::span<const std::byte> bytes, std::size_t count,
           std::span<const std::int64_t> shape) {
  std::uint64_t product = 1;
  for (const std::int64_t n : shape) product *= static_cast<std::uint64_t>(n);
  if (product != count) {
    throw internal_error("[npy] the shape holds " + std::to_string(product) + " values, but " +
                             std::to_string(count) + " were given",
                         path.string());
  }
  write_file_atomically_with(fs, path, [&](WritableFile& file) {
    file.write_text(npy_header(type, shape));
    file.write(bytes);
  });
}

}  // namespace

void write_npy(FileSystem& fs, const std::filesystem::path& path, std::span<const float> values,
               std::span<const std::int64_t> shape) {
  write(fs, path, "<f4", std::as_bytes(values), values.size(), shape);
}

void write_npy(FileSystem& fs, const std::filesystem::path& path, std::span<const double> values,
               std::span<const std::int64_t> shape) {
  write(fs, path, "<f8", std::as_bytes(values), values.size(), shape);
}

void write_npy(FileSystem& fs, const std::filesystem::path& path,
               std::span<const std::int64_t> values, std::span<const std::int64_t> shape) {
  write(fs, path, "<i8", std::as_bytes(values), values.size(), shape);
}

}  // namespace phasescope::formats
