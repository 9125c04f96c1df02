#pragma once
// What a verb produces, and how it reaches the terminal and files.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/tensor.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// What a cell {"value", "low", "high", "mark"} may be marked as: the best of what it is compared
// with, or held by the best's interval. Bold and underlined on pages, * and + on the terminal.
inline constexpr const char *kBestMark = "best", *kWithinMark = "within";
std::string mark_of(const nlohmann::json& cell);  // empty for none

// Rows of cells for people: columns are keys of the rows' JSON objects.
struct Table {
  std::string title;
  std::vector<std::string> columns;
  nlohmann::json rows = nlohmann::json::array();
  std::vector<std::string> notes;
  // Columns of numbers shown with five digits and a unit, "361.44 G".
  std::vector<std::string> counts = {};
  bool for_files = false;  // exported, not printed: too long for a terminal
  // Titles with units for columns whose names people would not read. Files have the names.
  std::map<std::string, std::string> headings = {};
  const std::string& heading(const std::string& column) const {
    const auto found = headings.find(column);
    return found == headings.end() ? column : found->second;
  }
};

// A file beside what --out names, written as it is.
struct TextFile {
  std::filesystem::path path;
  std::string text;
};

struct Output {
  nlohmann::json result;  // the one JSON document of --json
  // What makes it repeatable, for the sidecars of its files: JSON forms of Provenance.
  nlohmann::json provenance = nlohmann::json::array();
  std::vector<Table> tables;
  std::vector<widgets::PlotSpec> figures;
  std::vector<widgets::GridSpec> grids;
  std::vector<protocol::TensorRef> tensors;
  std::string without_tensors;  // why there are none this time, where a command may have some
  std::vector<TextFile> files;
  std::string text;   // printed as it is, before the tables
  std::string page;   // Markdown that --out FILE.md has in place of the tables
  bool whole = true;  // false where a command goes on with what is left when it is given again
  int status = 0;     // 1 where a check or verdict failed
};

// Text that may be anybody's, as a terminal may have it. A character of control, which could move
// the cursor, rename the window or paint over what stands there, becomes its escape, "\x1b", and
// so does a byte that is no UTF-8. Breaks of lines and tabs stay where they are `kept`.
enum class Breaks { kept, escaped };
std::string for_terminal(std::string_view text, Breaks breaks = Breaks::kept);

// A cell as people read it: numbers short, counts with their unit, an interval with its ends, "-"
// for nothing.
std::string cell_text(const Table& table, const nlohmann::json& row, const std::string& column);
// Columns aligned, numbers short; what --json has in full.
std::string text_of(const Table& table);
std::string csv_of(const Table& table);
// Its title as a heading of the second order, its rows and its notes.
std::string markdown_of(const Table& table);

// What goes beside a file: the command line that makes it again and what made the results in it.
nlohmann::json sidecar_of(const std::string& command, const nlohmann::json& provenance);

// Writes an output to a file whose extension chooses the form (.json .csv .md .svg .pdf .png .npy
// .safetensors), or into a folder in every form it has. The command that makes it again and all
// provenance stand in "made_by" of a .json; beside any other FILE in FILE.json, and of a folder in
// result.json and in ID.json of each figure. Throws Error "bad_usage" for a form that this output
// does not have, naming those it has.
void export_output(const Output& output, const std::filesystem::path& path,
                   const nlohmann::json& sidecar);

// Before anything is computed: is `path` a form that is known and not among `missing` (".npy
// .svg"), in a place that can be written? Throws Error "bad_usage" or "bad_input" if not.
void require_writable_form(const std::filesystem::path& path, const std::string& missing = "");
// The place alone, of a file or a folder that need not be there. Throws Error "bad_input".
void require_writable_place(const std::filesystem::path& folder);

// What a single picture leaves out, for a line on the terminal; empty where it is all there is.
std::string what_else(const Output& output, const std::filesystem::path& path);

// One figure in every form into a folder: ID.svg, ID.png where it can be made, ID.csv, and ID.json,
// which has the figure's data and says how they were made.
void export_figure(const widgets::PlotSpec& figure, const std::filesystem::path& folder,
                   const nlohmann::json& sidecar);
void export_grid(const widgets::GridSpec& grid, const std::filesystem::path& folder,
                 const nlohmann::json& sidecar);

// An SVG as PDF (fonts embedded, no date of the day) or PNG bytes, a PNG of `zoom` pixels a pixel,
// by the library librsvg. Throws Error "bad_input" that names the Debian package without it.
std::string convert_svg(const std::string& svg, const std::string& format, double zoom = 2);
// Whether that library is there.
bool can_convert_svg();

}  // namespace phasescope::app
