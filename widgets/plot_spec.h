#pragma once

// One description of a figure that ImPlot (plot_draw.h) and the SVG writer (plot_svg.h) both draw.
// Plain values only: building one never draws, drawing one never computes.
// Sections: axes, series, maps, plots, grids of maps.

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "widgets/colormap.h"
#include "widgets/hover.h"

namespace phasescope::widgets {

// --- axes ---------------------------------------------------------------------------------

enum class Scale { linear, log10 };

struct AxisTick {
  double at = 0;
  std::string label;
};

struct AxisSpec {
  std::string label;  // with its unit: "distance (tokens)"
  Scale scale = Scale::linear;
  std::optional<double> low, high;  // fitted to the data where missing
  std::vector<AxisTick> ticks;      // chosen by the drawer where empty
  // Which of the coordinates that views share its numbers are, so that what is pointed at elsewhere
  // is marked here and the other way round; and the number at which the coordinate is 0 (that of an
  // axis of "distance + 1" is 1). On a map cell c covers [c, c + 1).
  Coordinate of = Coordinate::none;
  double zero = 0;
};

// --- series -------------------------------------------------------------------------------

// line: x, y, and a shaded band where low and high are given.
// bars: x are centres, with error bars where low and high are given. histogram: x are n + 1 edges,
// y the n heights, drawn filled. scatter: x, y, with error bars where low and high are given.
enum class SeriesKind { line, bars, histogram, scatter };

// What stands at each value of a line or a scatter, so that series are told apart without their
// colours; none is a circle on a scatter. As many as there are colours of series.
enum class PointShape {
  none,
  circle,
  square,
  triangle,
  diamond,
  wedge,
  cross,
  open_circle,
  open_square
};

struct Series {
  std::string label;
  SeriesKind kind = SeriesKind::line;
  std::vector<double> x, y;
  std::vector<double> low, high;  // empty, or as long as y; NaN where there is no interval
  int color = 0;                  // index for series_color
  double width = 1.6;             // of the line, in pixels
  bool dashed = false;
  bool in_legend = true;
  bool quiet = false;  // published figures: thin and pale, never mistaken for measured ones
  PointShape points = PointShape::none;  // of a line or a scatter
  // Radii of a scatter's points in pixels, whatever their shape, or none: all are of one size.
  std::vector<double> sizes = {};
  // One a point, said where the pointer is at it, or none: "L3H5". Not part of the figure's files.
  std::vector<std::string> names = {};
};

// A labelled line across the plot: the trained length, a mean, zero.
struct Marker {
  double at = 0;
  bool vertical = true;
  std::string label;
  int color = -1;       // -1: the colour of the axes
  bool beyond = false;  // of a vertical one: what lies to its right is shaded
};

// --- maps ---------------------------------------------------------------------------------

// A grid of values, row 0 at the top, column 0 at the left. kMaskedCell and what else is not finite
// have their own colours. rows * cols values, row-major.
struct MapSpec {
  int rows = 0, cols = 0;
  std::vector<float> values;
  double row_begin = 0, row_end = 0;  // queries covered; row_end 0 means rows
  double col_begin = 0, col_end = 0;  // keys covered
  Colormap colormap = Colormap::weights;
  ValueRange range;         // what the ends of the colour scale mean; always printed
  std::string value_label;  // "weight", "score"
  int log_decades = 0;      // above 0: a log scale over so many decades below range.high
  std::string row_name = "query", col_name = "key";
  // Where a cell is one sample of what it covers: the place that row n and column n are of.
  std::vector<double> samples;
  // One number of each row more, which is of no column: a strip at the right of the map in its
  // colours. Empty, or one a row.
  std::vector<float> margin = {};
  std::string margin_name = {};  // "learned sink"
};
// The margin alone, as a map of one column.
MapSpec margin_of(const MapSpec& map);
// The place that row n or column n of a map is of: its sample, or where it begins.
double row_place(const MapSpec& map, int row);
double col_place(const MapSpec& map, int col);

// Where a value stands on the map's colour scale, 0 to 1 inside its range.
double scale_place(const MapSpec& map, double value);
// The colour of one cell: mask, NaN, linear or log scale.
Rgba cell_color(const MapSpec& map, double value);
// "0 .. 1", "log, 0.0001 .. 1": what is printed beside every map.
std::string scale_text(const MapSpec& map);

// Cells that have no place on the scale: hidden by the mask, or not finite for another reason.
struct CellMarks {
  std::size_t masked = 0, not_finite = 0;
};
CellMarks marks_of(const std::vector<float>& values);
// "grey: masked; magenta: 3 cells are NaN or infinite"; empty where every cell has its number.
std::string marks_text(const CellMarks& marks);
// The scale and the marks of a map, as printed under it.
std::string scale_note(const MapSpec& map);

// --- plots --------------------------------------------------------------------------------

struct PlotSpec {
  std::string id;  // names files and widgets: "distance_histogram"
  std::string title;
  AxisSpec x, y;
  std::vector<Series> series;
  std::vector<Marker> markers;
  std::optional<MapSpec> map;      // drawn below the series
  std::vector<std::string> notes;  // formula, number of samples; printed under the plot
  bool legend = true;
  // Both axes are of one quantity, and one unit is as long on either: a circle is round.
  bool equal_axes = false;
};

// Runs [begin, end) of points of a series that have both ends of an interval, the upper one above 0
// on a log axis.
std::vector<std::pair<std::size_t, std::size_t>> band_runs(const Series& series,
                                                           Scale scale = Scale::linear);
// Where the lower end of an interval is drawn: one of 0 or below has no place on a log axis, and
// the band goes on to where that ends.
double drawn_low(double low, Scale scale, double axis_end);
// The two edges of a run's band on axes of these scales. Next to a lower end that has no place they
// have a point more, half way on the picture, where the lower edge drops to the end of the axis: a
// slope to there would say that the ends between the two points fall slowly.
struct BandEdges {
  std::vector<double> x, low, high;
};
BandEdges band_edges(const Series& series, std::pair<std::size_t, std::size_t> run, Scale x_scale,
                     Scale y_scale, double axis_end);

// --- grids of maps and of small plots -----------------------------------------------------

struct GridCell {
  MapSpec map;
  std::string caption;  // "L3H5  1.86"
  std::optional<PlotSpec> plot =
      {};  // in place of the map: small, without its title, legend and notes
};

// Thumbnails, layers down and heads across: cells are row-major, `columns` to a row. Plots are to
// have the same axes, whose labels stand once below them all.
struct GridSpec {
  std::string id, title;
  int columns = 1;
  std::vector<GridCell> cells;
  std::vector<std::string> notes;
};

enum class FigureTheme { light, dark };

struct PixelSize {
  int width = 720;
  int height = 420;
};

// A short readable number: 4 significant digits, 1e6 for large ones, "nan" and "inf" as words.
std::string short_number(double value);

// A map with so few rows and columns is read as a table: exported figures have a number in each
// cell.
inline constexpr int kReadableCells = 16;

// Ticks at round places inside [low, high], about `wanted` of them; powers of ten on a log axis.
std::vector<AxisTick> nice_ticks(double low, double high, Scale scale, int wanted = 6);

// The range an axis shows: its own limits, else those of the finite data with a small margin.
// `vertical` chooses between y (with bands) and x. A log axis ignores values of 0 and below.
ValueRange axis_range(const PlotSpec& plot, bool vertical);

struct AxisRanges {
  ValueRange x, y;
};
// The ranges of both axes in a frame of this size. Of equal axes the one that has room to spare is
// widened on both sides, whatever its limits are; equal axes are linear.
AxisRanges axis_ranges(const PlotSpec& plot, double width, double height);

// Smallest and largest finite value of a grid; {0, 1} when it has none.
ValueRange value_range(const std::vector<float>& values);

}  // namespace phasescope::widgets
