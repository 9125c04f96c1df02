#include "tests/widgets/soft_draw.h"

#include <algorithm>
#include <cmath>

namespace phasescope::testing {
namespace {

using widgets::Image;
using widgets::Rgba;

// Corners are rounded to so many parts of a pixel.
constexpr std::int64_t kParts = 16;

struct Point {
  std::int64_t x, y;
};

Point rounded(ImVec2 at) {
  return {std::llround(static_cast<double>(at.x) * kParts),
          std::llround(static_cast<double>(at.y) * kParts)};
}

// Twice the area of the triangle a b c, positive where it turns to the right on the screen.
std::int64_t area(Point a, Point b, Point c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

// Points on an edge belong to one of the two triangles that share it.
bool owns_edge(Point a, Point b) { return a.y == b.y ? b.x > a.x : b.y < a.y; }

// Colours at (column, row), 0 to 255 each.
class Texture {
 public:
  Texture(const ImDrawCmd& command, const Pictures& pictures) {
    if (const ImTextureData* data = command.TexRef._TexData) {
      font_ = data;
      width_ = data->Width, height_ = data->Height;
    } else if (const auto found = pictures.find(command.TexRef._TexID); found != pictures.end()) {
      picture_ = &found->second;
      width_ = picture_->width, height_ = picture_->height;
    }
  }
  Rgba at(double u, double v) const {
    if (width_ == 0) return {255, 255, 255, 255};
    const int x = std::clamp(static_cast<int>(std::floor(u * width_)), 0, width_ - 1);
    const int y = std::clamp(static_cast<int>(std::floor(v * height_)), 0, height_ - 1);
    const auto place = static_cast<std::size_t>(y) * width_ + x;
    if (picture_) return picture_->pixels[place];
    const unsigned char* pixel = font_->Pixels + place * font_->BytesPerPixel;
    if (font_->BytesPerPixel == 1) return {255, 255, 255, pixel[0]};
    return {pixel[0], pixel[1], pixel[2], pixel[3]};
  }

 private:
  const ImTextureData* font_ = nullptr;
  const Image* picture_ = nullptr;
  int width_ = 0, height_ = 0;
};

struct Box {
  int left, top, right, bottom;
};

std::uint8_t mixed(int over, int under, int alpha) {
  return static_cast<std::uint8_t>((over * alpha + under * (255 - alpha) + 127) / 255);
}

void put(Image& image, int x, int y, Rgba color) {
  Rgba& pixel = image.pixels[static_cast<std::size_t>(y) * image.width + x];
  pixel = {mixed(color.r, pixel.r, color.a), mixed(color.g, pixel.g, color.a),
           mixed(color.b, pixel.b, color.a), 255};
}

// The mean of three corners' values by whole weights that sum to `whole`.
int mean(const std::int64_t (&weights)[3], int a, int b, int c, std::int64_t whole) {
  return static_cast<int>((weights[0] * a + weights[1] * b + weights[2] * c + whole / 2) / whole);
}

void fill(Image& image, const ImDrawVert* (&corners)[3], const Box& clip, const Texture& texture) {
  Point at[3] = {rounded(corners[0]->pos), rounded(corners[1]->pos), rounded(corners[2]->pos)};
  if (area(at[0], at[1], at[2]) < 0) std::swap(at[1], at[2]), std::swap(corners[1], corners[2]);
  const std::int64_t whole = area(at[0], at[1], at[2]);
  if (whole == 0) return;
  const auto [low_x, high_x] = std::minmax({at[0].x, at[1].x, at[2].x});
  const auto [low_y, high_y] = std::minmax({at[0].y, at[1].y, at[2].y});
  const auto floored = [](std::int64_t value) {
    return static_cast<int>(value >= 0 ? value / kParts : -((-value + kParts - 1) / kParts));
  };
  for (int y = std::max(clip.top, floored(low_y)); y < std::min(clip.bottom, floored(high_y) + 1);
       ++y) {
    for (int x = std::max(clip.left, floored(low_x)); x < std::min(clip.right, floored(high_x) + 1);
         ++x) {
      const Point middle{x * kParts + kParts / 2, y * kParts + kParts / 2};
      const std::int64_t weights[3] = {area(at[1], at[2], middle), area(at[2], at[0], middle),
                                       area(at[0], at[1], middle)};
      bool inside = true;
      for (int i = 0; i < 3; ++i) {
        inside = inside && (weights[i] > 0 ||
                            (weights[i] == 0 && owns_edge(at[(i + 1) % 3], at[(i + 2) % 3])));
      }
      if (!inside) continue;
      double u = 0, v = 0;
      for (int i = 0; i < 3; ++i) {
        const double part = static_cast<double>(weights[i]) / static_cast<double>(whole);
        u += part * static_cast<double>(corners[i]->uv.x);
        v += part * static_cast<double>(corners[i]->uv.y);
      }
      const Rgba texel = texture.at(u, v);
      const auto channel = [&](int shift, int of_texture) {
        const auto of = [&](int i) { return static_cast<int>(corners[i]->col >> shift & 255U); };
        return (mean(weights, of(0), of(1), of(2), whole) * of_texture + 127) / 255;
      };
      put(image, x, y,
          {static_cast<std::uint8_t>(channel(IM_COL32_R_SHIFT, texel.r)),
           static_cast<std::uint8_t>(channel(IM_COL32_G_SHIFT, texel.g)),
           static_cast<std::uint8_t>(channel(IM_COL32_B_SHIFT, texel.b)),
           static_cast<std::uint8_t>(channel(IM_COL32_A_SHIFT, texel.a))});
    }
  }
}

void draw_list(Image& image, const ImDrawList& list, const Pictures& pictures) {
  for (const ImDrawCmd& command : list.CmdBuffer) {
    if (command.UserCallback) continue;
    const Texture texture(command, pictures);
    const Box clip{std::max(0, static_cast<int>(command.ClipRect.x)),
                   std::max(0, static_cast<int>(command.ClipRect.y)),
                   std::min(image.width, static_cast<int>(command.ClipRect.z)),
                   std::min(image.height, static_cast<int>(command.ClipRect.w))};
    for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
      const auto corner = [&](unsigned n) {
        const ImDrawIdx index = list.IdxBuffer[static_cast<int>(command.IdxOffset + i + n)];
        return &list.VtxBuffer[static_cast<int>(command.VtxOffset + index)];
      };
      const ImDrawVert* corners[3] = {corner(0), corner(1), corner(2)};
      fill(image, corners, clip, texture);
    }
  }
}

}  // namespace

Image soft_drawn(const ImDrawData& data, Rgba ground, const Pictures& pictures) {
  Image image{static_cast<int>(data.DisplaySize.x), static_cast<int>(data.DisplaySize.y), {}};
  image.pixels.assign(static_cast<std::size_t>(image.width) * image.height, ground);
  for (const ImDrawList* list : data.CmdLists) draw_list(image, *list, pictures);
  return image;
}

}  // namespace phasescope::testing
