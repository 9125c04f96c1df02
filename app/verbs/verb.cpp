#include "app/verbs/verb.h"

#include "app/figures/figures.h"
#include "formats/error.h"
#include "protocol/model_reading.h"

namespace phasescope::app {

using nlohmann::json;

json Run::sidecar(const json& provenance) const {
  return {{"command", command()}, {"program", "phasescope"}, {"provenance", provenance}};
}

std::string with_settings(const std::string& model, const protocol::Assignments& set) {
  protocol::ModelReading reading = protocol::model_reading(model);
  for (const std::string& assignment : set.list) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw formats::bad_usage("\"" + assignment + "\" sets nothing", "--set",
                               "write it as key=value");
    }
    reading.settings.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return protocol::name_of(reading);
}

Grid grid_of(const protocol::TensorRef& tensor) {
  Grid grid{.shape = tensor.shape};
  if (tensor.dtype == "F64") {
    const auto values = tensor.values<double>();
    grid.values.assign(values.begin(), values.end());
  } else {
    const auto values = tensor.values<float>();
    grid.values.assign(values.begin(), values.end());
  }
  return grid;
}

}  // namespace phasescope::app
