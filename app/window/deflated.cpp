#include "app/window/deflated.h"

#include <stb_image.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

// stb_image_write's header leaves it out.
extern "C" unsigned char* stbi_zlib_compress(unsigned char* data, int size, int* made, int quality);

namespace phasescope::app {

std::vector<std::byte> deflated(std::string_view text) {
  constexpr int kQuality = 8;  // as stb writes PNG files: more takes longer for next to nothing
  if (text.size() > INT_MAX) throw std::length_error("a text of 2^31 bytes cannot be deflated");
  std::string copy(text);  // stb asks for bytes that it could change
  int size = 0;
  const std::unique_ptr<unsigned char, decltype(&std::free)> bytes(
      stbi_zlib_compress(reinterpret_cast<unsigned char*>(copy.data()),
                         static_cast<int>(copy.size()), &size, kQuality),
      &std::free);
  if (!bytes) throw std::bad_alloc();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.get());
  return {begin, begin + size};
}

std::string inflated(std::span<const std::byte> bytes, std::size_t size) {
  std::string text;
  if (bytes.size() <= INT_MAX && size <= INT_MAX) {
    text.resize(size);
    const int made = stbi_zlib_decode_buffer(text.data(), static_cast<int>(size),
                                             reinterpret_cast<const char*>(bytes.data()),
                                             static_cast<int>(bytes.size()));
    if (made >= 0 && static_cast<std::size_t>(made) == size) return text;
  }
  throw std::invalid_argument("the bytes hold no deflated text of " + std::to_string(size) +
                              " bytes");
}

}  // namespace phasescope::app
