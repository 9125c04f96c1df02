#include "app/verbs/verb.h"

#include "formats/error.h"
#include "protocol/model_reading.h"

namespace phasescope::app {

std::string with_settings(const std::string& model, const protocol::Assignments& set) {
  protocol::ModelReading reading = protocol::model_reading(model);
  for (const std::string& assignment : set.list) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw formats::bad_usage("\"" + assignment + "\" sets nothing", "--set",
                               "write it as key=value");
    }
    reading.settings.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return protocol::name_of(reading);
}

}  // namespace phasescope::app
