#include "widgets/map_colors.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

// Evenly spaced stops; the hues of colormap.cpp, and lighter is more.
constexpr Rgba kWeightsOnDark[] = {{0x12, 0x16, 0x1e}, {0x0e, 0x2b, 0x52}, {0x12, 0x45, 0x80},
                                   {0x1e, 0x63, 0xab}, {0x3a, 0x86, 0xc8}, {0x62, 0xa8, 0xda},
                                   {0x92, 0xc8, 0xe8}, {0xc3, 0xe2, 0xf4}, {0xf4, 0xfb, 0xff}};
constexpr Rgba kSignedOnDark[] = {{0xff, 0xb8, 0xa6}, {0xf5, 0x88, 0x72}, {0xd9, 0x56, 0x4c},
                                  {0xa0, 0x32, 0x38}, {0x55, 0x20, 0x2a}, {0x1b, 0x1e, 0x26},
                                  {0x16, 0x32, 0x55}, {0x1e, 0x54, 0x94}, {0x3a, 0x80, 0xc6},
                                  {0x6e, 0xac, 0xe4}, {0xb0, 0xd8, 0xff}};

std::uint8_t between(std::uint8_t a, std::uint8_t b, double t) {
  return static_cast<std::uint8_t>(std::lround(a + (b - a) * t));
}

}  // namespace

Ground window_ground() { return is_dark() ? Ground::dark : Ground::light; }

Rgba color_at(Colormap map, double t, Ground ground) {
  if (ground == Ground::light || map == Colormap::viridis) return color_at(map, t);
  const std::span<const Rgba> stops = map == Colormap::weights
                                          ? std::span<const Rgba>(kWeightsOnDark)
                                          : std::span<const Rgba>(kSignedOnDark);
  const double place = std::clamp(t, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double part = place - static_cast<double>(index);
  const Rgba a = stops[index], b = stops[index + 1];
  return {between(a.r, b.r, part), between(a.g, b.g, part), between(a.b, b.b, part), 255};
}

Rgba cell_color(const MapSpec& map, double value, Ground ground) {
  if (ground == Ground::light || (!std::isfinite(value) && value != kMaskedCell)) {
    return cell_color(map, value);
  }
  if (value == kMaskedCell) return kMaskedOnDark;
  return color_at(map.colormap, scale_place(map, value), ground);
}

double value_at_place(const MapSpec& map, double t) {
  const ValueRange range = drawn_range(map.colormap, map.range);
  if (map.log_decades > 0) return range.high * std::pow(10.0, (t - 1) * map.log_decades);
  return range.low + t * (range.high - range.low);
}

std::array<Rgba, 256> color_table(Colormap map, Ground ground) {
  std::array<Rgba, 256> table;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = color_at(map, static_cast<double>(i) / 255.0, ground);
  }
  return table;
}

}  // namespace phasescope::widgets
