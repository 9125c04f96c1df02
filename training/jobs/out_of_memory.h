#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>

#include "formats/error.h"

namespace phasescope::training {

// The bytes that torch's allocator says it could not get ("you tried to allocate N bytes").
std::optional<std::int64_t> bytes_wanted(std::string_view message);

// Whether it says that there was no memory, of the processor or of a device.
bool says_out_of_memory(const std::exception& exception);

// Running out of memory becomes Error "out_of_memory" with the bytes wanted, the bytes free
// now that the step's are given back, and what to make smaller; anything else "internal".
formats::Error memory_or_internal_error(const std::exception& exception);

}  // namespace phasescope::training
