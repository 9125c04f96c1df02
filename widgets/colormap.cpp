#include "widgets/colormap.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

namespace phasescope::widgets {
namespace {

// Stops are evenly spaced. The blues are ColorBrewer's Blues with a pure white start, the signed
// map its RdBu, viridis is sampled from matplotlib's table.
constexpr Rgba kWeights[] = {{0xff, 0xff, 0xff}, {0xde, 0xeb, 0xf7}, {0xc6, 0xdb, 0xef},
                             {0x9e, 0xca, 0xe1}, {0x6b, 0xae, 0xd6}, {0x42, 0x92, 0xc6},
                             {0x21, 0x71, 0xb5}, {0x08, 0x51, 0x9c}, {0x08, 0x30, 0x6b}};
constexpr Rgba kSigned[] = {{0x67, 0x00, 0x1f}, {0xb2, 0x18, 0x2b}, {0xd6, 0x60, 0x4d},
                            {0xf4, 0xa5, 0x82}, {0xfd, 0xdb, 0xc7}, {0xf7, 0xf7, 0xf7},
                            {0xd1, 0xe5, 0xf0}, {0x92, 0xc5, 0xde}, {0x43, 0x93, 0xc3},
                            {0x21, 0x66, 0xac}, {0x05, 0x30, 0x61}};
constexpr Rgba kViridis[] = {{0x44, 0x01, 0x54}, {0x48, 0x28, 0x78}, {0x3e, 0x49, 0x89},
                             {0x31, 0x68, 0x8e}, {0x26, 0x82, 0x8e}, {0x1f, 0x9e, 0x89},
                             {0x35, 0xb7, 0x79}, {0x6e, 0xce, 0x58}, {0xb5, 0xde, 0x2b},
                             {0xfd, 0xe7, 0x25}};
constexpr Rgba kSeries[] = {{0x1f, 0x77, 0xb4}, {0xe6, 0x7e, 0x22}, {0x2a, 0x9d, 0x6f},
                            {0xc0, 0x39, 0x4f}, {0xa8, 0x5a, 0xfc}, {0x8a, 0x36, 0x1f},
                            {0x00, 0xbd, 0xc2}, {0xab, 0x9a, 0x5a}};

std::span<const Rgba> stops_of(Colormap map) {
  switch (map) {
    case Colormap::weights:
      return kWeights;
    case Colormap::signed_values:
      return kSigned;
    case Colormap::viridis:
      return kViridis;
  }
  return kViridis;
}

std::uint8_t mix(std::uint8_t a, std::uint8_t b, double t) {
  return static_cast<std::uint8_t>(std::lround(a + (b - a) * t));
}

}  // namespace

Rgba color_at(Colormap map, double t) {
  const auto stops = stops_of(map);
  const double place = std::clamp(t, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double part = place - static_cast<double>(index);
  const Rgba a = stops[index], b = stops[index + 1];
  return {mix(a.r, b.r, part), mix(a.g, b.g, part), mix(a.b, b.b, part), 255};
}

ValueRange drawn_range(Colormap map, ValueRange range) {
  if (map != Colormap::signed_values) return range;
  const double reach = std::max(std::abs(range.low), std::abs(range.high));
  return {-reach, reach};
}

Rgba color_of(Colormap map, double value, ValueRange range) {
  if (value == kMaskedCell) return kMaskedColor;
  if (!std::isfinite(value)) return kNotFiniteColor;
  const ValueRange drawn = drawn_range(map, range);
  const double width = drawn.high - drawn.low;
  return color_at(map, width > 0 ? (value - drawn.low) / width : 0.5);
}

std::array<Rgba, 256> color_table(Colormap map) {
  std::array<Rgba, 256> table;
  for (int i = 0; i < 256; ++i) table[i] = color_at(map, i / 255.0);
  return table;
}

std::string name_of(Colormap map) {
  switch (map) {
    case Colormap::weights:
      return "weights";
    case Colormap::signed_values:
      return "signed";
    case Colormap::viridis:
      return "viridis";
  }
  return "viridis";
}

int series_count() { return static_cast<int>(std::size(kSeries)); }

Rgba series_color(int index) {
  const int count = series_count();
  return kSeries[((index % count) + count) % count];
}

std::string hex_of(Rgba color) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", color.r, color.g, color.b);
  return text;
}

}  // namespace phasescope::widgets
