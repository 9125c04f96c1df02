#include "widgets/map_image.h"

#include <stb_image_write.h>

#include <stdexcept>

#include "formats/base64.h"

namespace phasescope::widgets {
namespace {

void append_bytes(void* target, void* data, int size) {
  static_cast<std::string*>(target)->append(static_cast<const char*>(data), size);
}

}  // namespace

Image image_of(const MapSpec& map, int scale, Ground ground) {
  Image image{map.cols * scale, map.rows * scale, {}};
  image.pixels.resize(static_cast<std::size_t>(image.width) * image.height);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const std::size_t cell = static_cast<std::size_t>(y / scale) * map.cols + x / scale;
      image.pixels[static_cast<std::size_t>(y) * image.width + x] =
          cell_color(map, map.values[cell], ground);
    }
  }
  return image;
}

std::string png_of(const Image& image) {
  std::string bytes;
  if (image.pixels.empty() ||
      !stbi_write_png_to_func(append_bytes, &bytes, image.width, image.height, 4,
                              image.pixels.data(), image.width * 4)) {
    throw std::runtime_error("the picture has no pixels to write");
  }
  return bytes;
}

std::string png_of(const MapSpec& map, int scale, Ground ground) {
  return png_of(image_of(map, scale, ground));
}

std::string data_uri_of_png(const std::string& png_bytes) {
  return "data:image/png;base64," + formats::base64_of(png_bytes);
}

}  // namespace phasescope::widgets
