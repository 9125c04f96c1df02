#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/read_only_file.h"
#include "formats/tensors/tensor_file.h"

namespace phasescope::formats {

// One record of a zip file.
struct ZipRecord {
  std::string name;
  std::uint64_t offset = 0;  // of its first byte, from the start of the file
  std::uint64_t size = 0;    // bytes in the file
  std::uint32_t crc = 0;     // CRC-32 of what is stored, as the directory states it
  std::uint16_t method = 0;  // 0: stored; others are compressed and for the caller to refuse
};

// Reads the directory of a zip file (APPNOTE 6.3; zip64 too) and checks it against the file: names
// unique, nothing encrypted, directory and local headers in agreement, every record between the
// start and the directory, none over another. The contents are not read, so their CRC is the
// caller's to check (read_record does). Throws Error "bad_input".
std::vector<ZipRecord> read_zip_directory(const ReadOnlyFile& file, const OpenOptions& options);

// A whole record whose CRC fits.
std::string read_record(const ReadOnlyFile& file, const ZipRecord& record);

// The error of a record whose CRC does not fit.
Error bad_crc(const ReadOnlyFile& file, const ZipRecord& record);

}  // namespace phasescope::formats
