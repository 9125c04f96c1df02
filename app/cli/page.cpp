#include "app/cli/page.h"

#include "formats/file_system.h"
#include "protocol/messages/provenance.h"
#include "widgets/plot_svg.h"

namespace phasescope::app {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kStyle = R"css(
:root { --ink: #1b1f27; --quiet: #5b6472; --paper: #ffffff; --panel: #f5f6f8; --line: #d9dde3;
        --accent: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --quiet: #9aa4b2; --paper: #14171c; --panel: #1c2027; --line: #323945;
          --accent: #7fb0ff; }
}
body { font: 15px/1.5 Inter, "Helvetica Neue", Arial, sans-serif; color: var(--ink);
       background: var(--paper); max-width: 1180px; margin: 0 auto; padding: 32px 24px 80px; }
h1 { font-size: 26px; margin: 0 0 4px; }
h3 { font-size: 14px; margin: 18px 0 4px; }
h2 { font-size: 19px; margin: 44px 0 6px; border-top: 1px solid var(--line); padding-top: 18px; }
p { margin: 6px 0; max-width: 900px; } .quiet, .notes { color: var(--quiet); font-size: 13px; }
nav { color: var(--quiet); font-size: 13px; margin-top: 10px; }
.notes a { color: var(--accent); }
nav a { color: var(--accent); margin-right: 14px; text-decoration: none; }
pre { background: var(--panel); padding: 12px; white-space: pre-wrap; font-size: 13px;
      font-family: "JetBrains Mono", monospace; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 10px 0; font-size: 13px;
        font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: left; border-bottom: 1px solid var(--line);
         vertical-align: top; }
th { color: var(--quiet); font-weight: 600; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); gap: 14px; }
figure { margin: 10px 0; background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
         padding: 8px; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: 12px; color: #5b6472; } figcaption a { color: #1f5fbf; }
)css";

std::string anchor(int section) { return "s" + std::to_string(section); }

// The XML declaration and doctype of a stand-alone SVG have no place inside a page. Ids are the
// whole page's: a figure that has one in common with an earlier figure would be clipped by that
// one's frame.
std::string inline_svg(const std::string& svg, int figure) {
  const std::size_t begin = svg.find("<svg");
  std::string text = begin == std::string::npos ? svg : svg.substr(begin);
  const std::string prefix = "f" + std::to_string(figure) + "_";
  for (const std::string before : {" id=\"", "url(#"}) {
    for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
      at += before.size();
      text.insert(at, prefix);
    }
  }
  return text;
}

std::string cell_html(const json& value) {
  if (value.is_null()) return "&ndash;";
  if (value.is_string()) return html_escaped(value.get<std::string>());
  if (value.is_number_float()) return widgets::short_number(value.get<double>());
  if (const json* number = protocol::value_of_interval(value)) {
    const std::string text =
        cell_html(*number) + " [" + cell_html(value["low"]) + ", " + cell_html(value["high"]) + "]";
    const std::string mark = mark_of(value);
    if (mark == kBestMark) return "<b>" + text + "</b>";
    return mark == kWithinMark ? "<u>" + text + "</u>" : text;
  }
  return html_escaped(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

std::string html_escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Page::Page(fs::path folder, std::string title)
    : folder_(std::move(folder)), title_(std::move(title)) {}

void Page::section(const std::string& title, const std::string& lead) {
  end_row();
  if (title == section_title_) return;
  section_title_ = title;
  const std::string id = anchor(++sections_);
  contents_ += "<a href=\"#" + id + "\">" + html_escaped(title) + "</a>";
  body_ += "<h2 id=\"" + id + "\">" + html_escaped(title) + "</h2>\n";
  if (!lead.empty()) body_ += "<p class=\"quiet\">" + html_escaped(lead) + "</p>\n";
}

void Page::paragraph(const std::string& text) { body_ += "<p>" + html_escaped(text) + "</p>\n"; }

void Page::verbatim(const std::string& text) { body_ += "<pre>" + html_escaped(text) + "</pre>\n"; }

void Page::table(const Table& table, const json& sidecar, const std::string& name) {
  if (!table.title.empty()) body_ += "<h3>" + html_escaped(table.title) + "</h3>\n";
  body_ += "<div class=\"scroll\"><table><tr>";
  for (const std::string& column : table.columns) {
    body_ += "<th>" + html_escaped(table.heading(column)) + "</th>";
  }
  body_ += "</tr>\n";
  for (const json& row : table.rows) {
    body_ += "<tr>";
    for (const std::string& column : table.columns) {
      const auto found = row.find(column);
      body_ += "<td>" + cell_html(found == row.end() ? json() : *found) + "</td>";
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
  for (const std::string& note : table.notes) {
    if (!note.empty()) body_ += "<p class=\"notes\">" + html_escaped(note) + "</p>\n";
  }
  if (name.empty()) return;
  const std::string file = "data/" + name + ".csv";
  write(file, csv_of(table));
  write(file + ".json", sidecar.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  body_ += "<p class=\"notes\"><a href=\"" + html_escaped(file) + "\">csv</a></p>\n";
}

void Page::write(const std::string& file, const std::string& text) const {
  const fs::path path = folder_ / file;
  formats::make_directories(formats::real_file_system(), path.parent_path());
  formats::write_file_atomically(formats::real_file_system(), path, text);
}

void Page::drawn(const std::string& svg, const std::string& file) {
  std::string links;
  for (const std::string form : {"svg", "png", "csv", "json"}) {
    if (form == "png" && !can_convert_svg()) continue;
    links += "<a href=\"" + html_escaped(file) + "." + form + "\">" + form + "</a> ";
  }
  body_ += "<figure>" + inline_svg(svg, ++figures_) + "<figcaption>" + links +
           "</figcaption></figure>\n";
}

void Page::figure(const widgets::PlotSpec& plot, const json& sidecar) {
  formats::make_directories(formats::real_file_system(), folder_ / "figures");
  export_figure(plot, folder_ / "figures", sidecar);
  drawn(widgets::svg_of(plot), "figures/" + plot.id);
}

void Page::grid(const widgets::GridSpec& grid, const json& sidecar) {
  formats::make_directories(formats::real_file_system(), folder_ / "figures");
  export_grid(grid, folder_ / "figures", sidecar);
  drawn(widgets::svg_of(grid), "figures/" + grid.id);
}

void Page::begin_row() {
  end_row();
  body_ += "<div class=\"row\">\n";
  in_row_ = true;
}

void Page::end_row() {
  if (in_row_) body_ += "</div>\n";
  in_row_ = false;
}

void Page::data(const std::string& name, const json& result) {
  write("data/" + name + ".json",
        result.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

fs::path Page::finish() {
  const std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>" +
      html_escaped(title_) + "</title><style>" + kStyle + "</style></head><body>\n<h1>" +
      html_escaped(title_) + "</h1>\n<nav>" + contents_ + "</nav>\n" + body_ + "</body></html>\n";
  write("index.html", page);
  return folder_ / "index.html";
}

}  // namespace phasescope::app
