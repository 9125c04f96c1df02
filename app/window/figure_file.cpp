#include "app/window/figure_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "app/figures/plot_json.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "formats/tensors/npy.h"
#include "widgets/plot_svg.h"
#include "widgets/plot_table.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using widgets::GridSpec;
using widgets::PlotSpec;

// Pixels of a page to the inch.
constexpr double kPageDpi = 96;

std::string svg_in_form(const Figure& figure, const FigureForm& form) {
  const auto theme =
      form.theme == "dark" ? widgets::FigureTheme::dark : widgets::FigureTheme::light;
  const int width = static_cast<int>(form.width), height = static_cast<int>(form.height);
  if (const auto* plot = std::get_if<PlotSpec>(&figure)) {
    return widgets::svg_of(*plot, {width, height}, theme);
  }
  return widgets::svg_of(std::get<GridSpec>(figure), width, theme);
}

json data_of(const Figure& figure) {
  return std::visit([](const auto& one) { return json_of(one); }, figure);
}

// (cells, rows, columns), where all cells are alike.
void write_grid_array(formats::FileSystem& files, const fs::path& path, const GridSpec& grid) {
  if (grid.cells.empty()) throw formats::bad_input("there is no picture to write as an array");
  if (grid.cells.front().plot) {
    throw formats::bad_input("small plots are not one array", path.string(), "write .csv or .json");
  }
  const widgets::MapSpec& first = grid.cells.front().map;
  std::vector<float> values;
  for (const widgets::GridCell& cell : grid.cells) {
    if (cell.map.rows != first.rows || cell.map.cols != first.cols) {
      throw formats::bad_input("pictures of different sizes are not one array", path.string(),
                               "write .csv or .json");
    }
    values.insert(values.end(), cell.map.values.begin(), cell.map.values.end());
  }
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(grid.cells.size()), first.rows,
                                        first.cols};
  formats::write_npy(files, path, std::span<const float>(values), shape);
}

double end_of(const std::vector<double>& ends, std::size_t i) {
  return i < ends.size() ? ends[i] : std::nan("");
}

// A histogram's points are its bins; what closes the last one stands in a point without a height.
void write_plot_array(formats::FileSystem& files, const fs::path& path, const PlotSpec& plot) {
  if (plot.map && plot.series.empty()) {
    const std::vector<std::int64_t> shape{plot.map->rows, plot.map->cols};
    return formats::write_npy(files, path, std::span<const float>(plot.map->values), shape);
  }
  std::vector<double> values;
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const widgets::Series& series = plot.series[s];
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      values.insert(values.end(), {static_cast<double>(s), series.x[i], end_of(series.y, i),
                                   end_of(series.low, i), end_of(series.high, i)});
    }
  }
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size() / 5), 5};
  formats::write_npy(files, path, std::span<const double>(values), shape);
}

}  // namespace

const std::vector<std::string>& figure_formats() {
  static const std::vector<std::string> all{"svg", "pdf", "png", "csv", "json", "npy"};
  return all;
}

std::string words_of_format(const std::string& format) {
  static const std::map<std::string, std::string> words{
      {"svg", "a drawing that any vector graphics program can edit"},
      {"pdf", "a drawing for a paper"},
      {"png", "a picture of so many pixels"},
      {"csv", "the numbers, a line a point"},
      {"json", "the numbers with everything that is known of them"},
      {"npy",
       "the numbers as an array: of a map its cells; of curves (points, 5), the number of "
       "the curve, x, y and the ends of the interval"}};
  const auto found = words.find(format);
  return found == words.end() ? "" : found->second;
}

std::vector<FigureToSave> figures_of(const std::vector<Saved>& saved) {
  std::vector<FigureToSave> all;
  for (const Saved& one : saved) {
    const auto add = [&](Figure figure) {
      all.push_back({std::move(figure), one.folder, one.command, one.output.provenance});
    };
    for (const PlotSpec& plot : one.output.figures) add(plot);
    for (const GridSpec& grid : one.output.grids) add(grid);
  }
  return all;
}

std::string title_of(const Figure& figure) {
  return std::visit([](const auto& one) { return one.title.empty() ? one.id : one.title; }, figure);
}

std::string file_name_of(const FigureToSave& figure, const FigureForm& form) {
  const std::string id = std::visit([](const auto& one) { return one.id; }, figure.figure);
  const bool told = figure.folder.empty() || id.find(figure.folder) != std::string::npos;
  return (told ? id : figure.folder + "__" + id) + "." + form.format;
}

std::string figure_bytes(const FigureToSave& figure, const FigureForm& form) {
  if (form.format == "svg") return svg_in_form(figure.figure, form);
  if (form.format == "pdf" || form.format == "png") {
    return convert_svg(svg_in_form(figure.figure, form), form.format,
                       static_cast<double>(form.dpi) / kPageDpi);
  }
  if (form.format == "csv") {
    return std::visit([](const auto& one) { return widgets::csv_of(one); }, figure.figure);
  }
  if (form.format == "json") {
    json data = data_of(figure.figure);
    data["provenance"] = sidecar_of(figure.command, figure.provenance);
    return data.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  throw formats::bad_input("a figure has no format \"" + form.format + "\"");
}

fs::path sidecar_place(const fs::path& path) { return path.string() + ".json"; }

fs::path whole_folder(const std::string& typed) {
  const char* home = std::getenv("HOME");
  const bool own = home && (typed == "~" || typed.starts_with("~/"));
  if (own) return (fs::path(home) / fs::path(typed.substr(1)).relative_path()).lexically_normal();
  return fs::absolute(typed.empty() ? "." : typed).lexically_normal();
}

void write_figure(formats::FileSystem& files, const fs::path& path, const FigureToSave& figure,
                  const FigureForm& form, const json& session) {
  if (path.has_parent_path()) formats::make_directories(files, path.parent_path());
  if (form.format != "npy") {
    formats::write_file_atomically(files, path, std::string_view(figure_bytes(figure, form)));
  } else if (const auto* plot = std::get_if<PlotSpec>(&figure.figure)) {
    write_plot_array(files, path, *plot);
  } else {
    write_grid_array(files, path, std::get<GridSpec>(figure.figure));
  }
  json sidecar = sidecar_of(figure.command, figure.provenance);
  sidecar[kSessionOfFigure] = session;
  const std::string text = sidecar.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  formats::write_file_atomically(files, sidecar_place(path), std::string_view(text));
}

}  // namespace phasescope::app
