// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected; RFC 3720, appendix B.4), with the
// processor's own instruction where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace phasescope::protocol {

// The checksum of `bytes` appended to what `before` is the checksum of.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The checksum by tables, for machines without the instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace phasescope::protocol
