#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "widgets/map_colors.h"
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// Pixels row by row from the top, 4 bytes each.
struct Image {
  int width = 0, height = 0;
  std::vector<Rgba> pixels;
};

// Each cell of the map becomes `scale` x `scale` pixels.
Image image_of(const MapSpec& map, int scale = 1, Ground ground = Ground::light);

// The bytes of a PNG file. Throws std::runtime_error when the image has no pixels.
std::string png_of(const Image& image);
std::string png_of(const MapSpec& map, int scale = 1, Ground ground = Ground::light);

// "data:image/png;base64,...", for a page or an SVG that holds its picture itself.
std::string data_uri_of_png(const std::string& png_bytes);

}  // namespace phasescope::widgets
