#include "model/settings.h"

#include "formats/gathered_errors.h"

namespace phasescope::model {

void set_fields(ModelConfig& config,
                const std::vector<std::pair<std::string, std::string>>& settings) {
  formats::GatheredErrors errors;
  bool encoding_known = true;
  for (const auto& [key, value] : settings) {
    // Options are those of the encoding that was asked for, whatever its name was to be.
    if (!encoding_known && key.starts_with("encoding.")) continue;
    ModelConfig changed = config;
    const bool done = errors.run([&] { set_field(changed, key, value); });
    if (done) config = std::move(changed);
    if (!done && key == "encoding.key") encoding_known = false;
  }
  errors.throw_if_any("settings");
}

}  // namespace phasescope::model
