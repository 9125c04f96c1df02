#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "formats/file_system.h"

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

}  // namespace phasescope::formats
