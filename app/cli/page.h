#pragma once
// A self-contained HTML page: figures are inline SVG, styles are in the page, nothing is fetched.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "app/cli/output.h"

namespace phasescope::app {

std::string html_escaped(const std::string& text);

class Page {
 public:
  // Figures and data are written below `folder` as they are added, in figures/ and data/.
  Page(std::filesystem::path folder, std::string title);

  // Ends an open row. Nothing happens where the section of this title is the open one.
  void section(const std::string& title, const std::string& lead = {});
  void paragraph(const std::string& text);
  // Text as it is, line breaks kept.
  void verbatim(const std::string& text);
  // A name writes the table to data/NAME.csv too.
  void table(const Table& table, const nlohmann::json& sidecar = {}, const std::string& name = {});
  void figure(const widgets::PlotSpec& plot, const nlohmann::json& sidecar);
  void grid(const widgets::GridSpec& grid, const nlohmann::json& sidecar);
  // A figure whose files (`file`.svg, .png, .csv, .json, below the folder) another has written.
  void drawn(const std::string& svg, const std::string& file);
  // Figures up to end_row() stand beside each other where there is room.
  void begin_row();
  void end_row();
  // Writes data/NAME.json.
  void data(const std::string& name, const nlohmann::json& result);

  // Writes index.html and returns its path.
  std::filesystem::path finish();

 private:
  // `file` is below the folder.
  void write(const std::string& file, const std::string& text) const;

  std::filesystem::path folder_;
  std::string title_, body_, contents_, section_title_;
  int sections_ = 0, figures_ = 0;
  bool in_row_ = false;
};

}  // namespace phasescope::app
