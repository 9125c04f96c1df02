#pragma once

#include <cstdint>
#include <filesystem>

namespace phasescope::formats {

// Bytes that this process may still take without pushing anything to disk: what the machine has,
// or the group of processes that it belongs to (a container, a batch job), or a limit on its
// addresses, where that has less.
// Pages of files count as free, as they can be read again. 0 where nothing is known. `root` is the
// folder that holds proc/ and sys/.
std::int64_t available_bytes(const std::filesystem::path& root = "/");

}  // namespace phasescope::formats
