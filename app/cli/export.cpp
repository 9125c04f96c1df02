#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/output.h"
#include "app/cli/page.h"
#include "app/figures/figures.h"
#include "app/figures/plot_json.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/tensors/npy.h"
#include "formats/tensors/safetensors.h"
#include "formats/unique_fd.h"
#include "protocol/messages/provenance.h"
#include "widgets/plot_svg.h"
#include "widgets/plot_table.h"

namespace phasescope::app {

namespace fs = std::filesystem;
using formats::bad_usage;
using formats::real_file_system;
using nlohmann::json;

namespace {

// The command line in a sidecar may hold bytes that are not UTF-8; they become U+FFFD.
std::string document(const json& value, int indent = 1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

void write_text(const fs::path& path, std::string_view text) {
  formats::write_file_atomically(real_file_system(), path, text);
}

void write_with_sidecar(const fs::path& path, std::string_view bytes, const json& sidecar) {
  write_text(path, bytes);
  write_text(path.string() + ".json", document(sidecar) + "\n");
}

// A result with what its sidecar would say. A list has no place for that, so it is wrapped.
std::string document_of_result(const json& result, const json& sidecar) {
  json whole = result.is_array() ? json{{"items", result}} : result;
  whole["made_by"] = sidecar;
  return document(whole) + "\n";
}

constexpr const char* kForms[] = {".json", ".csv", ".md",  ".svg",
                                  ".pdf",  ".png", ".npy", ".safetensors"};

// A list of words with spaces has this one.
bool has_word(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

// "use .json, .csv or a folder".
std::string forms_but(const std::string& missing) {
  std::string text = "use";
  for (const char* form : kForms) {
    if (!has_word(missing, form)) text += std::string(text == "use" ? " " : ", ") + form;
  }
  return text + " or a folder";
}

// "out/v1.5/" and a folder that is there already are folders, whatever their names end in.
bool is_folder(const fs::path& path) { return path.extension().empty() || fs::is_directory(path); }

formats::Error unknown_form(const fs::path& path) {
  return bad_usage("no known format has files that end in \"" + path.extension().string() + "\"",
                   path.string(), forms_but(""));
}

std::string svg_of_output(const Output& output, const fs::path& path) {
  if (!output.grids.empty()) return widgets::svg_of(output.grids.front());
  if (!output.figures.empty()) return widgets::svg_of(output.figures.front());
  throw bad_usage("this verb has no figure", path.string(), "write .json or .csv");
}

void write_npy_file(const Output& output, const fs::path& path) {
  if (output.tensors.empty()) {
    throw bad_usage("this verb has no array to write as .npy", path.string());
  }
  const protocol::TensorRef& tensor = output.tensors.front();
  auto& files = real_file_system();
  if (tensor.dtype == "F64") {
    formats::write_npy(files, path, tensor.values<double>(), tensor.shape);
  } else if (tensor.dtype == "I64") {
    formats::write_npy(files, path, tensor.values<std::int64_t>(), tensor.shape);
  } else {
    formats::write_npy(files, path, tensor.values<float>(), tensor.shape);
  }
}

void write_safetensors_file(const Output& output, const fs::path& path, const json& sidecar) {
  if (output.tensors.empty()) {
    const std::string& why = output.without_tensors;
    throw bad_usage(why.empty() ? "this verb has no tensors to write" : why, path.string());
  }
  std::vector<formats::TensorToWrite> tensors;
  for (const protocol::TensorRef& tensor : output.tensors) {
    tensors.push_back(
        {tensor.name, formats::dtype_from_name(tensor.dtype), tensor.shape, tensor.bytes()});
  }
  formats::write_safetensors(real_file_system(), path, tensors,
                             {{"phasescope", document(sidecar, -1)}});
}

std::string tables_as_csv(const Output& output, const fs::path& path) {
  if (!output.tables.empty()) return csv_of(output.tables.front());
  if (!output.figures.empty()) return widgets::csv_of(output.figures.front());
  throw bad_usage("this verb has no table", path.string(), "write .json");
}

// The command stands in the page itself.
std::string page_of(const Output& output, const fs::path& path, const json& sidecar) {
  std::string text = output.page;
  if (text.empty()) {
    if (output.tables.empty()) throw bad_usage("this verb has no table", path.string());
    text = "# Phasescope\n";
    for (const Table& table : output.tables) text += "\n" + markdown_of(table);
  }
  return text + "\nMade by `" + sidecar.value("command", "") + "`.\n";
}

// The id, with a number behind it where a figure before this one has that id too.
std::string file_of_its_own(const std::string& id, std::map<std::string, int>& written) {
  const int count = ++written[id];
  return count == 1 ? id : id + "__" + std::to_string(count);
}

// The folder's own page: the command, every table, every figure with links to its files.
void write_page(const Output& output, const fs::path& folder, const json& sidecar) {
  Page page(folder, "Phasescope");
  page.verbatim(sidecar.value("command", ""));
  for (const Table& table : output.tables) {
    if (!table.for_files) page.table(table);
  }
  for (const widgets::GridSpec& grid : output.grids) page.drawn(widgets::svg_of(grid), grid.id);
  for (const widgets::PlotSpec& figure : output.figures) {
    page.drawn(widgets::svg_of(figure), figure.id);
  }
  page.finish();
}

void export_folder(Output output, const fs::path& folder, const json& sidecar) {
  formats::make_directories(real_file_system(), folder);
  write_text(folder / "result.json", document_of_result(output.result, sidecar));
  for (std::size_t i = 0; i < output.tables.size(); ++i) {
    const std::string name = i == 0 ? "table.csv" : "table_" + std::to_string(i) + ".csv";
    write_text(folder / name, csv_of(output.tables[i]));
  }
  std::map<std::string, int> written;
  for (widgets::PlotSpec& figure : output.figures) {
    figure.id = file_of_its_own(figure.id, written);
    export_figure(figure, folder, sidecar);
  }
  for (widgets::GridSpec& grid : output.grids) {
    grid.id = file_of_its_own(grid.id, written);
    export_grid(grid, folder, sidecar);
  }
  write_page(output, folder, sidecar);
  if (!output.page.empty()) write_text(folder / "page.md", page_of(output, folder, sidecar));
  if (output.tensors.empty()) return;
  write_safetensors_file(output, folder / "tensors.safetensors", sidecar);
}

// `output` with what weights were stored as under every figure.
Output with_weights_named(Output output, const std::vector<std::string>& weights) {
  const auto name = [&weights](std::vector<std::string>& notes) {
    for (const std::string& one : weights) {
      const auto says = [&one](const std::string& note) { return note.find(one) != note.npos; };
      if (std::ranges::none_of(notes, says)) notes.push_back(one);
    }
  };
  for (widgets::PlotSpec& figure : output.figures) name(figure.notes);
  for (widgets::GridSpec& grid : output.grids) name(grid.notes);
  return output;
}

std::vector<std::string> weights_in(const json& provenance) {
  std::vector<std::string> all;
  for (const json& one : provenance) {
    const auto made = protocol::from_json_form<protocol::Provenance>(one);
    for (std::string& weights : notes_of_weights(made.note)) {
      if (std::ranges::find(all, weights) == all.end()) all.push_back(std::move(weights));
    }
  }
  return all;
}

void write_output(const Output& output, const fs::path& path, const json& sidecar) {
  const std::string extension = path.extension().string();
  if (is_folder(path)) return export_folder(output, path, sidecar);
  if (path.has_parent_path()) formats::make_directories(real_file_system(), path.parent_path());
  if (extension == ".json") return write_text(path, document_of_result(output.result, sidecar));
  if (extension == ".csv") return write_with_sidecar(path, tables_as_csv(output, path), sidecar);
  if (extension == ".md") return write_text(path, page_of(output, path, sidecar));
  if (extension == ".svg") return write_with_sidecar(path, svg_of_output(output, path), sidecar);
  if (extension == ".pdf" || extension == ".png") {
    const std::string svg = svg_of_output(output, path);
    return write_with_sidecar(path, convert_svg(svg, extension.substr(1)), sidecar);
  }
  if (extension == ".npy") {
    write_npy_file(output, path);
  } else if (extension == ".safetensors") {
    write_safetensors_file(output, path, sidecar);
  } else {
    throw unknown_form(path);
  }
  write_text(path.string() + ".json", document(sidecar) + "\n");
}

}  // namespace

json sidecar_of(const std::string& command, const json& provenance) {
  return {{"command", command}, {"program", "phasescope"}, {"provenance", provenance}};
}

void require_writable_form(const fs::path& path, const std::string& missing) {
  if (path == "-") {
    throw bad_usage("files are written, not standard output", "--out",
                    "give --json without --out, or ./- for a folder that is called -");
  }
  const fs::path place = fs::absolute(path).lexically_normal();
  if (is_folder(path)) return require_writable_place(place);
  const std::string form = path.extension().string();
  if (std::ranges::find(kForms, form) == std::end(kForms)) throw unknown_form(path);
  if (has_word(missing, form)) {
    throw bad_usage("this command has nothing to write as " + form, path.string(),
                    forms_but(missing));
  }
  require_writable_place(place.parent_path());
}

void require_writable_place(const fs::path& folder) {
  fs::path place = fs::absolute(folder).lexically_normal();
  while (!fs::exists(place) && place.has_relative_path()) place = place.parent_path();
  if (!fs::is_directory(place)) {
    throw formats::bad_input("this is a file, and a folder is needed to write into",
                             place.string());
  }
  // Permission alone says too little: folders of /proc take no file from anybody.
  std::string probe = (place / ".phasescope-XXXXXX").string();
  const formats::UniqueFd file(mkostemp(probe.data(), O_CLOEXEC));
  if (!file) {
    throw formats::bad_input("this folder cannot be written to: " + std::string(strerror(errno)),
                             place.string(), "name another place");
  }
  unlink(probe.c_str());
}

std::string what_else(const Output& output, const fs::path& path) {
  const std::string form = path.extension().string();
  const std::size_t pictures = output.figures.size() + output.grids.size();
  if (is_folder(path) && pictures > 0 && !can_convert_svg()) {
    return " (no PNG: librsvg is not there; apt install librsvg2-2)";
  }
  if (is_folder(path) || pictures < 2 || (form != ".svg" && form != ".pdf" && form != ".png")) {
    return "";
  }
  return " (the first of " + std::to_string(pictures) + " figures; --out FOLDER writes all)";
}

namespace {

// A figure in every form; its JSON is the sidecar of all of them.
void export_forms(const fs::path& folder, const std::string& id, const std::string& svg,
                  const std::string& csv, json data, const json& sidecar) {
  write_text(folder / (id + ".svg"), svg);
  if (can_convert_svg()) write_text(folder / (id + ".png"), convert_svg(svg, "png"));
  write_text(folder / (id + ".csv"), csv);
  data["provenance"] = sidecar;
  write_text(folder / (id + ".json"), document(data) + "\n");
}

}  // namespace

void export_figure(const widgets::PlotSpec& figure, const fs::path& folder, const json& sidecar) {
  export_forms(folder, figure.id, widgets::svg_of(figure), widgets::csv_of(figure), json_of(figure),
               sidecar);
}

void export_grid(const widgets::GridSpec& grid, const fs::path& folder, const json& sidecar) {
  export_forms(folder, grid.id, widgets::svg_of(grid), widgets::csv_of(grid), json_of(grid),
               sidecar);
}

void export_output(const Output& output, const fs::path& path, const json& sidecar) {
  const std::vector<std::string> weights = weights_in(output.provenance);
  if (weights.empty()) return write_output(output, path, sidecar);
  write_output(with_weights_named(output, weights), path, sidecar);
}

}  // namespace phasescope::app
