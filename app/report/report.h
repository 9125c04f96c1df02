#pragma once
// The report page: everything Phasescope measures on some models for one text, led by what is
// visible at a glance.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/verbs/verb.h"

namespace phasescope::app {

// What all requests of a report have in common.
struct ReportRequest {
  static constexpr const char* method = "report";
  static constexpr const char* verb = "report";
  std::vector<std::string> models;
  protocol::Running running;
  protocol::Reading reading;
  protocol::Corpus corpus;
  template <class V>
  void fields(V& v) {
    v("models", models, protocol::kModelsAbout);
    reading.fields(v);
    // It stands beside an input: a report measures some things on one text, others over many.
    protocol::About over_many = protocol::kCorpusAbout;
    over_many.excludes = "";
    v("corpus", corpus, over_many);
    running.fields(v);
  }
};

// Writes folder/index.html, folder/figures and folder/data (results as JSON, tables as CSV). A
// section whose measurement is refused (text too short, ...) says so and the rest goes on; a dead
// worker ends the report.
Output make_report(Run& run, const ReportRequest& request, const std::filesystem::path& folder);

}  // namespace phasescope::app
