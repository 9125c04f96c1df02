#include "widgets/plot_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace phasescope::widgets {
namespace {

std::string exact(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string optional_at(const std::vector<double>& values, std::size_t i) {
  return i < values.size() && !std::isnan(values[i]) ? exact(values[i]) : "";
}

std::string lines_of(const Series& series) {
  std::string text;
  const std::string name = csv_quoted(series.label);
  for (std::size_t i = 0; i < series.y.size() && i < series.x.size(); ++i) {
    text += name + "," + exact(series.x[i]) + "," + exact(series.y[i]) + "," +
            optional_at(series.low, i) + "," + optional_at(series.high, i) + "\n";
  }
  // A histogram has one edge more than heights: its last edge closes the last bin.
  if (series.kind == SeriesKind::histogram && series.x.size() == series.y.size() + 1) {
    text += name + "," + exact(series.x.back()) + ",,,\n";
  }
  return text;
}

}  // namespace

std::string csv_quoted(const std::string& words) {
  if (words.find_first_of(",\"\n\r") == std::string::npos) return words;
  std::string out = "\"";
  for (char c : words) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_of(const MapSpec& map) {
  std::string text = csv_quoted(map.row_name) + "," + csv_quoted(map.col_name) + "," +
                     (map.value_label.empty() ? "value" : csv_quoted(map.value_label));
  text += "\n";
  for (int r = 0; r < map.rows; ++r) {
    for (int c = 0; c < map.cols; ++c) {
      text += exact(row_place(map, r)) + "," + exact(col_place(map, c)) + "," +
              exact(map.values[static_cast<std::size_t>(r) * map.cols + c]) + "\n";
    }
  }
  for (std::size_t r = 0; r < map.margin.size(); ++r) {
    text += exact(row_place(map, static_cast<int>(r))) + "," + csv_quoted(map.margin_name) + "," +
            exact(map.margin[r]) + "\n";
  }
  return text;
}

namespace {

std::string first_word(const std::string& caption) { return caption.substr(0, caption.find(' ')); }

std::string csv_of_plots(const GridSpec& grid) {
  std::string text = "cell,series,x,y,low,high\n";
  for (const GridCell& cell : grid.cells) {
    if (!cell.plot) continue;
    for (const Series& series : cell.plot->series) {
      std::istringstream lines(lines_of(series));
      for (std::string line; std::getline(lines, line);) {
        text += csv_quoted(first_word(cell.caption)) + "," + line + "\n";
      }
    }
  }
  return text;
}

}  // namespace

std::string csv_of(const GridSpec& grid) {
  if (!grid.cells.empty() && grid.cells.front().plot) return csv_of_plots(grid);
  std::string text = "cell,row,column,value\n";
  for (const GridCell& cell : grid.cells) {
    const std::string name = first_word(cell.caption);
    for (int r = 0; r < cell.map.rows; ++r) {
      for (int c = 0; c < cell.map.cols; ++c) {
        char number[32];
        std::snprintf(number, sizeof number, "%.9g",
                      cell.map.values[static_cast<std::size_t>(r) * cell.map.cols + c]);
        text += name + "," + std::to_string(r) + "," + std::to_string(c) + "," + number + "\n";
      }
    }
  }
  return text;
}

std::string csv_of(const PlotSpec& plot) {
  if (plot.map && plot.series.empty()) return csv_of(*plot.map);
  std::string text = "series,x,y,low,high\n";
  for (const Series& series : plot.series) text += lines_of(series);
  return text;
}

}  // namespace phasescope::widgets
