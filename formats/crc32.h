#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace phasescope::formats {

// CRC-32 as zip files have it (polynomial 0xEDB88320, reflected). `before` is the value of the
// bytes that came first, so that long data can be summed piece by piece.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace phasescope::formats
