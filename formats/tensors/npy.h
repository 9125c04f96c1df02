#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "formats/file_system.h"
#include "formats/read_only_file.h"
#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// Writes a .npy file (format 1.0, little endian, C order) in one step. `values` must hold the
// product of `shape`; an empty shape is a scalar. Throws FileError; Error "internal" for a shape
// that does not fit.
void write_npy(FileSystem& fs, const std::filesystem::path& path, std::span<const float> values,
               std::span<const std::int64_t> shape);
void write_npy(FileSystem& fs, const std::filesystem::path& path, std::span<const double> values,
               std::span<const std::int64_t> shape);
void write_npy(FileSystem& fs, const std::filesystem::path& path,
               std::span<const std::int64_t> values, std::span<const std::int64_t> shape);

// What the head of a .npy file says: numbers of one type, the last index fastest unless
// `fortran_order`, from byte `offset` on.
struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  bool fortran_order = false;
  std::uint64_t offset = 0;
};

// The header of a file of `file_bytes`; `start` has its first 65,536 bytes, or all. Throws Error
// "bad_input": no .npy file, another version or type than numpy writes for numbers, a shape that is
// larger than the file.
NpyHeader read_npy_header(std::string_view start, std::uint64_t file_bytes,
                          const std::string& where);

// An array of a .npy file, read when it is asked for.
class NpyFile {
 public:
  explicit NpyFile(const std::filesystem::path& path);
  const NpyHeader& header() const { return header_; }
  // All numbers as they lie in the file; `out` has their bytes.
  void read(std::span<std::byte> out) const { file_.read(header_.offset, out); }

 private:
  ReadOnlyFile file_;
  NpyHeader header_;
};

}  // namespace phasescope::formats
