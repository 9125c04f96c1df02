#pragma once

#include <string>
#include <utility>
#include <vector>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// The colours of a figure apart from those of its data.
struct FigureInk {
  std::string ground = "#ffffff", strong = "#111114", ink = "#333333", quiet = "#66666c";
  std::string pale = "#8a8a8f", frame = "#9a9aa0", rule = "#e4e4e8";
  bool dark = false;
};
// The colours of a figure on a light page, as documents have them, or on a dark slide.
const FigureInk& figure_ink(FigureTheme theme);

enum class TextAnchor { start, middle, end };

struct SvgText {
  double size = 12;
  std::string color = "#333333";
  TextAnchor anchor = TextAnchor::start;
  bool bold = false;
  bool upright = true;  // false: turned by a quarter, read from below
};

using SvgPoints = std::vector<std::pair<double, double>>;

// Collects the elements of one SVG picture. Coordinates are pixels, y down.
class SvgWriter {
 public:
  SvgWriter(double width, double height, FigureTheme theme = FigureTheme::light);

  const FigureInk& ink() const { return ink_; }
  // The colour of a series; lighter on a dark ground, as in the window.
  std::string series(int index) const;

  void line(double x0, double y0, double x1, double y1, const std::string& color, double width = 1,
            bool dashed = false);
  void rect(double x, double y, double width, double height, const std::string& fill,
            double opacity = 1, const std::string& stroke = "none");
  void polyline(const SvgPoints& points, const std::string& color, double width, bool dashed,
                double opacity = 1);
  void polygon(const SvgPoints& points, const std::string& fill, double opacity);
  void circle(double x, double y, double radius, const std::string& fill);
  // A point of one shape at each place, about as large as a circle of this radius; all are one
  // element, and so are the middles of open ones.
  void marks(const SvgPoints& places, PointShape shape, double radius, const std::string& color);
  void image(double x, double y, double width, double height, const std::string& data_uri);
  void text(double x, double y, const std::string& words, const SvgText& style);

  // Everything until end_clip is cut at the rectangle.
  void begin_clip(double x, double y, double width, double height);
  void end_clip();

  std::string finish();

 private:
  void put(const std::string& element);

  const FigureInk& ink_;
  std::string body_;
  int clips_ = 0;
};

// A rough width in pixels: the writer has no font at hand, a proportional average is enough for
// laying out legends and breaking notes.
double text_width(const std::string& words, double size);

// Words broken into lines no wider than `width` pixels.
std::vector<std::string> wrapped(const std::string& words, double size, double width);

}  // namespace phasescope::widgets
