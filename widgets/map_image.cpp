#include "widgets/map_image.h"

#include <algorithm>
#include <stdexcept>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#include "stb_image_write.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace phasescope::widgets {
namespace {

void append_bytes(void* target, void* data, int size) {
  static_cast<std::string*>(target)->append(static_cast<const char*>(data), size);
}

std::string base64_of(const std::string& bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= left ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace

Image image_of(const MapSpec& map, int scale) {
  Image image{map.cols * scale, map.rows * scale, {}};
  image.pixels.resize(static_cast<std::size_t>(image.width) * image.height);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      const std::size_t cell = static_cast<std::size_t>(y / scale) * map.cols + x / scale;
      image.pixels[static_cast<std::size_t>(y) * image.width + x] =
          cell_color(map, map.values[cell]);
    }
  return image;
}

std::string png_of(const Image& image) {
  std::string bytes;
  if (image.pixels.empty() ||
      !stbi_write_png_to_func(append_bytes, &bytes, image.width, image.height, 4,
                              image.pixels.data(), image.width * 4))
    throw std::runtime_error("the picture has no pixels to write");
  return bytes;
}

std::string png_of(const MapSpec& map, int scale) { return png_of(image_of(map, scale)); }

std::string data_uri_of_png(const std::string& png_bytes) {
  return "data:image/png;base64," + base64_of(png_bytes);
}

}  // namespace phasescope::widgets
