#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

namespace phasescope::widgets {

struct Rgba {
  std::uint8_t r = 0, g = 0, b = 0, a = 255;
  bool operator==(const Rgba&) const = default;
};

// weights: white to blue, for attention weights on a fixed 0..1.
// signed_values: red - white - blue, blue positive; its range is always centred at 0.
// viridis: anything else.
enum class Colormap { weights, signed_values, viridis };

// The value of a cell that the mask hides (a score there is -inf before the softmax).
// Such a cell is drawn neutral grey, never as a zero. NaN and +inf are drawn magenta.
inline constexpr float kMaskedCell = -std::numeric_limits<float>::infinity();
inline constexpr Rgba kMaskedColor{0xbd, 0xbd, 0xc2, 255};
inline constexpr Rgba kNotFiniteColor{0xe0, 0x1f, 0xb4, 255};

struct ValueRange {
  double low = 0.0;
  double high = 1.0;
  bool operator==(const ValueRange&) const = default;
};

// The colour of t in 0..1 (clamped) along the map.
Rgba color_at(Colormap map, double t);

// The colour of a value: values outside the range take the end colours.
Rgba color_of(Colormap map, double value, ValueRange range);

// 256 entries of the map, what the heatmap's shader looks up.
std::array<Rgba, 256> color_table(Colormap map);

// The range a colour map is drawn with: symmetric about 0 for signed values, as given otherwise.
ValueRange drawn_range(Colormap map, ValueRange range);

std::string name_of(Colormap map);

// Colours for lines and bars, told apart also by colour-blind readers; repeats after its length.
Rgba series_color(int index);
int series_count();
std::string hex_of(Rgba color);

}  // namespace phasescope::widgets
