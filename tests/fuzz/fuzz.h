// What a fuzz target is: LLVMFuzzerTestOneInput, as libFuzzer calls it, and seeds() to begin from.
// With clang libFuzzer drives it, with other compilers driver.cpp, by mutations alone.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "formats/error.h"
#include "formats/text_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace phasescope::fuzz {

// A crash is what every driver finds.
inline void require(bool holds) {
  if (!holds) std::abort();
}

// Whatever it does, an Error of this kind with a sentence that any terminal and JSON can hold is
// the only way out.
template <typename Action>
void allow_bad_input(Action action) {
  try {
    action();
  } catch (const formats::Error& error) {
    const std::string text = error.full_text();
    require(error.code() == "bad_input" && !error.message().empty());
    require(formats::first_invalid_utf8(text) == text.size());
  }
}

// The path of a file that has these bytes, in memory: the same at every call.
inline const std::string& file_of(std::string_view content) {
  static const int memory = ::memfd_create("fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  require(::ftruncate(memory, 0) == 0 && ::pwrite(memory, content.data(), content.size(), 0) ==
                                             static_cast<ssize_t>(content.size()));
  return path;
}
inline const std::string& file_of(const std::uint8_t* data, std::size_t size) {
  return file_of({reinterpret_cast<const char*>(data), size});
}

// A whole input, good or nearly; a target has as many as it likes.
std::string seed(std::mt19937& random);

// Every second time something that a test gave the reader, under a name that ends so; nothing
// otherwise, or where no test has kept any (ctest runs those first that do).
std::optional<std::string> case_of_tests(std::mt19937& random, std::string_view ending);

}  // namespace phasescope::fuzz
