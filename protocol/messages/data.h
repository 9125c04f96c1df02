#pragma once
// Samples of a task, and what a check of a file of examples found: the answers of `data`.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

// uniform and blind: what guessing scores by the metric, every output symbol alike, and with the
// best answer by length and place. rows: lines of a file of examples (tasks/reference_file.h).
struct DataResult {
  std::string task, form, metric;
  std::vector<std::int64_t> length;  // in length_unit
  std::string length_unit, source;
  double uniform = 0, blind = 0;
  std::vector<json> rows;
  template <class V>
  void fields(V& v) {
    v("task", task), v("form", form), v("metric", metric), v("length", length);
    v("length_unit", length_unit), v("source", source);
    v("uniform", uniform, About{.title = "score of guessing among all symbols alike"});
    v("blind", blind, About{.title = "score of guessing by length and place"});
    v("rows", rows);
  }
};

struct DataCheckResult {
  std::string task;
  std::int64_t examples = 0, metrics = 0;
  std::vector<std::string> differences;  // the first of each row
  template <class V>
  void fields(V& v) {
    v("task", task), v("examples", examples), v("metrics", metrics);
    v("differences", differences);
  }
};

}  // namespace phasescope::protocol
