// What a fuzz target is: LLVMFuzzerTestOneInput, as libFuzzer calls it, and seeds() to begin from.
// With clang libFuzzer drives it, with other compilers driver.cpp, by mutations alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace phasescope::fuzz {

// A whole input, good or nearly; a target has as many as it likes.
std::string seed(std::mt19937& random);

}  // namespace phasescope::fuzz
