#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "widgets/map_image.h"
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// False before OpenGL's functions were loaded (tests without a display): pictures are then not
// drawn, all else is.
bool has_gl();

// Who draws in software gets the coloured pictures that a graphics card would: called without
// OpenGL with the id that it gave the picture before, 0 at first, and gives the id to draw it by.
using PictureTaker = std::function<std::uint64_t(std::uint64_t id, Image picture)>;
void set_picture_taker(PictureTaker taker);

// A grid of values on the graphics card: a float texture, and an RGBA texture of it that a shader
// writes only when values, colours or range change. Row 0 is at the top (v = 0).
class HeatmapTexture {
 public:
  HeatmapTexture() = default;
  ~HeatmapTexture();
  HeatmapTexture(const HeatmapTexture&) = delete;
  HeatmapTexture& operator=(const HeatmapTexture&) = delete;

  // rows * cols values, row-major; kMaskedCell and what else is not finite keep their colours.
  void set_values(int rows, int cols, std::span<const float> values) {
    set_values(rows, cols, std::vector<float>(values.begin(), values.end()));
  }
  void set_values(int rows, int cols, std::vector<float>&& values);

  // The coloured texture as an ImTextureID, 0 without values, or without OpenGL and somebody who
  // takes pictures. Only colormap,
  // range and log_decades of `look` are used.
  std::uint64_t colored(const MapSpec& look);

  int rows() const { return rows_; }
  int cols() const { return cols_; }

 private:
  struct Look {
    Colormap colormap = Colormap::weights;
    ValueRange range;
    int log_decades = 0;
    bool dark = false;  // the theme: the ground that colours and masked cells follow
    bool operator==(const Look&) const = default;
  };

  std::uint64_t taken();
  void upload();
  void render();
  void release();

  int rows_ = 0, cols_ = 0;
  std::vector<float> values_;  // until the upload, which waits for OpenGL
  std::uint64_t taken_ = 0;    // the picture's id where it is drawn in software
  bool values_changed_ = false, look_changed_ = true;
  Look look_;
  unsigned float_texture_ = 0, color_texture_ = 0, framebuffer_ = 0;
};

}  // namespace phasescope::widgets
