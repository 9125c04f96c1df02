#include "formats/tensors/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <string>

#include "formats/error.h"
#include "formats/utf8.h"

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

namespace {

constexpr std::size_t kLongestHead = 65536;

// What stands after a key of the head's dictionary, from its first character that is no space.
std::string_view after_key(std::string_view head, const std::string& key,
                           const std::string& where) {
  for (const char quote : {'\'', '"'}) {
    const std::size_t at = head.find(quote + key + quote);
    if (at == std::string_view::npos) continue;
    std::string_view rest = head.substr(at + key.size() + 2);
    const std::size_t colon = rest.find_first_not_of(" ");
    if (colon == std::string_view::npos || rest[colon] != ':') break;
    rest.remove_prefix(colon + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" "), rest.size()));
    return rest;
  }
  throw bad_input("the head of this .npy file has no " + key, where);
}

// What stands between the quotes; of a type that is a list of fields its beginning.
std::string_view in_its_quotes(std::string_view descr) {
  const bool quoted = descr.starts_with('\'') || descr.starts_with('"');
  const std::size_t end = quoted ? descr.find(descr.front(), 1) : std::string_view::npos;
  return end == std::string_view::npos ? descr.substr(0, 20) : descr.substr(1, end - 1);
}

DType npy_type(std::string_view descr, const std::string& where) {
  constexpr std::pair<std::string_view, DType> known[] = {
      {"<f4", DType::f32}, {"<f8", DType::f64}, {"<f2", DType::f16},
      {"<i8", DType::i64}, {"<i4", DType::i32}, {"<i2", DType::i16},
      {"|i1", DType::i8},  {"|u1", DType::u8},  {"|b1", DType::boolean}};
  const std::string_view text = in_its_quotes(descr);
  for (const auto& [name, dtype] : known) {
    if (text == name) return dtype;
  }
  throw bad_input("numbers of the type " + in_quotes(text.substr(0, 20)) +
                      " are not read; save them as float32",
                  where);
}

std::vector<std::int64_t> npy_shape(std::string_view text, const std::string& where) {
  const std::size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) {
    throw bad_input("the head of this .npy file has no shape", where);
  }
  std::vector<std::int64_t> shape;
  const char* at = text.data() + 1;
  const char* const last = text.data() + end;
  while (at != last) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t size = -1;
    const auto [next, error] = std::from_chars(at, last, size);
    if (error != std::errc() || size < 0 || shape.size() >= 32) {
      throw bad_input("the shape of this .npy file is none", where);
    }
    shape.push_back(size);
    at = next;
  }
  return shape;
}

void check_size(const NpyHeader& header, std::uint64_t file_bytes, const std::string& where) {
  std::uint64_t most = (file_bytes - header.offset) / item_size(header.dtype);
  const bool empty = std::ranges::find(header.shape, 0) != header.shape.end();
  for (const std::int64_t n : header.shape) {
    if (!empty) most /= static_cast<std::uint64_t>(n);
  }
  if (most == 0 && !empty) {
    throw bad_input("this .npy file is shorter than its shape says", where);
  }
}

}  // namespace

NpyHeader read_npy_header(std::string_view start, std::uint64_t file_bytes,
                          const std::string& where) {
  const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(start[n]); };
  if (start.size() < 12 || start.substr(0, 6) != "\x93NUMPY") {
    throw bad_input("this is no .npy file", where);
  }
  if (byte(6) < 1 || byte(6) > 3) throw bad_input("this version of .npy is not read", where);
  std::size_t size = byte(8) | (std::size_t{byte(9)} << 8);
  NpyHeader header;
  header.offset = 10;
  if (byte(6) > 1) {
    size |= (std::size_t{byte(10)} << 16) | (std::size_t{byte(11)} << 24);
    header.offset = 12;
  }
  if (size > start.size() - header.offset) {
    throw bad_input("the head of this .npy file is longer than the file", where);
  }
  const std::string_view head = start.substr(header.offset, size);
  header.offset += size;
  header.dtype = npy_type(after_key(head, "descr", where), where);
  header.fortran_order = after_key(head, "fortran_order", where).starts_with("True");
  header.shape = npy_shape(after_key(head, "shape", where), where);
  check_size(header, file_bytes, where);
  return header;
}

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path) {
  std::string start(std::min<std::uint64_t>(file_.size(), kLongestHead), '\0');
  file_.read(0, std::as_writable_bytes(std::span(start)));
  header_ = read_npy_header(start, file_.size(), path.string());
}

}  // namespace phasescope::formats
