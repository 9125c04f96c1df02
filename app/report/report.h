#pragma once
// The report page: everything Phasescope measures on some models for one text, led by what is
// visible at a glance.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/verbs/verb.h"

namespace phasescope::app {

struct ReportOptions {
  std::vector<std::string> models;
  nlohmann::json input = nlohmann::json::object();  // `input` and `length` of every request
  std::filesystem::path folder;
};

// Writes folder/index.html, folder/figures and folder/data (results as JSON, tables as CSV). A
// section whose measurement is refused (text too short, ...) says so and the rest goes on; a dead
// worker ends the report.
Output make_report(Run& run, const ReportOptions& options);

}  // namespace phasescope::app
