#pragma once
// One figure in one file, as the export dialog asks for it.
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "app/window/saved.h"
#include "formats/file_system.h"

namespace phasescope::app {

// Kept in the session: the next figure is saved like the last one.
struct FigureForm {
  static constexpr const char* kView = "export";
  std::string format = "svg";              // of figure_formats()
  std::string theme = "light";             // of the page, not of the window
  std::int64_t width = 720, height = 420;  // in pixels of 1/96 inch; a map is as high as it is long
  std::int64_t dpi = 192;                  // of a PNG
  std::string folder = "phasescope-figures";
  template <class V>
  void fields(V& v) {
    v("format", format), v("theme", theme), v("width", width), v("height", height);
    v("dpi", dpi), v("folder", folder);
  }
};
const std::vector<std::string>& figure_formats();
// What a format holds, in words.
std::string words_of_format(const std::string& format);

using Figure = std::variant<widgets::PlotSpec, widgets::GridSpec>;

// A figure among what a view shows, with what made it.
struct FigureToSave {
  Figure figure;
  std::string folder, command;
  nlohmann::json provenance;
};
std::vector<FigureToSave> figures_of(const std::vector<Saved>& saved);
std::string title_of(const Figure& figure);
// "distance_histogram.svg", behind the folder that tells several apart: "rope__map.svg".
std::string file_name_of(const FigureToSave& figure, const FigureForm& form);

// The figure's bytes in a form. An array (npy) is that of a map; of curves it is (points, 5), f64:
// the number of the curve, x, y and the ends of the interval, NaN where there is none. Throws Error
// "bad_input" for a form that the figure does not have, or where the program that makes PDF and PNG
// is not there.
std::string figure_bytes(const FigureToSave& figure, const FigureForm& form);
// FILE.json beside it, which has what made it.
std::filesystem::path sidecar_place(const std::filesystem::path& path);
// The folder that was typed, from the root on: "~/" is the user's own, and one without a slash at
// its beginning is in the folder that the program was started in.
std::filesystem::path whole_folder(const std::string& typed);
// Into a file, with the command and `session` in the sidecar.
void write_figure(formats::FileSystem& files, const std::filesystem::path& path,
                  const FigureToSave& figure, const FigureForm& form,
                  const nlohmann::json& session);

}  // namespace phasescope::app
