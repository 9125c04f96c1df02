#include "widgets/svg_writer.h"

#include <cmath>
#include <cstdio>
#include <sstream>

namespace phasescope::widgets {
namespace {

constexpr const char* kFonts =
    "Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', 'Noto Sans', sans-serif";

// A value off a log axis has no place; 0 keeps the file well-formed.
std::string number(double value) {
  if (!std::isfinite(value)) return "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string words = text;
  while (words.back() == '0') words.pop_back();
  if (words.back() == '.') words.pop_back();
  return words == "-0" ? "0" : words;
}

std::string escaped(const std::string& words) {
  std::string out;
  for (char c : words) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') {
      out += c;
    }
  }
  return out;
}

std::string points_of(const SvgPoints& points) {
  std::string text;
  for (const auto& [x, y] : points) {
    if (std::isfinite(x) && std::isfinite(y)) text += number(x) + "," + number(y) + " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + value + "\"";
}

// A tenth of a pixel is enough for what has a hundred copies.
std::string tenths(double value) { return number(std::round(value * 10) / 10); }

// How a point is drawn as a part of a path: where it begins, seen from its middle, and what follows
// in steps; with a stroke of this width, or filled. A stroke of no length is its round cap alone.
struct MarkForm {
  double x = 0, y = 0;
  std::string rest;
  double width = 0;
};

// "l1.2 4.2-1.2 4.2", steps of a path: a sign parts numbers as a space does.
std::string steps(const SvgPoints& by) {
  std::string words;
  const auto add = [&](double value) {
    const std::string next = tenths(value);
    words += (words.empty() || next[0] == '-' ? "" : " ") + next;
  };
  for (const auto& [x, y] : by) add(x), add(y);
  return "l" + words;
}

// In whole pixels, which take the fewest letters.
MarkForm form_of(PointShape shape, double r) {
  const double wide = std::round(1.2 * r), high = std::round(1.4 * r), side = std::round(1.8 * r);
  const double tall = std::round(2.2 * r), arm = std::round(2 * r);
  switch (shape) {
    case PointShape::square:
    case PointShape::open_square:
      return {-side / 2, -side / 2,
              "h" + tenths(side) + "v" + tenths(side) + "h" + tenths(-side) + "z"};
    case PointShape::triangle:
      return {0, -1.3 * r, steps({{wide, tall}}) + "h" + tenths(-2 * wide) + "z"};
    case PointShape::diamond:
      return {0, -high, steps({{wide, high}, {-wide, high}, {-wide, -high}}) + "z"};
    case PointShape::wedge:
      return {0, 1.3 * r, steps({{wide, -tall}}) + "h" + tenths(-2 * wide) + "z"};
    case PointShape::cross:
      return {-arm / 2, -arm / 2, steps({{arm, arm}}) + "m0" + tenths(-arm) + steps({{-arm, arm}}),
              1.6};
    case PointShape::none:
    case PointShape::circle:
    case PointShape::open_circle:
      break;
  }
  return {0, 0, "h0", 2 * r};
}

}  // namespace

const FigureInk& figure_ink(FigureTheme theme) {
  static const FigureInk light;
  static const FigureInk dark{"#1b1e25", "#ffffff", "#e4e7ee", "#949bab",
                              "#8a91a0", "#5a6272", "#343a47", true};
  return theme == FigureTheme::dark ? dark : light;
}

std::string SvgWriter::series(int index) const {
  Rgba color = series_color(index);
  if (!ink_.dark) return hex_of(color);
  for (auto* part : {&color.r, &color.g, &color.b}) {
    *part = static_cast<std::uint8_t>(*part + (255 - *part) / 4);
  }
  return hex_of(color);
}

SvgWriter::SvgWriter(double width, double height, FigureTheme theme) : ink_(figure_ink(theme)) {
  const std::string w = number(width), h = number(height);
  body_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", w) +
          attribute("height", h) + attribute("viewBox", "0 0 " + w + " " + h) +
          attribute("font-family", kFonts) + ">\n";
  rect(0, 0, width, height, ink_.ground);
}

void SvgWriter::put(const std::string& element) { body_ += element + "\n"; }

void SvgWriter::line(double x0, double y0, double x1, double y1, const std::string& color,
                     double width, bool dashed) {
  put("<line" + attribute("x1", number(x0)) + attribute("y1", number(y0)) +
      attribute("x2", number(x1)) + attribute("y2", number(y1)) + attribute("stroke", color) +
      attribute("stroke-width", number(width)) +
      (dashed ? attribute("stroke-dasharray", "5 4") : "") + "/>");
}

void SvgWriter::rect(double x, double y, double width, double height, const std::string& fill,
                     double opacity, const std::string& stroke) {
  put("<rect" + attribute("x", number(x)) + attribute("y", number(y)) +
      attribute("width", number(width)) + attribute("height", number(height)) +
      attribute("fill", fill) + attribute("fill-opacity", number(opacity)) +
      attribute("stroke", stroke) + "/>");
}

void SvgWriter::polyline(const SvgPoints& points, const std::string& color, double width,
                         bool dashed, double opacity) {
  put("<polyline fill=\"none\" stroke-linejoin=\"round\"" + attribute("stroke", color) +
      attribute("stroke-width", number(width)) + attribute("stroke-opacity", number(opacity)) +
      (dashed ? attribute("stroke-dasharray", "5 4") : "") +
      attribute("points", points_of(points)) + "/>");
}

void SvgWriter::polygon(const SvgPoints& points, const std::string& fill, double opacity) {
  put("<polygon" + attribute("fill", fill) + attribute("fill-opacity", number(opacity)) +
      attribute("points", points_of(points)) + "/>");
}

void SvgWriter::circle(double x, double y, double radius, const std::string& fill) {
  put("<circle" + attribute("cx", number(x)) + attribute("cy", number(y)) +
      attribute("r", number(radius)) + attribute("fill", fill) + "/>");
}

void SvgWriter::marks(const SvgPoints& places, PointShape shape, double radius,
                      const std::string& color) {
  if (places.empty() || shape == PointShape::none) return;
  const MarkForm form = form_of(shape, radius);
  const bool stroked = form.width > 0;
  std::string path;
  for (const auto& [x, y] : places) {
    path += "M" + tenths(x + form.x) + " " + tenths(y + form.y) + form.rest;
  }
  const std::string stroke =
      attribute("stroke", color) + attribute("stroke-width", number(form.width));
  put("<path" + attribute("fill", stroked ? "none" : color) +
      (stroked ? stroke + attribute("stroke-linecap", "round") : "") + attribute("d", path) + "/>");
  if (shape == PointShape::open_circle) marks(places, PointShape::circle, radius / 2, ink_.ground);
  if (shape == PointShape::open_square) marks(places, PointShape::square, radius / 2, ink_.ground);
}

void SvgWriter::image(double x, double y, double width, double height,
                      const std::string& data_uri) {
  put("<image style=\"image-rendering:pixelated\" preserveAspectRatio=\"none\"" +
      attribute("x", number(x)) + attribute("y", number(y)) + attribute("width", number(width)) +
      attribute("height", number(height)) + attribute("href", data_uri) + "/>");
}

void SvgWriter::text(double x, double y, const std::string& words, const SvgText& style) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  const std::string place = number(x) + " " + number(y);
  put("<text" + attribute("x", number(x)) + attribute("y", number(y)) +
      attribute("font-size", number(style.size)) + attribute("fill", style.color) +
      attribute("text-anchor", kAnchors[static_cast<int>(style.anchor)]) +
      (style.bold ? attribute("font-weight", "600") : "") +
      (style.upright ? "" : attribute("transform", "rotate(-90 " + place + ")")) + ">" +
      escaped(words) + "</text>");
}

void SvgWriter::begin_clip(double x, double y, double width, double height) {
  const std::string id = "clip" + std::to_string(++clips_);
  put("<clipPath" + attribute("id", id) + "><rect" + attribute("x", number(x)) +
      attribute("y", number(y)) + attribute("width", number(width)) +
      attribute("height", number(height)) + "/></clipPath>");
  put("<g" + attribute("clip-path", "url(#" + id + ")") + ">");
}

void SvgWriter::end_clip() { put("</g>"); }

std::string SvgWriter::finish() { return body_ + "</svg>\n"; }

double text_width(const std::string& words, double size) {
  std::size_t letters = 0;
  for (char c : words) letters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return static_cast<double>(letters) * size * 0.56;
}

std::vector<std::string> wrapped(const std::string& words, double size, double width) {
  std::vector<std::string> lines;
  std::istringstream stream(words);
  std::string word;
  while (stream >> word) {
    const bool fits = !lines.empty() && text_width(lines.back() + " " + word, size) <= width;
    if (fits) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace phasescope::widgets
